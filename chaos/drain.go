//go:build unix

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/work"
)

//go:embed sql/unfinished.sql
var unfinishedSQL string

const (
	// stuckAfter is how long no task may end before those that are left are stuck: longer than the
	// longest lease, which is the minute of relays between shards.
	stuckAfter = 100 * time.Second
	drainMax   = 10 * time.Minute

	// lostAfter is how long no task may end before it is asked which wait for tasks of another
	// shard that were lost.
	lostAfter = 10 * time.Second

	// longAfter is how long no task may end before those in progress are aborted whose lease was
	// extended by a clock that was ahead, or cannot be told from them.
	longAfter = 90 * time.Second

	drainLook = 250 * time.Millisecond
	lookMax   = 20 * time.Second
	namedMax  = 5
)

// drain stops inserts and waits until all tasks have ended.
func (r *round) drain(ctx context.Context) error {
	r.order(work.OrderPace + "-1")
	var left []unfinished
	var err, lost error
	least, moved := math.MaxInt, now()
	for began := now(); ; {
		left, err = r.left(ctx)
		if err == nil && len(left) == 0 {
			return nil
		}
		if err == nil && len(left) < least {
			least, moved = len(left), now()
		}
		if time.Since(moved) > stuckAfter || time.Since(began) > drainMax {
			break
		}
		if r.fault.Loses && time.Since(moved) > lostAfter {
			lost = r.answerLost(ctx)
		}
		if r.fault.Jumps && time.Since(moved) > longAfter {
			lost = r.abortLong(ctx)
		}
		if !work.Pause(ctx, drainLook) {
			return ctx.Err()
		}
	}
	if err = errors.Join(err, lost); err != nil {
		return fmt.Errorf("the tasks that are left: %w", err)
	}
	for i, task := range left {
		if i == namedMax {
			r.violated("and %d more tasks have not ended", len(left)-namedMax)
			break
		}
		r.violated("task %q has not ended: it is %s, on try %d", task.ID, task.State, task.Tries)
	}
	return nil
}

// left are the tasks that have not ended.
func (r *round) left(ctx context.Context) (left []unfinished, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	for _, p := range r.places() {
		some, failed := r.settle(ctx, p)
		left, err = append(left, some...), errors.Join(err, failed)
	}
	return left, err
}

// settle ends what keeps the tasks of a place from being performed, and returns those that have not
// ended.
func (r *round) settle(ctx context.Context, p place) ([]unfinished, error) {
	store, err := p.open()
	if err != nil {
		return nil, err
	}
	defer store.Close(ctx) //nolint:errcheck // it has no session
	if err := r.free(ctx, store); err != nil {
		return nil, err
	}
	return query[unfinished](ctx, p, unfinishedSQL, r.prefix())
}

// prefix begins the IDs of the tasks of the round.
func (r *round) prefix() string { return fmt.Sprintf("%d/", r.number) }

// open opens a store that only looks.
func (p place) open() (*stint.Store, error) {
	return stint.New(p.server.Pool(), stint.Options{
		Schema: p.schema, Maintenance: stint.MaintainNever, PollOnly: true,
	})
}

// free deletes schedules, and ends pauses, and questions that nobody answers any more.
func (r *round) free(ctx context.Context, store *stint.Store) error {
	schedules, err := store.ListSchedules(ctx)
	if err != nil {
		return err
	}
	for _, s := range schedules {
		if err := store.DeleteSchedules(ctx, s.Name); err != nil &&
			!errors.Is(err, stint.ErrScheduleNotFound) {
			return err
		}
	}
	limits, err := store.ListLimits(ctx)
	if err != nil {
		return err
	}
	for _, l := range limits {
		if !l.PausedSince.IsZero() {
			err = errors.Join(err, store.Resume(ctx, l.Action))
		}
		for key := range l.PausedKeys {
			err = errors.Join(err, store.ResumeKeys(ctx, l.Action, key))
		}
	}
	if err != nil {
		return err
	}
	if r.fault.Jumps {
		if err := r.startLate(ctx, store); err != nil {
			return err
		}
	}
	// Of all rounds: a list by a prefix looks at some tasks of the prefix only.
	asked, err := store.ListTasks(ctx, stint.Filter{
		Actions: []string{stint.External}, States: []stint.State{stint.StateReady}, Limit: 1000,
	})
	if err != nil || len(asked.Tasks) == 0 {
		return err
	}
	var answers []stint.Answer
	for _, task := range asked.Tasks {
		answers = append(answers, stint.Answer{ID: task.ID, Code: stint.StatusCompleted})
	}
	_, err = store.AnswerTasks(ctx, "the end of a round", answers)
	return err
}

// startLate starts tasks that were returned for another try by a clock that was ahead, as
// docs/operations/clock.md advises.
func (r *round) startLate(ctx context.Context, store *stint.Store) error {
	late, err := store.ListTasks(ctx, stint.Filter{
		States: []stint.State{stint.StateScheduled}, Limit: 1000,
	})
	if err != nil || len(late.Tasks) == 0 {
		return err
	}
	var ids []stint.TaskID
	for _, task := range late.Tasks {
		ids = append(ids, task.ID)
	}
	_, err = store.ChangeTasks(ctx, ids, stint.TaskChanges{StartNow: true})
	if errors.Is(err, stint.ErrTaskStarted) || errors.Is(err, stint.ErrTaskNotFound) {
		return nil // the next look finds the others
	}
	return err
}

// abortLong aborts tasks whose leases end much later, as docs/operations/clock.md advises.
func (r *round) abortLong(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	var failed error
	for _, p := range r.places() {
		store, err := p.open()
		if err != nil {
			return err
		}
		defer store.Close(ctx) //nolint:errcheck // it has no session
		owned, err := store.ListTasks(ctx, stint.Filter{
			States: []stint.State{stint.StateInProgress}, Limit: 1000,
		})
		failed = errors.Join(failed, err)
		var long []stint.TaskID
		for _, task := range owned.Tasks {
			if time.Until(task.LeaseUntil) > stuckAfter {
				long = append(long, task.ID)
			}
		}
		_, err = store.AbortTasks(ctx, long, "the end of a round")
		failed = errors.Join(failed, err)
	}
	return failed
}

// answerLost answers for tasks that were lost those of the other shard that wait for them, as
// docs/operations/shards.md advises for a shard that was restored.
func (r *round) answerLost(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	cluster, err := work.Cluster(r.server.Address(), r.other.Address(),
		slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer cluster.Close(ctx) //nolint:errcheck // it has no session
	found, err := cluster.Check(ctx)
	for _, one := range found {
		if one.Rule != "a placeholder is answered" {
			continue
		}
		store, opened := cluster.Store(ctx, one.Shard)
		if opened != nil {
			return errors.Join(err, opened)
		}
		_, failed := store.AnswerTasks(ctx, "the end of a round", []stint.Answer{
			{ID: one.ID, Code: stint.StatusCompleted},
		})
		err = errors.Join(err, failed)
	}
	return err
}

// An unfinished task has not ended.
type unfinished struct {
	ID    string
	State string
	Tries int
}

// query reads rows of a place by the places of their columns.
func query[T any](ctx context.Context, p place, sql string, args ...any) ([]T, error) {
	sql = strings.ReplaceAll(sql, "stint.", pgx.Identifier{p.schema}.Sanitize()+".")
	rows, err := p.server.Pool().Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// violated takes note that a promise was broken.
func (r *round) violated(format string, args ...any) {
	r.result.Violations = append(r.result.Violations, fmt.Sprintf(format, args...))
}
