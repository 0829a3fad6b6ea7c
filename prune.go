package stint

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// A store that maintains prunes four times in the shortest of its retentions, within bounds.
	pruneEveryLeast = time.Second
	pruneEveryMost  = 30 * time.Second

	// What one transaction looks at: about so many tasks, or predecessors of tasks that are gone.
	prunedTasksMax = 5000
	prunedKeysMax  = 1000
	// How many spans make up so many tasks is known from the transaction before.
	prunedSpansLeast = 16

	// Walks begin anew after a while, for what they have missed: a minute, or fifty times as long
	// as it took to look at what stays, if that is much.
	pruneAnew      = time.Minute
	pruneAnewShare = 50
)

// Prune deletes finished tasks past the retention of this store (R18), as [Store.Maintain] does
// among other things, and returns how many. To prune earlier than the other stores do, make one for
// the purpose:
//
//	stint.Options{
//		Maintenance: stint.MaintainNever,
//		Retention:   stint.Retention{Completed: time.Hour, Aborted: stint.KeepForever},
//	}
//
// Tasks that somebody may still ask for stay: the predecessors of tasks that have not completed,
// and for an hour tasks with PostResult. An aborted task may be retried, and ask, until it is
// pruned itself.
//
// It works in small transactions, so that nobody waits for it. While [Store.RetryTasks] is under
// way it leaves everything to the next call, and so it does in a transaction that is stricter than
// READ COMMITTED, which may overlook who asks. If ctx ends or the connection breaks, it returns the
// error and how many tasks are gone for sure; the call may be repeated, also by many at once. In
// the caller's transaction all of it is undone with that.
func (s *Store) Prune(ctx context.Context) (int64, error) {
	p := s.newPruner()
	p.quiet = true // its retention may be for this once
	pruned, _, err := p.pass(ctx)
	if err != nil {
		return pruned, fmt.Errorf("prune: %w", err)
	}
	return pruned, nil
}

// A pruner deletes finished tasks past their retention. It walks from the oldest on, and goes on
// where it was when it is called again: what it spared because somebody may ask for it, it looks at
// again when those who may have gone.
type pruner struct {
	store *Store
	// quiet says that others are not told how far pruning is behind.
	quiet bool
	walks []pruneWalk
	spans int64
	// freed are tasks that others waited for which are gone.
	freed []int64
	// begun is when the walks last began with the oldest tasks, took how long they looked at what
	// stays until they came to the end, which ended says; told is when the others were last told:
	// pauses of this process, no times in the store.
	begun time.Time
	took  time.Duration
	ended bool
	told  time.Time
}

// A pruneWalk goes through the completed or the aborted tasks, up to an age.
type pruneWalk struct {
	aborted bool
	age     time.Duration
	// at and lo are where it is.
	at pgtype.Timestamptz
	lo int64
}

func (s *Store) newPruner() *pruner {
	p := &pruner{store: s, spans: prunedSpansLeast}
	p.rewind()
	return p
}

// rewind has the walks begin with the oldest tasks. Those with PostResult stay for longer, perhaps:
// a second walk comes to them.
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
		case <-time.After(around(pruneEveryLeast)):
		}
	}
}

// pass prunes what is old when it begins, and returns how many tasks. What becomes old meanwhile is
// left to the next one, or it would never end where tasks finish all the time. It is not done if
// somebody opens tasks again meanwhile, which may ask for what has ended.
func (p *pruner) pass(ctx context.Context) (pruned int64, done bool, err error) {
	began := time.Now() //nolint:forbidigo // see there
	if err := p.store.run(ctx, step{name: "forget_asked"}); err != nil {
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

// tell says how far pruning is behind. In the caller's transaction it would keep others from it.
func (p *pruner) tell(ctx context.Context, behind time.Duration) error {
	p.told = time.Now() //nolint:forbidigo // see there
	if p.quiet || p.store.tx != nil {
		return nil
	}
	return p.store.run(ctx, step{name: "note_pruning", args: []any{behind}})
}

// forget drops the word on how far pruning is behind, of those who pruned once.
func (p *pruner) forget(ctx context.Context) error {
	if p.quiet {
		return nil
	}
	return p.store.run(ctx, step{name: "forget_pruning"})
}

// A pruneAnswer is what came of a transaction of pruning. Kept is not set if nothing did, since
// somebody opens tasks again.
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

// pruneSome takes a walk further, up to what was old so long ago, or, without one, looks at tasks
// that were freed.
func (p *pruner) pruneSome(
	ctx context.Context, walk *pruneWalk, since time.Duration,
) (pruneAnswer, error) {
	keys := p.freed[max(0, len(p.freed)-prunedKeysMax):]
	prune := step{name: "prune_finished"}
	walked := pruneWalk{}
	args := []any{nil}
	if walk != nil {
		walked, args, keys = *walk, []any{walk.aborted}, nil
	}
	upTo := min(walked.age, math.MaxInt64-since) + since
	prune.args = append(args, walked.at, walked.lo, upTo, p.spans, prunedTasksMax, keys,
		age(p.store.keep.Completed), age(p.store.keep.Aborted), retentionPostResultMinimum)
	var answer pruneAnswer
	err := p.store.transact(ctx, func(s *Store) error {
		answer = pruneAnswer{}
		err := s.run(ctx, step{
			name: "try_keep_ends", unplanned: true,
			read: func(rows pgx.Rows) error {
				var err error
				answer.kept, err = pgx.CollectOneRow(rows, pgx.RowTo[bool])
				return err
			},
		})
		if err != nil || !answer.kept {
			return err
		}
		prune.read = answer.read
		return s.run(ctx, prune)
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
