package stint

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// A store that maintains the schema prunes four times within its shortest retention, but within
	// these bounds.
	pruneEveryLeast = time.Second
	pruneEveryMost  = 30 * time.Second

	// How much one transaction looks at: about this many tasks, or this many predecessors of tasks
	// that are gone.
	prunedTasksMax = 5000
	prunedKeysMax  = 1000
	// The transaction before tells how many spans make up that many tasks. This is the least
	// number.
	prunedSpansLeast = 16

	// Walks begin anew after a while, to find the tasks that they have missed: after a minute or,
	// if that is longer, after fifty times the time that it took to look at the tasks that stay.
	pruneAnew      = time.Minute
	pruneAnewShare = 50
)

// Prune deletes finished tasks past the retention of this store (R18), as [Store.Maintain] does
// among other things, and returns how many. To prune earlier than the other stores do, make a store
// for the purpose:
//
//	stint.Options{
//		Maintenance: stint.MaintainNever,
//		Retention:   stint.Retention{Completed: time.Hour, Aborted: stint.KeepForever},
//	}
//
// Tasks that somebody may still ask for stay: the predecessors of tasks that have not completed
// and, for an hour, tasks with PostResult. An aborted task keeps its predecessors until it is
// pruned itself, since it may be retried and ask for them.
//
// It works in small transactions, so that nobody waits for it. It prunes nothing while
// [Store.RetryTasks] is under way, nor in a transaction that is stricter than READ COMMITTED, which
// may overlook who asks. If ctx ends or the connection breaks, it returns the error and how many
// tasks are certainly gone; the call may be repeated, and be made concurrently. In the caller's
// transaction it is undone if that rolls back.
func (s *Store) Prune(ctx context.Context) (int64, error) {
	p := s.newPruner()
	p.quiet = true // its retention may be for this once
	pruned, _, err := p.pass(ctx)
	if err != nil {
		return pruned, fmt.Errorf("prune: %w", err)
	}
	return pruned, nil
}

// A pruner deletes finished tasks past their retention. It walks from the oldest task on, and the
// next call goes on where the last one stopped. It spares tasks that other tasks may still ask for,
// and looks at them again when those other tasks are gone.
type pruner struct {
	store *Store
	// quiet says that the pruner does not tell others how far pruning is behind.
	quiet bool
	walks []pruneWalk
	spans int64
	// freed are the predecessors of tasks that are gone.
	freed []int64
	// begun is when the walks last began with the oldest tasks. took is how long they have since
	// looked at tasks that stay, until they came to the end, which ended says. told is when the
	// others were last told how far pruning is behind. These times measure pauses of this process;
	// they are no times in the store.
	begun time.Time
	took  time.Duration
	ended bool
	told  time.Time
}

// A pruneWalk goes through the completed or the aborted tasks, up to an age.
type pruneWalk struct {
	aborted bool
	age     time.Duration
	// at and lo are the place that the walk has reached.
	at pgtype.Timestamptz
	lo int64
}

func (s *Store) newPruner() *pruner {
	p := &pruner{store: s, spans: prunedSpansLeast}
	p.rewind()
	return p
}

// rewind makes the walks begin with the oldest tasks. Tasks with PostResult may stay longer: a
// second walk is for them.
func (p *pruner) rewind() {
	p.walks, p.freed = nil, nil
	for _, aborted := range []bool{false, true} {
		keep := age(p.store.keep.of(aborted))
		if keep == nil {
			continue
		}
		first := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
		p.walks = append(p.walks, pruneWalk{aborted: aborted, age: *keep, at: first})
		if *keep < retentionPostResultMinimum {
			p.walks = append(p.walks,
				pruneWalk{aborted: aborted, age: retentionPostResultMinimum, at: first})
		}
	}
}

// keepUp prunes until little is left to prune. While somebody opens tasks again, it waits.
func (p *pruner) keepUp(ctx context.Context) error {
	for {
		if time.Since(p.begun) > max(pruneAnew, pruneAnewShare*p.took) {
			p.rewind()
			p.begun, p.took, p.ended = time.Now(), 0, false //nolint:forbidigo // see there
		}
		began := time.Now() //nolint:forbidigo // see there
		_, done, err := p.pass(ctx)
		if err != nil || done && time.Since(began) < pruneEveryMost {
			return err
		}
		if done { // much has become old meanwhile
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pg.Around(pruneEveryLeast)):
		}
	}
}

// pass prunes the tasks that are old when it begins, and returns how many. It leaves tasks that
// become old meanwhile to the next pass: otherwise it would never end while tasks finish all the
// time. It stops, and is not done, if somebody opens tasks again meanwhile, since these may ask for
// finished tasks.
func (p *pruner) pass(ctx context.Context) (pruned int64, done bool, err error) {
	began := time.Now() //nolint:forbidigo // see there
	err = p.store.db.Run(ctx, pg.Step{Name: "forget_asked"}, pg.Step{Name: "forget_unattended"})
	if err != nil {
		return 0, false, err
	}
	if len(p.walks) == 0 {
		return 0, true, p.forget(ctx)
	}
	for next := 0; next < len(p.walks) || len(p.freed) > 0; {
		var walk *pruneWalk
		if len(p.freed) == 0 {
			walk = &p.walks[next]
		}
		since := time.Since(began)
		answer, err := p.pruneSome(ctx, walk, since)
		if err != nil || !answer.kept {
			return pruned, false, err
		}
		pruned += answer.pruned
		if looked := max(answer.walked, 1); !p.ended && answer.pruned < looked {
			took := time.Since(began) - since
			p.took += took / time.Duration(looked) * time.Duration(looked-answer.pruned)
		}
		if walk != nil && answer.walked == 0 {
			next++
		}
		if answer.overdue != nil && min(since, time.Since(p.told)) > pruneEveryLeast {
			if err := p.tell(ctx, *answer.overdue+since); err != nil {
				return pruned, false, err
			}
		}
	}
	p.ended = true
	return pruned, true, p.tell(ctx, 0)
}

