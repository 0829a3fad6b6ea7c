package stint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// How long ago a task was aborted lately, and at how many rows of such tasks a look goes. A
	// transaction that stands still is ended after five seconds, and the walk finds the others.
	lately        = 10 * time.Second
	latelyRowsMax = 10_000

	// At how many tasks with FailFast one statement of a walk looks, how many tasks one transaction
	// aborts, and how much longer the pauses between two walks are than a walk.
	failedLookedMax = 1000
	needlessMax     = 1000
	failFastShare   = 50

	// How often a look or a walk waits in vain for the locks of others.
	heldMax = 8
)

// A failFaster aborts what only aborted tasks with FailFast need.
type failFaster struct {
	store *Store
	// begun is when the last walk began, and took how long it took: pauses of this process, no
	// times in the store.
	begun time.Time
	took  time.Duration
	// waits is how often a look or a walk has waited for the lock of a task in vain.
	waits int
}

// some walks through all tasks with FailFast, unless the last walk was not long ago.
func (f *failFaster) some(ctx context.Context) error {
	if time.Since(f.begun) < failFastShare*f.took {
		return nil
	}
	f.begun = time.Now() //nolint:forbidigo // a pause of this process
	err := f.all(ctx)
	f.took = time.Since(f.begun)
	return err
}

// A failedTask is an aborted task with FailFast.
type failedTask struct {
	key        int64
	finishedAt time.Time
}

// recent goes to what was aborted lately.
func (f *failFaster) recent(ctx context.Context) error {
	var failed []failedTask
	err := f.store.db.Run(ctx, pg.Step{
		Name: "lately_failed", Args: []any{lately, latelyRowsMax},
		Read: func(rows pgx.Rows) error {
			failed = nil // drops an answer that was cut off
			var task failedTask
			_, err := pgx.ForEachRow(rows, []any{&task.key, &task.finishedAt}, func() error {
				failed = append(failed, task)
				return nil
			})
			return err
		},
	})
	if err != nil {
		return err
	}
	return f.settleAll(ctx, failed)
}

// all is one walk.
func (f *failFaster) all(ctx context.Context) error {
	for after, looked := int64(0), int64(failedLookedMax); looked == failedLookedMax; {
		var failed []failedTask
		err := f.store.db.Run(ctx, pg.Step{
			Name: "find_failed", Args: []any{after, failedLookedMax},
			Read: func(rows pgx.Rows) error {
				var last *int64
				var keys []int64
				var ends []time.Time
				for rows.Next() { // there is one
					if err := rows.Scan(&looked, &last, &keys, &ends); err != nil {
						return err
					}
				}
				failed = nil // drops an answer that was cut off
				for i, key := range keys {
					failed = append(failed, failedTask{key, ends[i]})
				}
				after = pg.OrZero(last)
				return rows.Err()
			},
		})
		if err != nil {
			return err
		}
		if err := f.settleAll(ctx, failed); err != nil {
			return err
		}
	}
	return nil
}

