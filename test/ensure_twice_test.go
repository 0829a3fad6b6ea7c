package stint_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A call in which an ID comes twice does what two calls do: one with the first tasks of each ID,
// one with the others.
// Proves R1.
func TestEnsureTasks_WithAnIDTwiceIsAsTwoCalls(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, again := range map[string]stint.Task{
		"after":         after("x", "a", "b"),
		"signals":       {ID: "x", Action: "act", ToSignalAfter: []stint.TaskID{"a"}},
		"a condition":   when("x", ended("a")),
		"the first one": whenAny("x", ended("a"), ended("b")),
	} {
		for _, first := range []stint.Task{after("x"), whenAny("x", ended("b"))} {
			t.Run(fmt.Sprint(name, len(first.WhenAny)), func(t *testing.T) {
				t.Parallel()
				one, two := newStore(t), newStore(t)
				calls := [][]stint.Task{{after("a"), after("b"), first}, {again}}
				insert(t, one, after("there"))
				insert(t, two, after("there"))
				left, err := one.EnsureTasks(t.Context(), append(calls[0], again))
				wantErr(t, "EnsureTasks", err, nil)
				if len(left) != 1 || left[0] != "x" {
					t.Errorf("EnsureTasks left out %q", left)
				}
				for _, tasks := range calls {
					_, err := two.EnsureTasks(t.Context(), tasks)
					wantErr(t, "EnsureTasks", err, nil)
				}
				if got, want := statesOf(t, one), statesOf(t, two); !maps.Equal(got, want) {
					t.Errorf("the tasks are %v, after two calls %v", got, want)
				}
			})
		}
	}
}

// Each task that is there says what it waits for, not only the last.
// Proves R1, R2, R3.
func TestEnsureTasks_HearsEachTaskThatIsThere(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("one"), after("two"))
	names := []stint.TaskID{"the", "caller's"}
	tasks := []stint.Task{after("new"), after("one", "new"), after("two", "new")}
	tasks[0].ToSignalAfter = names[:0]
	ensure(t, store, tasks, "one", "two")
	if names[0] != "the" || names[1] != "caller's" {
		t.Errorf("the call has written %q over what is its caller's", names)
	}
	if got := describeAll(t, store); got != "new ready, one blocked, two blocked" {
		t.Errorf("the tasks are %s", got)
	}
}

// A refusal blames what was written.
// Proves R23.
func TestEnsureTasks_BlamesWhatWasWritten(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), whenAny("any", ended("a")))
	signalling := after("new")
	signalling.ToSignalAfter = []stint.TaskID{"any"}
	for argument, tasks := range map[string][]stint.Task{
		"Task.After":         {after("new"), after("any", "new")},
		"Task.When":          {after("new"), when("any", ended("new"))},
		"Task.ToSignalAfter": {signalling},
	} {
		_, err := store.EnsureTasks(t.Context(), tasks)
		var refused *stint.ArgumentError
		if !errors.As(err, &refused) || refused.Argument != argument ||
			!strings.Contains(err.Error(), `"any"`) {
			t.Errorf("EnsureTasks = %v, want it to name %s", err, argument)
		}
	}
}

// An attempt that is undone, since it could tell nobody, has added nothing: of two who add a task
// meanwhile, one is told that it is there.
// Proves R1, G229.
func TestEnsureTasks_ForgetsAnAttemptThatIsUndone(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	proxy := pgcut.New(t, pool)
	opts := stint.Options{Maintenance: stint.MaintainNever}
	store, other := openStore(t, proxy.Pool(t, 1), opts), openStore(t, pool, opts)
	for _, s := range []*stint.Store{store, other} {
		awaitNotifier(s)
		insert(t, s, stint.Task{ID: stint.TaskID(fmt.Sprintf("%p", s)), Action: "act"})
	}
	exec(t, pool, "ALTER TABLE stint.sessions RENAME TO unreadable")
	awaitNotifier(store)
	told := proxy.Hold(pgcut.AtReply, pgcut.Executes("notify_along"))
	ensuring := start(func() ([]stint.TaskID, error) {
		return store.EnsureTasks(t.Context(), []stint.Task{after("x")})
	})
	<-told.Reached()
	ensure(t, other, []stint.Task{after("x")})
	told.Release()
	existing, err := ends(t, "EnsureTasks", ensuring)
	if err != nil || len(existing) != 1 {
		t.Errorf("EnsureTasks = %q, %v, want the task of the other", existing, err)
	}
	exec(t, pool, "ALTER TABLE stint.unreadable RENAME TO sessions")
}
