package stint

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// attemptsMax is how often a verb looks for tasks that change their states meanwhile. Each attempt
// waits for the transaction that locks the task, so a second attempt hardly ever misses.
const attemptsMax = 20

// errUnstable occurs only in a transaction that is stricter than READ COMMITTED. The caller must
// begin that transaction again.
var errUnstable = fmt.Errorf("task changed its state at every attempt: %w", &pgconn.PgError{
	Severity: "ERROR", Code: codeSerializationFailure,
	Message: "could not serialize access due to concurrent update",
})

// A heldTask is a task that hold keeps in its state.
type heldTask struct {
	key   int64
	state int16
	late  bool
	// completed and aborted count the tasks that a completed spontaneous task stands for.
	completed, aborted *int32
}

func (t heldTask) final() bool { return t.state >= stateCompleted }

// started reports whether it is too late for the task to wait for something.
func (t heldTask) started() bool { return t.final() || t.state == stateInProgress || t.late }

func (t heldTask) stateName() State {
	switch {
	case t.key == 0:
		return ""
	case t.late:
		return StateInProgress
	}
	return stateOf(t.state)
}

// hold keeps tasks in their states until the transaction ends: none of afters can end, or be opened
// again, and none of runs can be handed out. If exclusive is set, nobody else can add edges between
// stored tasks, or open any again. IDs that no task has are left out of the answer.
func (s *Store) hold(
	ctx context.Context, afters, runs []TaskID, exclusive bool,
) (map[TaskID]heldTask, error) {
	var first []step
	if exclusive {
		first = []step{{name: "lock_dependencies"}}
	}
	endsKept := exclusive
	for range attemptsMax {
		held := map[TaskID]heldTask{}
		var shared []int64
		named, err := s.keysOf(ctx, slices.Concat(afters, runs),
			append(first, s.sharedTasks(afters, &shared)...)...)
		if err != nil || len(named) == 0 {
			return held, err
		}
		keys := make(map[TaskID]int64, len(named))
		for key, id := range named {
			keys[id] = key
		}
		s.setApart(ctx, singles(shared))
		var steps []step
		if !endsKept {
			steps = append(steps, keepEnds(keysNamed(keys, afters), &endsKept))
		}
		err = s.run(ctx, append(steps,
			step{name: "carve_ready", args: []any{keysNamed(keys, runs)}},
			step{
				name: "hold_tasks", args: []any{keysNamed(keys, afters), keysNamed(keys, runs)},
				read: func(rows pgx.Rows) error {
					for rows.Next() {
						var task heldTask
						err := rows.Scan(&task.key, &task.state, &task.late, &task.completed,
							&task.aborted)
						if err != nil {
							return err
						}
						id := named[task.key]
						held[id] = task
						delete(keys, id)
					}
					return rows.Err()
				},
			},
		)...)
		if err != nil {
			return nil, err
		}
		isFinal := func(id TaskID) bool { return held[id].final() }
		switch {
		case !endsKept && slices.ContainsFunc(afters, isFinal): // it may be opened: try again
		case len(keys) == 0: // otherwise some changed their states meanwhile
			return held, nil
		}
	}
	return nil, taskError(slices.Concat(afters, runs), errUnstable)
}

// keepEnds keeps finished tasks from being opened again until the transaction ends, if some of the
// tasks with these keys are finished. It sets endsKept then.
func keepEnds(keys []int64, endsKept *bool) step {
	return step{
		name: "keep_ends", args: []any{keys},
		read: func(rows pgx.Rows) error {
			*endsKept = rows.Next()
			rows.Close()
			return rows.Err()
		},
	}
}

// keysNamed returns the keys of the IDs that have one, sorted and without duplicates.
func keysNamed(keys map[TaskID]int64, ids []TaskID) []int64 {
	found := make([]int64, 0, len(ids))
	for _, id := range ids {
		if key, ok := keys[id]; ok {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// keysOf runs the first steps, then finds the tasks with these IDs, and returns the IDs by key. It
// leaves out IDs that no task has.
func (s *Store) keysOf(
	ctx context.Context, ids []TaskID, first ...step,
) (map[int64]TaskID, error) {
	named := make(map[int64]TaskID, len(ids))
	find := step{name: "task_keys", args: []any{texts(ids)}, read: readNames(named)}
	return named, s.run(ctx, append(first, find)...)
}