// settleAll settles tasks in any order, so that those of which others lock some do not always come
// first.
func (f *failFaster) settleAll(ctx context.Context, failed []failedTask) error {
	f.waits = 0
	rand.Shuffle(len(failed), func(i, j int) { //nolint:gosec // no secret
		failed[i], failed[j] = failed[j], failed[i]
	})
	var errs []error
	for _, task := range failed {
		if err := f.settle(ctx, task); !errors.Is(err, errHeld) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

var (
	// errNeeded says that somebody has come to need one of the tasks that were to be aborted.
	errNeeded = errors.New("task is needed after all")
	// errHeld says that somebody else locks one of them, or is aborting them.
	errHeld = errors.New("task is locked")
)

// settle aborts what only an aborted task needs, and notes that when nothing is left, or only what
// others need: a walk comes back to that, since these may be aborted, too.
func (f *failFaster) settle(ctx context.Context, failed failedTask) error {
	for range attemptsMax {
		needs, err := f.needs(ctx, failed.key)
		if err != nil {
			return err
		}
		keys := needs.needless()
		if len(keys) == 0 {
			shared := len(needs.tasks) > 0
			return f.store.db.Run(ctx, pg.Step{
				Name: "note_failed", Args: []any{failed.key, failed.finishedAt, shared},
			})
		}
		err = f.abortAll(ctx, failed, keys, needs.reason())
		if err != nil && !errors.Is(err, errNeeded) { // otherwise look again
			return err
		}
	}
	return nil // the next walk goes on
}

// abortAll aborts tasks, some at a time. If somebody else locks one of them, it tries the halves
// separately, and so on, until it has waited in vain too often. So such a task holds up few others,
// and not for long.
func (f *failFaster) abortAll(
	ctx context.Context, failed failedTask, keys []int64, status string,
) error {
	held := false
	parts := slices.Collect(slices.Chunk(keys, needlessMax))
	for ; len(parts) > 0; parts = parts[1:] {
		if f.waits >= heldMax {
			return errHeld
		}
		part := parts[0]
		err := f.abort(ctx, failed, part, status)
		switch {
		case err == nil:
		case f.store.db.InTx() || !pg.IsCode(err, pg.CodeLockNotAvailable):
			return err
		default:
			f.waits++
			held = true
			if half := len(part) / 2; half > 0 {
				parts = append(parts, part[:half], part[half:])
			}
		}
	}
	if held {
		return errHeld
	}
	return nil
}

// abort aborts tasks, unless somebody needs one of them, or another process is at it. It goes by
// their keys: another task may have taken the ID of one since the look.
func (f *failFaster) abort(
	ctx context.Context, failed failedTask, keys []int64, status string,
) error {
	return f.store.transact(ctx, func(s *Store) error {
		// In the caller's transaction, the caller decides on lock_timeout.
		isMine, err := s.ask(ctx, append(pg.LimitWaiting(!f.store.db.InTx()), pg.Step{
			Name: "hold_failed", Args: []any{failed.key, failed.finishedAt},
		}))
		switch {
		case err != nil:
			return err
		case !isMine:
			return errHeld
		}
		tasks, err := s.withdrawKeys(ctx, keys)
		if err != nil {
			return err
		}
		taken := make([]int64, len(tasks))
		for i, task := range tasks {
			taken[i] = task.key
		}
		isNeeded, err := s.ask(ctx, []pg.Step{{
			Name: "still_needed", Args: []any{taken, failed.key, failed.finishedAt},
		}})
		switch {
		case err != nil:
			return err
		case isNeeded:
			return errNeeded
		}
		_, err = s.end(ctx, tasks, causeCancelled, status)
		return err
	})
}

// ask executes steps, of which the last returns a row that says yes or no, or none for no.
func (s *Store) ask(ctx context.Context, steps []pg.Step) (yes bool, err error) {
	steps[len(steps)-1].Read = func(rows pgx.Rows) error {
		yes = false // drops an answer that was cut off
		_, err := pgx.ForEachRow(rows, []any{&yes}, func() error { return nil })
		return err
	}
	err = s.db.Run(ctx, steps...)
	return yes, err
}

// needs is what an aborted task waits for.
type needs struct {
	failed, culprit TaskID
	tasks           []neededTask
}

// A neededTask is an unfinished task with the keys of those that need it.
type neededTask struct {
	key      int64
	neededBy []int64
}

func (f *failFaster) needs(ctx context.Context, key int64) (needs, error) {
	var found needs
	err := f.store.db.Run(ctx, pg.Step{
		Name: "needed_tasks", Args: []any{key},
		Read: func(rows pgx.Rows) error {
			found = needs{} // drops an answer that was cut off
			for rows.Next() {
				var task neededTask
				var key *int64
				var id, culprit *string
				if err := rows.Scan(&key, &id, &culprit, &task.neededBy); err != nil {
					return err
				}
				if key == nil {
					found.failed, found.culprit = TaskID(pg.OrZero(id)), TaskID(pg.OrZero(culprit))
					continue
				}
				task.key = *key
				found.tasks = append(found.tasks, task)
			}
			return rows.Err()
		},
	})
	return found, err
}

// needless are the tasks that nothing needs, or only others of them, those that need others ahead
// of these. So if only some are aborted, a look finds the rest.
func (n *needs) needless() []int64 {
	left := make([]int, len(n.tasks)) // how many need it that are not chosen
	serves := make(map[int64][]int)   // the tasks that one needs, by its key
	var chosen []int
	for i, task := range n.tasks {
		left[i] = len(task.neededBy)
		for _, key := range task.neededBy {
			serves[key] = append(serves[key], i)
		}
		if left[i] == 0 {
			chosen = append(chosen, i)
		}
	}
	var keys []int64
	for at := 0; at < len(chosen); at++ {
		task := &n.tasks[chosen[at]]
		keys = append(keys, task.key)
		for _, i := range serves[task.key] {
			if left[i]--; left[i] == 0 {
				chosen = append(chosen, i)
			}
		}
	}
	return keys
}

// reason is the status of the tasks that are aborted.
func (n *needs) reason() string {
	reason := fmt.Sprintf("only %q needed it, which was aborted", string(n.failed))
	if n.culprit != "" && n.culprit != n.failed {
		reason += fmt.Sprintf(" because of %q", string(n.culprit))
	}
	return reason
}
