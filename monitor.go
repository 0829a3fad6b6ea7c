package stint

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

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

// A Filter picks tasks. The zero value picks all of them.
type Filter struct {
	// Actions are the actions to pick. Default: all.
	Actions []string

	// States are the states to pick. Default: all.
	States []State

	// IDPrefix is what the ID begins with.
	IDPrefix string

	// Actor is the owner, or the last owner of a finished task. Default: any.
	Actor ActorID

	// MinAge and MaxAge are how long ago the task was inserted at least and at most, on the
	// database's clock. Default: any age.
	MinAge, MaxAge time.Duration

	// After is the ID that the answer begins behind: the last one of the page before.
	After TaskID

	// Limit is how many tasks to return at most. Default: 100, at most 10,000.
	Limit int
}

const listedTasksDefault = 100

// ListTasks returns the tasks that pass a filter, in the order of their IDs, as of one instant,
// without their bodies and results. [Filter.After] asks for the next page.
//
// It walks the tasks in the order of their IDs until it has enough, so a filter that few tasks pass
// takes time in a large store: it is for people, not for worker loops.
func (s *Store) ListTasks(ctx context.Context, filter Filter) ([]TaskInfo, error) {
	infos, err := s.listTasks(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return infos, nil
}

func (s *Store) listTasks(ctx context.Context, filter Filter) ([]TaskInfo, error) {
	if err := filter.check(); err != nil {
		return nil, err
	}
	limit := filter.Limit
	if limit == 0 {
		limit = listedTasksDefault
	}
	var actions []string // nil, which is null, for all
	actions = append(actions, filter.Actions...)
	var states []int16
	for _, state := range filter.States {
		states = append(states, stateNumbers(state)...)
	}
	var infos []TaskInfo
	err := s.run(ctx, step{
		name: "list_tasks",
		args: []any{
			filter.IDPrefix, string(filter.After), prefixEnd(filter.IDPrefix),
			actions, states, nonEmpty(string(filter.Actor)), positive(filter.MinAge),
			positive(filter.MaxAge), limit,
		},
		read: func(rows pgx.Rows) error {
			var err error
			infos, err = readInfos(rows)
			return err
		},
	})
	return infos, err
}

func (f *Filter) check() error {
	for i, action := range f.Actions {
		if err := checkText("Filter.Actions", action, actionBytesMax); err != nil {
			return at(err, i, "")
		}
	}
	for i, state := range f.States {
		if stateNumbers(state) == nil {
			return at(argumentError("Filter.States", "unknown"), i, "")
		}
	}
	for _, text := range []struct {
		argument, value string
		bytesMax        int
	}{
		{"Filter.IDPrefix", f.IDPrefix, idBytesMax},
		{"Filter.After", string(f.After), idBytesMax},
		{"Filter.Actor", string(f.Actor), actorBytesMax},
	} {
		if text.value == "" {
			continue
		}
		if err := checkText(text.argument, text.value, text.bytesMax); err != nil {
			return err
		}
	}
	if f.MinAge < 0 || f.MaxAge < 0 {
		return argumentError("Filter.MinAge and MaxAge", "negative")
	}
	if f.Limit < 0 {
		return argumentError("Filter.Limit", "negative")
	}
	if f.Limit > listedTasksMax {
		return tooLarge("Filter.Limit", f.Limit, listedTasksMax)
	}
	return nil
}

// prefixEnd is the least text that sorts, by its bytes, behind everything that begins with prefix;
// nil if there is none.
func prefixEnd(prefix string) *string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if last == utf8.MaxRune {
			continue
		}
		const firstSurrogate, lastSurrogate = 0xd800, 0xdfff // no runes, and not stored
		if last++; last == firstSurrogate {
			last = lastSurrogate + 1
		}
		end := prefix + string(last)
		return &end
	}
	return nil
}

func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func positive(age time.Duration) *time.Duration {
	if age == 0 {
		return nil
	}
	return &age
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

func readInfos(rows pgx.Rows) ([]TaskInfo, error) {
	var infos []TaskInfo
	for rows.Next() {
		info, err := readInfo(rows)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, rows.Err()
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
