package stint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// The causes as the table finished holds them; 0 is none, the task completed.
const (
	causeReturned   int16 = 1
	causeTries      int16 = 2
	causeDependency int16 = 3
	causeCancelled  int16 = 4
	causeReplaced   int16 = 5
	causeExpired    int16 = 6
	causeDeleted    int16 = 7 // never recorded: the task leaves the store
)

// The states as the view task_states numbers them. An aborted task has stateCompleted plus its
// cause.
const (
	stateBlocked    int16 = 0
	stateScheduled  int16 = 1
	stateReady      int16 = 2
	stateInProgress int16 = 3
	stateCompleted  int16 = 10
)

// GetTasks returns what the store knows of tasks, all of it as of one instant, in the order asked.
//
// If there is no task of an ID, the error is [ErrTaskNotFound], in a [*TaskError] that names every
// such ID; the others are returned all the same.
func (s *Store) GetTasks(ctx context.Context, ids []TaskID) ([]TaskInfo, error) {
	infos, err := s.getTasks(ctx, ids)
	if err != nil {
		return infos, fmt.Errorf("get tasks: %w", err)
	}
	return infos, nil
}

func (s *Store) getTasks(ctx context.Context, ids []TaskID) ([]TaskInfo, error) {
	if err := checkIDs(ids); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, s.quiet(ctx)
	}
	found, err := s.findTasks(ctx, ids)
	if err != nil {
		return nil, err
	}
	infos := make([]TaskInfo, 0, len(ids))
	var missing []TaskID
	for _, id := range ids {
		if task, ok := found[id]; ok {
			infos = append(infos, task.info)
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return infos, &TaskError{IDs: slices.Compact(missing), Err: ErrTaskNotFound}
	}
	return infos, nil
}

// A foundTask is a task with what the store knows of it.
type foundTask struct {
	key  int64
	info TaskInfo
}

// findTasks looks tasks up; IDs that no task has are left out.
func (s *Store) findTasks(ctx context.Context, ids []TaskID) (map[TaskID]foundTask, error) {
	found := make(map[TaskID]foundTask, len(ids))
	err := s.run(ctx, step{
		name: "get_tasks", args: []any{texts(ids)},
		read: func(rows pgx.Rows) error {
			for rows.Next() {
				var task foundTask
				var err error
				if task.info, err = readInfo(rows, &task.key); err != nil {
					return err
				}
				found[task.info.ID] = task
			}
			return rows.Err()
		},
	})
	return found, err
}

func stateNumbers(state State) []int16 {
	switch state {
	case StateBlocked:
		return []int16{stateBlocked}
	case StateScheduled:
		return []int16{stateScheduled}
	case StateReady:
		return []int16{stateReady}
	case StateInProgress:
		return []int16{stateInProgress}
	case StateCompleted:
		return []int16{stateCompleted}
	case StateAborted:
		var numbers []int16
		for cause := causeReturned; cause <= causeExpired; cause++ {
			numbers = append(numbers, stateCompleted+cause)
		}
		return numbers
	default:
		return nil
	}
}

// readInfo reads a row in the form of get_tasks, and what comes behind that.
func readInfo(row pgx.Rows, more ...any) (TaskInfo, error) {
	var info TaskInfo
	var state int16
	var deadline, until, ownedAt pgtype.Timestamptz
	var actor, status *string
	var progress *float64
	err := row.Scan(append([]any{
		&info.ID, &info.Action, &info.Body, &info.Priority, &info.MaxTries, &deadline,
		&info.OnAbort, &info.PostResult, &info.InsertedAt, &state, &info.Tries, &actor, &until,
		&ownedAt, &status, &progress, &info.Result,
	}, more...)...)
	if err != nil {
		return info, err
	}
	info.Deadline, info.OwnedAt = finite(deadline), finite(ownedAt)
	if actor != nil {
		info.Actor = ActorID(*actor)
	}
	if status != nil {
		info.Status = *status
	}
	if progress != nil {
		info.Progress = *progress
	}
	info.place(state, finite(until))
	return info, nil
}

// finite is a time as the API has it: zero for none.
func finite(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}

// place fills in where in its life the task is, and the time that goes with it.
func (info *TaskInfo) place(state int16, until time.Time) {
	switch state {
	case stateBlocked:
		info.StatusCode, info.State, info.NotBefore = StatusPending, StateBlocked, until
	case stateScheduled:
		info.StatusCode, info.State, info.NotBefore = StatusPending, StateScheduled, until
	case stateReady:
		info.StatusCode, info.State = StatusPending, StateReady
	case stateInProgress:
		info.StatusCode, info.State = StatusInProgress, StateInProgress
		info.ActionDeadline = until
	case stateCompleted:
		info.StatusCode, info.State, info.FinishedAt = StatusCompleted, StateCompleted, until
	default:
		info.StatusCode, info.State, info.FinishedAt = StatusAborted, StateAborted, until
		info.AbortCause = abortCause(state - stateCompleted)
	}
}

func abortCause(cause int16) AbortCause {
	switch cause {
	case causeReturned:
		return CauseReturned
	case causeTries:
		return CauseTries
	case causeDependency:
		return CauseDependency
	case causeCancelled:
		return CauseCancelled
	case causeReplaced:
		return CauseReplaced
	default:
		return CauseExpired
	}
}
