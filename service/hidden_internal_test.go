package service

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/service/access"
)

// askingOf is a call of somebody who may read mails, and control ships without reading them. The
// tasks m1, m2 and m3 are mails, and s1, s2 and s3 ships.
func askingOf(t *testing.T) *asking {
	t.Helper()
	store, err := stint.New(testdb.New(t), stint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	var tasks []stint.Task
	for i := range 3 {
		tasks = append(tasks,
			stint.Task{ID: stint.TaskID(fmt.Sprint("m", i+1)), Action: "mail"},
			stint.Task{ID: stint.TaskID(fmt.Sprint("s", i+1)), Action: "ship"})
	}
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	grants, err := access.Parse([]byte(`
ann:
  - verbs: [read]
    actions: [mail]
  - verbs: [control]
    actions: [ship]
`))
	if err != nil {
		t.Fatal(err)
	}
	return &asking{ctx: t.Context(), principal: grants.Principal("ann"), store: store}
}

// An error names those tasks only that the request names or that the caller may read, and says if
// there are others.
func TestRedacted_NamesWhatTheCallerKnowsOrMayRead(t *testing.T) {
	t.Parallel()
	a := askingOf(t)
	naming := func(ids ...string) any { return &stintv1.AbortTasksRequest{Ids: ids} }
	cycle := func(path ...stint.TaskID) error { return &stint.CycleError{Path: path} }
	argument := func(id stint.TaskID) error {
		return &stint.ArgumentError{
			Argument: "Task", Index: 3, ID: id, Problem: "is bad", Err: stint.ErrInvalidArgument,
		}
	}
	absent := func(ids ...stint.TaskID) error {
		return &stint.TaskError{IDs: ids, Err: stint.ErrTaskNotFound}
	}
	schedules := func(names ...string) error {
		return &stint.ScheduleError{Names: names, Err: stint.ErrScheduleNotFound}
	}
	for what, c := range map[string]struct {
		err, want error
		request   any
		less      bool
	}{
		"a cycle that begins unread": {
			cycle("s1", "m1", "s2", "m2", "s1"), cycle("m1", "m2", "m1"), naming(), true,
		},
		"a cycle that begins readable": {
			cycle("m1", "s1", "m2", "m3", "m1"), cycle("m1", "m2", "m3", "m1"), naming(), true,
		},
		"a cycle of one that may be read": {
			cycle("s1", "m1", "s1"), cycle("m1", "m1"), naming(), true,
		},
		"a cycle of others":    {cycle("s1", "s2", "s1"), cycle(), naming(), true},
		"a cycle without path": {cycle(), cycle(), naming(), false},
		"a readable cycle": {
			cycle("m1", "m2", "m1"), cycle("m1", "m2", "m1"), naming(), false,
		},
		"a cycle with a named end": {
			cycle("s1", "s2", "m1", "s1"), cycle("s1", "m1", "s1"), naming("s1"), true,
		},
		"an argument of a hidden task":   {argument("s1"), argument(""), naming("s2"), true},
		"an argument of a readable task": {argument("m1"), argument("m1"), naming(), false},
		"an argument of a named task": {
			argument("s1"), argument("s1"), naming("s1"), false,
		},
		"an argument of no task": {argument(""), argument(""), naming(), false},
		"tasks": {
			absent("m1", "s1", "s2", "m2", "none"), absent("m1", "s2", "m2"), naming("s2"), true,
		},
		"schedules": {schedules("s1", "s2"), schedules("s2"), naming("s2"), true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			got := a.redacted(fmt.Errorf("verb: %w", c.err), c.request)
			if part := errors.Unwrap(got); part.Error() != c.want.Error() ||
				reflect.TypeOf(part) != reflect.TypeOf(c.want) {
				t.Errorf("%v has become %v, want %v", c.err, part, c.want)
			}
			text := "verb: " + c.want.Error()
			if c.less {
				text += ", and others that the caller may not read"
			}
			if got.Error() != text {
				t.Errorf("%v is told as %q, want %q", c.err, got, text)
			}
		})
	}
}

// Whether a token is of another owner, or there is no such task, is not told.
func TestRedacted_DoesNotTellWhetherATokenHasATask(t *testing.T) {
	t.Parallel()
	a := askingOf(t)
	for _, both := range []error{
		stint.ErrInvalidToken, errors.Join(stint.ErrInvalidToken, stint.ErrTaskNotFound),
	} {
		got := a.redacted(&stint.TaskError{IDs: []stint.TaskID{"m1", "s1"}, Err: both}, nil)
		if !errors.Is(got, stint.ErrInvalidToken) || errors.Is(got, stint.ErrTaskNotFound) ||
			strings.Contains(got.Error(), stint.ErrTaskNotFound.Error()) {
			t.Errorf("%v is told as %v", both, got)
		}
	}
}

// The states of tasks that a caller may make wait, but not read, are not told, at either end.
func TestRedacted_LeavesOutStatesThatTheCallerMayNotRead(t *testing.T) {
	t.Parallel()
	a := askingOf(t)
	of := func(predecessor, dependent string, before, after stint.State) stint.RefusedDependency {
		return stint.RefusedDependency{
			Dependency: stint.Dependency{
				Predecessor: stint.TaskID(predecessor), Dependent: stint.TaskID(dependent),
			},
			Err: stint.ErrTaskStarted, PredecessorState: before, DependentState: after,
		}
	}
	const ready, runs = stint.StateReady, stint.StateInProgress
	whole := &stint.DependencyError{Refused: []stint.RefusedDependency{
		of("m1", "s1", ready, runs), of("s1", "m1", ready, runs), of("s1", "s2", ready, runs),
		of("m1", "m2", ready, runs),
	}}
	before := slices.Clone(whole.Refused)
	want := []stint.RefusedDependency{
		of("m1", "s1", ready, ""), of("s1", "m1", "", runs), of("s1", "s2", "", ""),
		of("m1", "m2", ready, runs),
	}
	request := &stintv1.AbortTasksRequest{Ids: []string{"m1", "m2", "s1", "s2"}}
	var got *stint.DependencyError
	if err := a.redacted(fmt.Errorf("add: %w", whole), request); !errors.As(err, &got) ||
		!reflect.DeepEqual(got.Refused, want) {
		t.Errorf("redacted = %+v, want %+v", got, want)
	}
	if !reflect.DeepEqual(whole.Refused, before) {
		t.Errorf("the error itself has changed: %+v", whole.Refused)
	}
}

// Tasks are not named where it cannot be found out whether the caller may read them: the database
// gives no answer, or it would be asked for more at once than any request may name.
func TestRedacted_NamesNothingThatItCannotLookUp(t *testing.T) {
	t.Parallel()
	many := make([]stint.TaskID, itemsMax+1)
	for i := range many {
		many[i] = stint.TaskID(fmt.Sprint("none", i))
	}
	many[0] = "m1"
	for what, ids := range map[string][]stint.TaskID{
		"no answer": {"m1", "m2"}, "too many": many,
	} {
		a := askingOf(t)
		if what == "no answer" {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			a.ctx = ended
		}
		var tasks *stint.TaskError
		err := a.redacted(&stint.TaskError{IDs: ids, Err: stint.ErrTaskExists},
			&stintv1.AbortTasksRequest{})
		if !errors.As(err, &tasks) || len(tasks.IDs) != 0 {
			t.Errorf("%s: %d tasks are named", what, len(tasks.IDs))
		}
	}
}
