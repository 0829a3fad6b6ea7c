package stint

import (
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

// triesDefault is Task.MaxTries where it is 0. Peers have 20 to 25.
const triesDefault = 25

// triesLimit returns how often the task is handed out at most in the form of the tables, where 0 is
// no limit. A spontaneous task has no tries to count.
func (t *Task) triesLimit() int32 {
	switch {
	case t.MaxTries == UnlimitedTries, t.Action == Spontaneous:
		return 0
	case t.MaxTries == 0:
		return triesDefault
	}
	return int32(t.MaxTries) //nolint:gosec // checked
}

// maxTries returns a limit of the tables in the form of the API.
func maxTries(limit int32) int {
	if limit == 0 {
		return UnlimitedTries
	}
	return int(limit)
}

// readInfo reads a row in the form of get_tasks, and further columns after that.
func readInfo(row pgx.Rows, more ...any) (TaskInfo, error) {
	var info TaskInfo
	var state int16
	var triesLimit int32
	var deadline, until, ownedAt pgtype.Timestamptz
	var actor, status, key *string
	var progress *float64
	err := row.Scan(append([]any{
		&info.ID, &info.Action, &info.Body, &info.Priority, &triesLimit, &deadline,
		&info.OnAbort, &info.PostResult, &info.InsertedAt, &state, &info.Tries, &actor, &until,
		&ownedAt, &status, &progress, &info.Result, &key,
	}, more...)...)
	if err != nil {
		return info, err
	}
	info.MaxTries = maxTries(triesLimit)
	info.Deadline, info.OwnedAt = finite(deadline), finite(ownedAt)
	if actor != nil {
		info.Actor = ActorID(*actor)
	}
	if key != nil {
		info.Key = *key
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

// finite returns a time in the form of the API: zero for none.
func finite(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}

// place fills in the state of the task, and the time that belongs to that state.
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
		info.LeaseUntil = until
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

// stateOf is the state with a number.
func stateOf(number int16) State {
	switch number {
	case stateBlocked:
		return StateBlocked
	case stateScheduled:
		return StateScheduled
	case stateReady:
		return StateReady
	case stateInProgress:
		return StateInProgress
	case stateCompleted:
		return StateCompleted
	default:
		return StateAborted
	}
}
