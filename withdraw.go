package stint

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// A withdrawn task is one that withdraw_tasks took out of its state, or found owned or final.
type withdrawn struct {
	id    TaskID
	key   int64
	state int16
	tries int32
	// position is where it was in the queue, nil unless it was ready.
	position *int64
	// notBefore is its time, nil unless it was scheduled.
	notBefore *time.Time
	// actor is its owner, nil unless it was owned.
	actor *string
}

func (t withdrawn) final() bool { return t.state >= stateCompleted }

// withdrawNamed withdraws the tasks with these IDs, all of which must exist, and passes them on to
// the rest of the verb, in one transaction.
func (s *Store) withdrawNamed(
	ctx context.Context, ids []TaskID, owned bool, then func(*Store, []withdrawn) error,
) error {
	if err := checkIDs(ids); err != nil {
		return err
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return s.checkOpen(ctx)
	}
	return s.transact(ctx, func(s *Store) error {
		tasks, err := s.withdraw(ctx, ids, owned)
		if err != nil {
			return err
		}
		if err := requireAll(ids, idsOf(tasks)); err != nil {
			return err
		}
		return then(s, tasks)
	})
}

// withdraw takes the tasks with these IDs out of their states, except for those that are final. If
// owned is set, it takes those in progress, too; otherwise it readies the final ones for erase. IDs
// that no task has are left out of the answer.
func (s *Store) withdraw(
	ctx context.Context, ids []TaskID, owned bool,
) ([]withdrawn, error) {
	var done []withdrawn
	endsKept := owned // final ones are of no interest then
	for range attemptsMax {
		named, err := s.keysOf(ctx, ids)
		if err != nil || len(named) == 0 {
			return done, err
		}
		taken, err := s.takeOut(ctx, named, owned, &endsKept)
		if err != nil {
			return nil, err
		}
		ids = slices.Collect(maps.Values(named)) // moved on meanwhile: look again
		if !endsKept {                           // tasks to erase must stay final: look again
			taken = slices.DeleteFunc(taken, func(task withdrawn) bool {
				if task.final() {
					ids = append(ids, task.id)
				}
				return task.final()
			})
		}
		done = append(done, taken...)
		if len(ids) == 0 {
			return done, nil
		}
	}
	return nil, taskError(ids, errUnstable)
}

// withdrawKeys withdraws the very tasks with these keys, also those in progress. It leaves a task
// alone that has taken the ID of one of them meanwhile.
func (s *Store) withdrawKeys(ctx context.Context, keys []int64) (done []withdrawn, err error) {
	endsKept := true // final ones are of no interest
	for range attemptsMax {
		named := make(map[int64]TaskID, len(keys))
		err := s.run(ctx, step{name: "task_ids", args: []any{keys}, read: readNames(named)})
		if err != nil || len(named) == 0 {
			return done, err
		}
		taken, err := s.takeOut(ctx, named, true, &endsKept)
		if err != nil {
			return nil, err
		}
		done = append(done, taken...)
		if len(named) == 0 {
			return done, nil
		}
		keys = slices.Collect(maps.Keys(named)) // moved on meanwhile: look again
	}
	return nil, errUnstable
}

// takeOut takes tasks out of their states, and out of named. What is left of that has moved on.
func (s *Store) takeOut(
	ctx context.Context, named map[int64]TaskID, owned bool, endsKept *bool,
) (done []withdrawn, err error) {
	keys := slices.Sorted(maps.Keys(named))
	var steps []step
	if !*endsKept {
		steps = append(steps, keepEnds(keys, endsKept))
	}
	steps = append(steps,
		step{name: "carve_ready", args: []any{keys}}, carveLeased(singles(keys)))
	room := &notices{}
	steps = append(steps, s.makeRoom(keys, keys, nil, room))
	if !owned {
		steps = append(steps, step{name: "carve_finished", args: []any{keys}})
	}
	err = s.run(ctx, append(steps, step{
		name: "withdraw_tasks", args: []any{keys, owned, !owned},
		read: func(rows pgx.Rows) error {
			for rows.Next() {
				var task withdrawn
				err := rows.Scan(&task.key, &task.state, &task.tries, &task.position,
					&task.notBefore, &task.actor)
				if err != nil {
					return err
				}
				task.id = named[task.key]
				delete(named, task.key)
				done = append(done, task)
			}
			return rows.Err()
		},
	})...)
	if err != nil {
		return nil, err
	}
	s.notify(ctx, room)
	return done, nil
}

// requireAll refuses IDs that no task has.
func requireAll(ids []TaskID, found iter.Seq[TaskID]) error {
	has := make(map[TaskID]bool, len(ids))
	for id := range found {
		has[id] = true
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id TaskID) bool { return has[id] })
	if len(missing) > 0 {
		return taskError(missing, ErrTaskNotFound)
	}
	return nil
}

// idsOf yields the IDs of withdrawn tasks.
func idsOf(tasks []withdrawn) iter.Seq[TaskID] {
	return func(yield func(TaskID) bool) {
		for _, task := range tasks {
			if !yield(task.id) {
				return
			}
		}
	}
}

func refuseOwned(tasks []withdrawn) error {
	var owned []TaskID
	for _, task := range tasks {
		if task.state == stateInProgress {
			owned = append(owned, task.id)
		}
	}
	if len(owned) == 0 {
		return nil
	}
	slices.Sort(owned)
	return &TaskError{IDs: owned, Err: ErrTaskInProgress}
}