// tell notes how far pruning is behind. It does not in the caller's transaction, which would keep
// others from noting it.
func (p *pruner) tell(ctx context.Context, behind time.Duration) error {
	p.told = time.Now() //nolint:forbidigo // see there
	if p.quiet || p.store.db.InTx() {
		return nil
	}
	return p.store.db.Run(ctx, pg.Step{Name: "note_pruning", Args: []any{behind}})
}

// forget deletes the note of how far pruning is behind, if the stores that pruned once no longer
// do.
func (p *pruner) forget(ctx context.Context) error {
	if p.quiet {
		return nil
	}
	return p.store.db.Run(ctx, pg.Step{Name: "forget_pruning"})
}

// A pruneAnswer is the result of a transaction that prunes. Kept is not set if it did nothing,
// since somebody opens tasks again.
type pruneAnswer struct {
	kept           bool
	walked, pruned int64
	at             pgtype.Timestamptz
	lo             *int64
	overdue        *time.Duration
	freed          []int64
}

func (a *pruneAnswer) read(rows pgx.Rows) error {
	for rows.Next() { // there is one
		err := rows.Scan(&a.walked, &a.at, &a.lo, &a.pruned, &a.overdue, &a.freed)
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// pruneSome takes a walk further, up to the tasks that were old when the pass began, as long ago as
// since says. Without a walk it looks at freed tasks.
func (p *pruner) pruneSome(
	ctx context.Context, walk *pruneWalk, since time.Duration,
) (pruneAnswer, error) {
	keys := p.freed[max(0, len(p.freed)-prunedKeysMax):]
	prune := pg.Step{Name: "prune_finished"}
	walked := pruneWalk{}
	args := []any{nil}
	if walk != nil {
		walked, args, keys = *walk, []any{walk.aborted}, nil
	}
	upTo := min(walked.age, math.MaxInt64-since) + since
	prune.Args = append(args, walked.at, walked.lo, upTo, p.spans, prunedTasksMax, keys,
		age(p.store.keep.Completed), age(p.store.keep.Aborted), retentionPostResultMinimum)
	var answer pruneAnswer
	err := p.store.transact(ctx, func(s *Store) error {
		answer = pruneAnswer{}
		err := s.db.Run(ctx, pg.Step{
			Name: "try_keep_ends", NoPlanner: true,
			Read: func(rows pgx.Rows) error {
				var err error
				answer.kept, err = pgx.CollectOneRow(rows, pgx.RowTo[bool])
				return err
			},
		})
		if err != nil || !answer.kept {
			return err
		}
		prune.Read = answer.read
		return s.db.Run(ctx, prune)
	})
	if err != nil || !answer.kept {
		return answer, err
	}
	if answer.lo != nil {
		walk.at, walk.lo = answer.at, *answer.lo
		p.spans = min(max(2*answer.walked, prunedSpansLeast), prunedTasksMax)
	}
	p.freed = append(p.freed[:len(p.freed)-len(keys)], answer.freed...)
	return answer, nil
}

// of is the retention of the aborted tasks, or of the completed ones.
func (r Retention) of(aborted bool) time.Duration {
	if aborted {
		return r.Aborted
	}
	return r.Completed
}

// pruneEvery is how often to prune.
func (r Retention) pruneEvery() time.Duration {
	shortest := min(r.Completed, r.Aborted)
	return min(max(shortest/4, pruneEveryLeast), pruneEveryMost) //nolint:mnd // see there
}

const (
	// How many tasks one statement looks at, and how much longer the pauses between two walks are
	// than a walk.
	droppedMax   = 1000
	droppedShare = 50
)

// A dropper deletes what is kept for tasks besides their definitions, once they are gone.
type dropper struct {
	store *Store
	// begun is when the last walk began, and took how long it took: pauses of this process, no
	// times in the store.
	begun time.Time
	took  time.Duration
}

// keepUp walks through everything, unless the last walk was not long ago.
func (d *dropper) keepUp(ctx context.Context) error {
	if time.Since(d.begun) < droppedShare*d.took {
		return nil
	}
	d.begun = time.Now() //nolint:forbidigo // see there
	err := d.pass(ctx)
	d.took = time.Since(d.begun)
	return err
}

func (d *dropper) pass(ctx context.Context) error {
	for _, statement := range []string{"drop_steps", "drop_answer_keys"} {
		if err := d.walk(ctx, statement); err != nil {
			return err
		}
	}
	keep := d.store.history
	if keep.Tries == 0 { // others keep tries, and say how many
		keep.Tries = keptTriesMax
	}
	return d.walk(ctx, "drop_tries", keep.Tries, pg.NonZero(keep.Age))
}

// walk goes through a table with a statement that looks at some tasks at a time.
func (d *dropper) walk(ctx context.Context, statement string, more ...any) error {
	for after, looked := int64(0), int64(droppedMax); looked == droppedMax; {
		err := d.store.db.Run(ctx, pg.Step{
			Name: statement, Args: append([]any{after, droppedMax}, more...),
			Read: func(rows pgx.Rows) error {
				for rows.Next() { // there is one
					var last *int64
					if err := rows.Scan(&looked, &last); err != nil {
						return err
					}
					if last != nil {
						after = *last
					}
				}
				return rows.Err()
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
