package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// An Inconsistency is a state of the tables that should be impossible.
type Inconsistency struct {
	Rule  string // says what should be
	ID    TaskID // the task concerned, if it has a definition
	Found string // says what is
}

// String writes the inconsistency in one line.
func (i Inconsistency) String() string {
	return fmt.Sprintf("%s: task %q: %s", i.Rule, string(i.ID), i.Found)
}

// inconsistenciesMax is how many inconsistencies Check returns at most.
const inconsistenciesMax = 1000

// Check compares the tables with one another: each task is in exactly one state, counters equal
// dependencies, no task has begun before its predecessors ended, none waits for ever, there is no
// cycle, nothing is half settled, no lease remains a minute after it expired, and limits count the
// tasks that they should and hold up no others. It returns up to 1,000 findings of each kind; an
// empty answer means that nothing is wrong.
//
// It changes nothing, locks nothing and may be called on a store in use: each of its statements
// sees one instant. It reads all tables from end to end, which takes about a second per few hundred
// thousand tasks. If tasks seem to be held up by a limit that is not reached, it looks again after
// three seconds, since stores that maintain mend what a process that died has left so.
func (s *Store) Check(ctx context.Context) ([]Inconsistency, error) {
	found, err := s.check(ctx)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	return found, nil
}

func (s *Store) check(ctx context.Context) ([]Inconsistency, error) {
	if err := s.checkUsable(ctx); err != nil {
		return nil, err
	}
	unhurried := *s
	unhurried.unhurried = true // between its statements it may read many tasks, and locks none
	var found []Inconsistency
	err := unhurried.within(ctx, pgx.ReadCommitted, "", func(tx pgx.Tx) error {
		for _, find := range []func(context.Context, pgx.Tx) ([]Inconsistency, error){
			s.findInconsistencies, s.findParked, s.findCycles,
		} {
			more, err := find(ctx, tx)
			if err != nil {
				return err
			}
			found = append(found, more...)
		}
		return nil
	})
	return found, err
}

func (s *Store) findInconsistencies(ctx context.Context, tx pgx.Tx) ([]Inconsistency, error) {
	if err := s.set(ctx, tx, "set_path"); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, s.statements["plan_for_all"]); err != nil {
		return nil, err
	}
	return s.readInconsistencies(ctx, tx, "check_store")
}

func (s *Store) readInconsistencies(
	ctx context.Context, tx pgx.Tx, statement string,
) ([]Inconsistency, error) {
	rows, err := tx.Query(ctx, s.statements[statement], inconsistenciesMax)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Inconsistency, error) {
		var i Inconsistency
		var key int64
		var id, text *string
		err := row.Scan(&i.Rule, &key, &id, &text)
		if id != nil {
			i.ID = TaskID(*id)
		}
		if text != nil {
			i.Found = *text
		}
		if i.ID == "" {
			i.Found = fmt.Sprintf("key %d: %s", key, i.Found)
		}
		return i, err
	})
}

// mendedWithin is how soon maintainers mend what a process has left undone that died.
const mendedWithin = 3 * time.Second

// findParked finds tasks that are parked though nothing holds them up, and stay so.
func (s *Store) findParked(ctx context.Context, tx pgx.Tx) ([]Inconsistency, error) {
	before, err := s.readInconsistencies(ctx, tx, "check_parked")
	if err != nil || len(before) == 0 {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(mendedWithin):
	}
	found, err := s.readInconsistencies(ctx, tx, "check_parked")
	return slices.DeleteFunc(found, func(i Inconsistency) bool {
		return !slices.Contains(before, i)
	}), err
}

// findCycles finds one cycle, if there is any.
func (s *Store) findCycles(ctx context.Context, tx pgx.Tx) ([]Inconsistency, error) {
	rows, err := tx.Query(ctx, s.statements["unsettled_edges"])
	if err != nil {
		return nil, err
	}
	numbered := newKeyGraph()
	if err := numbered.read(rows); err != nil {
		return nil, err
	}
	cycle := numbered.cycle()
	if cycle == nil {
		return nil, nil
	}
	err = s.WithTx(tx).cycleError(ctx, cycle, map[int64]TaskID{})
	if !errors.Is(err, ErrCycle) {
		return nil, err
	}
	return []Inconsistency{{Rule: "dependencies have no cycle (R4)", Found: err.Error()}}, nil
}
