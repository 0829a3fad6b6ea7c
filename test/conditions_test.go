package stint_test

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// when is a task with action "act" that starts when all conditions are met.
func when(id stint.TaskID, conditions ...stint.Condition) stint.Task {
	return stint.Task{ID: id, Action: "act", When: conditions}
}

// whenAny is a task with action "act" that the first condition to be met starts.
func whenAny(id stint.TaskID, conditions ...stint.Condition) stint.Task {
	return stint.Task{ID: id, Action: "act", WhenAny: conditions}
}

// ended is a condition that names the states.
func ended(after stint.TaskID, states ...stint.State) stint.Condition {
	return stint.Condition{After: after, States: states}
}

// answers is the condition that the task completes with one of the results.
func answers(after stint.TaskID, results ...string) stint.Condition {
	return stint.Condition{After: after, Results: results}
}

// play performs all tasks until none is left: those in fails are aborted, the others complete, with
// the results given. It returns the states of all tasks of the store.
func play(
	t *testing.T, store *stint.Store, results map[stint.TaskID]string, fails ...stint.TaskID,
) map[stint.TaskID]stint.State {
	t.Helper()
	failing := map[stint.TaskID]bool{}
	for _, id := range fails {
		failing[id] = true
	}
	for {
		owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		if len(owned) == 0 {
			return statesOf(t, store)
		}
		given := stint.Return{
			ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted,
		}
		if result, ok := results[owned[0].ID]; ok {
			given.Result = []byte(result)
		}
		if failing[owned[0].ID] {
			given.Code = stint.StatusAborted
		}
		refusals, err := store.ReturnTasks(t.Context(), []stint.Return{given})
		wantErr(t, "ReturnTasks", errors.Join(append(refusals, err)...), nil)
	}
}

// statesOf are the states of all tasks.
func statesOf(t *testing.T, store *stint.Store) map[stint.TaskID]stint.State {
	t.Helper()
	infos, err := listTasks(t.Context(), store, stint.Filter{})
	wantErr(t, "ListTasks", err, nil)
	states := map[stint.TaskID]stint.State{}
	for _, info := range infos {
		states[info.ID] = info.State
	}
	return states
}

// deleteChecked checks what a case leaves in the tables, and deletes it ahead of the next one.
func deleteChecked(t *testing.T, store *stint.Store) {
	t.Helper()
	wantChecked(t, store)
	var ids []stint.TaskID
	for _, task := range listAll(t, store) {
		ids = append(ids, task.ID)
	}
	wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), ids)), nil)
}

const (
	isCompleted = stint.StateCompleted
	isAborted   = stint.StateAborted
	isSkipped   = stint.StateSkipped
)

// A conditional is a network, what becomes of the tasks that somebody performs, and the ends that
// the others then have.
type conditional struct {
	name    string
	tasks   []stint.Task
	results map[stint.TaskID]string
	fails   []stint.TaskID
	want    map[stint.TaskID]stint.State
}

var conditionals = []conditional{
	{
		name: "the branch that was not chosen is skipped",
		tasks: []stint.Task{
			after("flip"), when("heads", answers("flip", "heads")),
			when("tails", answers("flip", "tails", "edge")),
			after("count", "tails"),
		},
		results: map[stint.TaskID]string{"flip": "edge"},
		want: map[stint.TaskID]stint.State{
			"heads": isSkipped, "tails": isCompleted, "count": isCompleted,
		},
	},
	{
		name: "what comes behind a skipped task is skipped, too, unless it runs anyway",
		tasks: []stint.Task{
			after("flip"), when("heads", answers("flip", "heads")), after("next", "heads"),
			after("last", "next"), anyway("report", "last"),
		},
		results: map[stint.TaskID]string{"flip": "tails"},
		want: map[stint.TaskID]stint.State{
			"heads": isSkipped, "next": isSkipped, "last": isSkipped, "report": isCompleted,
		},
	},
	{
		name: "fan-in over skipped branches",
		tasks: []stint.Task{
			after("flip"), when("heads", answers("flip", "heads")),
			when("tails", answers("flip", "tails")),
			when("join", ended("heads", isCompleted, isSkipped),
				ended("tails", isCompleted, isSkipped)),
		},
		results: map[stint.TaskID]string{"flip": "tails"},
		want:    map[stint.TaskID]stint.State{"heads": isSkipped, "join": isCompleted},
	},
	{
		name: "an abort that the fan-in does not accept aborts it",
		tasks: []stint.Task{
			after("flip"), when("heads", answers("flip", "heads")),
			when("tails", answers("flip", "tails")),
			when("join", ended("heads", isCompleted, isSkipped),
				ended("tails", isCompleted, isSkipped)),
		},
		results: map[stint.TaskID]string{"flip": "tails"},
		fails:   []stint.TaskID{"tails"},
		want:    map[stint.TaskID]stint.State{"heads": isSkipped, "join": isAborted},
	},
	{
		name: "a clean-up runs if something failed",
		tasks: []stint.Task{
			after("work"), when("mend", ended("work", isAborted)), after("use", "work"),
		},
		fails: []stint.TaskID{"work"},
		want:  map[stint.TaskID]stint.State{"mend": isCompleted, "use": isAborted},
	},
	{
		name: "and is skipped if nothing did",
		tasks: []stint.Task{
			after("work"), when("mend", ended("work", isAborted)), after("use", "work"),
		},
		want: map[stint.TaskID]stint.State{"mend": isSkipped, "use": isCompleted},
	},
	{
		name: "the first of several starts the task",
		tasks: []stint.Task{
			after("a"), after("b"), after("c"),
			whenAny("first", ended("a"), ended("b"), ended("c")), after("behind", "first"),
		},
		fails: []stint.TaskID{"a", "c"},
		want:  map[stint.TaskID]stint.State{"first": isCompleted, "behind": isCompleted},
	},
	{
		name: "all of several were skipped",
		tasks: []stint.Task{
			after("flip"), when("a", answers("flip", "a")), when("b", answers("flip", "b")),
			whenAny("first", ended("a"), ended("b")), after("behind", "first"),
		},
		want: map[stint.TaskID]stint.State{"a": isSkipped, "first": isSkipped, "behind": isSkipped},
	},
	{
		name: "all of several ended otherwise, one by an abort",
		tasks: []stint.Task{
			after("flip"), when("a", answers("flip", "a")), after("b"),
			whenAny("first", ended("a"), ended("b")), after("behind", "first"),
			anyway("report", "behind"),
		},
		fails: []stint.TaskID{"b"},
		want: map[stint.TaskID]stint.State{
			"first": isAborted, "behind": isAborted, "report": isCompleted,
		},
	},
	{
		name: "what runs anyway is skipped where an abort does not meet its condition",
		tasks: []stint.Task{
			after("work"),
			{
				ID: "next", Action: "act", OnAbort: stint.RunAnyway,
				When: []stint.Condition{ended("work")},
			},
		},
		fails: []stint.TaskID{"work"},
		want:  map[stint.TaskID]stint.State{"next": isSkipped},
	},
	{
		// apache/airflow#42581: the branch that is skipped must not decide on its own.
		name: "one success waits for those that have yet to end",
		tasks: []stint.Task{
			after("branch"), when("task_run", answers("branch", "task_run")),
			when("task_skip", answers("branch", "task_skip")), after("task_1"),
			after("task_2", "task_1"),
			whenAny("task_one_success", ended("task_skip"), ended("task_2")),
		},
		results: map[stint.TaskID]string{"branch": "task_run"},
		want: map[stint.TaskID]stint.State{
			"task_skip": isSkipped, "task_one_success": isCompleted,
		},
	},
	{
		// pgflow-dev/pgflow#572: skip, skip-cascade, and a failure that only skips.
		name: "dependents choose whether a skip, or a failure, concerns them",
		tasks: []stint.Task{
			after("input"), when("optional", answers("input", "premium")),
			when("skip", ended("optional", isCompleted, isSkipped)), after("cascade", "optional"),
			after("flaky", "skip"), when("on", ended("flaky", isCompleted, isAborted)),
		},
		results: map[stint.TaskID]string{"input": "base"},
		fails:   []stint.TaskID{"flaky"},
		want: map[stint.TaskID]stint.State{
			"optional": isSkipped, "skip": isCompleted, "cascade": isSkipped, "on": isCompleted,
		},
	},
	{
		name: "joins are joined by conditions",
		tasks: []stint.Task{
			after("a"), after("b"), after("c"),
			{ID: "either", Action: stint.Spontaneous, WhenAny: []stint.Condition{
				ended("a", isAborted), ended("b", isAborted),
			}},
			{ID: "both", Action: "act", After: []stint.TaskID{"c"}, When: []stint.Condition{
				ended("either"),
			}},
		},
		fails: []stint.TaskID{"b"},
		want: map[stint.TaskID]stint.State{
			"either": isCompleted, "both": isCompleted,
		},
	},
}

// Proves R12, R23.
func TestConditions_DecideWhatRuns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	for _, c := range conditionals { //nolint:paralleltest // they share a store
		t.Run(c.name, func(t *testing.T) {
			insert(t, store, c.tasks...)
			got := play(t, store, c.results, c.fails...)
			for id, want := range c.want {
				if got[id] != want {
					t.Errorf("%q is %s, want %s", id, got[id], want)
				}
			}
			deleteChecked(t, store)
		})
	}
}

// However tasks are inserted, their conditions are there, and count for predecessors that have
// ended.
// Proves R3, R23.
func TestConditions_CountForWhatHasEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	behind := func() []stint.Task {
		return []stint.Task{
			when("heads", answers("flip", "heads")), when("tails", answers("flip", "tails")),
			after("next", "heads"), whenAny("either", ended("heads"), ended("tails")),
			{ID: "none", Action: "act", OnAbort: stint.RunAnyway, When: []stint.Condition{
				ended("broken"),
			}},
			when("mend", ended("broken", isAborted, isSkipped)), after("fall", "broken"),
		}
	}
	want := map[stint.TaskID]stint.State{
		"flip": isCompleted, "broken": isAborted, "heads": isSkipped, "tails": stint.StateReady,
		"next": isSkipped, "either": stint.StateBlocked, "none": isSkipped,
		"mend": stint.StateReady, "fall": isAborted,
	}
	for name, add := range map[string]func(t *testing.T, store *stint.Store) error{
		"InsertTasks": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			return store.InsertTasks(t.Context(), behind())
		},
		"InsertTasks one by one": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			for _, task := range behind() {
				insert(t, store, task)
			}
			return nil
		},
		"many": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			return store.InsertTasks(t.Context(), append(behind(), numbered("n", 2000)...))
		},
		"InsertTasksFrom": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			return errOf(store.InsertTasksFrom(t.Context(), stream(behind(), nil)))
		},
		"EnsureTasks": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			tasks := append([]stint.Task{after("flip")}, behind()...)
			return errOf(store.EnsureTasks(t.Context(), tasks))
		},
		"ReplaceTasks": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			insert(t, store, after("heads"), after("mend"))
			return store.ReplaceTasks(t.Context(), behind())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			insert(t, store, after("flip"), after("broken"))
			play(t, store, map[stint.TaskID]string{"flip": "tails"}, "broken")
			wantErr(t, name, add(t, store), nil)
			for id, want := range want {
				if got := info(t, store, id).State; got != want {
					t.Errorf("%q is %s, want %s", id, got, want)
				}
			}
		})
	}
}

// A result of kilobytes goes another way to the database, and its conditions with it.
// Proves R23.
func TestConditions_CompareLargeAndEmptyResults(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("large"), after("small"), after("none"),
		when("a", answers("large", "x")), when("b", answers("small", "x", "\x00\xff\\")),
		when("c", answers("none", "")), when("d", answers("none", "x")))
	var returns []stint.Return
	for _, owned := range own(t, store, 3) {
		given := stint.Return{ID: owned.ID, Token: owned.Token, Code: stint.StatusCompleted}
		given.Result = map[stint.TaskID][]byte{
			"large": bytes.Repeat([]byte("x"), 100_000), "small": []byte("\x00\xff\\"),
		}[owned.ID]
		returns = append(returns, given)
	}
	refusals, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", errors.Join(append(refusals, err)...), nil)
	got := statesOf(t, store)
	for id, want := range map[stint.TaskID]stint.State{
		"a": isSkipped, "b": stint.StateReady, "c": stint.StateReady, "d": isSkipped,
	} {
		if got[id] != want {
			t.Errorf("%q is %s, want %s", id, got[id], want)
		}
	}
}

// What was skipped is opened again with what decided on it, and is decided anew.
// Proves R20, R23.
func TestConditions_AreDecidedAnewByARetry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("flip"), when("heads", answers("flip", "heads")),
		when("tails", answers("flip", "tails")), after("next", "heads"),
		whenAny("either", ended("heads"), ended("tails")))
	play(t, store, map[stint.TaskID]string{"flip": "tails"})
	wantErr(t, "RetryTasks", errOf(store.RetryTasks(t.Context(), []stint.TaskID{"heads"})), nil)
	if state := info(t, store, "heads").State; state != isSkipped {
		t.Errorf("heads is %s when it is opened, want %s: its condition is still not met", state,
			isSkipped)
	}
	opened, err := store.RetryTasks(t.Context(), []stint.TaskID{"flip"})
	wantErr(t, "RetryTasks", err, nil)
	if want := (stint.Affected{Tasks: []stint.TaskID{"flip"}, Others: 2}); !reflect.DeepEqual(
		opened, want) {
		t.Errorf("RetryTasks = %+v, want %+v", opened, want)
	}
	got := play(t, store, map[stint.TaskID]string{"flip": "heads"})
	for id, want := range map[stint.TaskID]stint.State{
		"heads": isCompleted, "next": isCompleted, "tails": isCompleted, "either": isCompleted,
	} {
		if got[id] != want {
			t.Errorf("%q is %s, want %s", id, got[id], want)
		}
	}
}

// Bad conditions are refused before the database sees them, and what only it can see changes
// nothing.
// Proves R23.
func TestConditions_AreRefused(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"), whenAny("any", ended("a"), ended("b")))
	both := when("x", ended("a"))
	both.After = []stint.TaskID{"a"}
	mixed := whenAny("x", ended("a"))
	mixed.After = []stint.TaskID{"b"}
	for name, c := range map[string]struct {
		tasks    []stint.Task
		argument string
	}{
		"named twice":        {[]stint.Task{when("x", ended("a"), ended("a"))}, "Condition.After"},
		"also in After":      {[]stint.Task{both}, "Condition.After"},
		"WhenAny with After": {[]stint.Task{mixed}, "Task.WhenAny"},
		"no ID":              {[]stint.Task{when("x", ended(""))}, "Condition.After"},
		"a state that does not end": {
			[]stint.Task{when("x", ended("a", stint.StateReady))}, "Condition.States",
		},
		"results of an abort": {[]stint.Task{when("x", stint.Condition{
			After: "a", States: []stint.State{isAborted}, Results: []string{"x"},
		})}, "Condition.Results"},
		"too many results": {
			[]stint.Task{when("x", answers("a", make([]string, 33)...))}, "Condition.Results",
		},
		"a result too long": {
			[]stint.Task{when("x", answers("a", strings.Repeat("x", 256)))},
			"Condition.Results bytes",
		},
		"ToSignalAfter one with WhenAny": {[]stint.Task{
			{ID: "c", Action: "act", ToSignalAfter: []stint.TaskID{"x"}}, whenAny("x", ended("a")),
		}, "Task.WhenAny"},
		"ToSignalAfter a stored one with WhenAny": {[]stint.Task{
			{ID: "c", Action: "act", ToSignalAfter: []stint.TaskID{"any"}},
		}, "Task.ToSignalAfter"},
	} {
		var refused *stint.ArgumentError
		err := store.InsertTasks(t.Context(), c.tasks)
		if !errors.As(err, &refused) || refused.Argument != c.argument {
			t.Errorf("%s: InsertTasks = %v, want it to name %s", name, err, c.argument)
		}
	}
	wantTasks(t, "InsertTasks", store.InsertTasks(t.Context(), []stint.Task{
		after("a"), {ID: "c", Action: "act", ToSignalAfter: []stint.TaskID{"any"}},
	}), stint.ErrTaskExists, "a") // R1 goes first
	insert(t, store, after("c"))
	var refused *stint.ArgumentError
	if err := addDependency(t, store, "c", "any"); !errors.As(err, &refused) {
		t.Errorf("AddDependencies = %v, want an *ArgumentError", err)
	}
	_, err := store.InsertTasksFrom(t.Context(), stream([]stint.Task{
		when("early", ended("later")), after("later"),
	}, nil))
	wantErr(t, "InsertTasksFrom", err, stint.ErrTaskNotFound)
	wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), []stint.Task{
		when("self", ended("self")),
	}), stint.ErrCycle)
}

// Proves R17, R23.
func TestConditions_OfDeletedTasks(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("c"), whenAny("any", ended("a"), ended("b")),
		whenAny("all", ended("a"), ended("b")), whenAny("kept", ended("b"), ended("c")),
		when("one", ended("a", isAborted)))
	wantErr(t, "DeleteTasks",
		errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"a", "b"})), nil)
	got := statesOf(t, store)
	want := map[stint.TaskID]stint.State{
		"c": stint.StateReady, "kept": stint.StateBlocked, "any": isSkipped, "all": isSkipped,
		"one": isSkipped,
	}
	if !maps.Equal(got, want) {
		t.Errorf("the tasks are %v, want %v", got, want)
	}
	got = play(t, store, nil)
	if got["kept"] != isCompleted {
		t.Errorf("kept is %s, want %s", got["kept"], isCompleted)
	}
}

// To wait for one task more costs the same, however many the task waits for already.
// Proves R16, R23.
func TestAddDependencies_CostsTheSameBehindManyTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const few, many = 10, 5000
	read := map[int]int64{}
	for _, n := range []int{few, many} {
		store, pool := newStoreAndPool(t, stint.Options{})
		tasks := numbered("n", n)
		insert(t, store, append(tasks, join("join", named(tasks)...), after("more"))...)
		exec(t, pool, "ANALYZE")
		read[n] = pages(t, pool, func(store *stint.Store) {
			wantErr(t, "AddDependencies", addDependency(t, store, "more", "join"), nil)
		})
	}
	t.Logf("%d pages behind %d tasks, %d behind %d", read[few], few, read[many], many)
	if read[many] > read[few]+20 {
		t.Errorf("%d pages behind %d tasks, %d behind %d", read[few], few, read[many], many)
	}
}

// The owner of a task with conditions is told how its predecessors ended, whether they did before
// or after its insert, and also when it is opened again.
// Proves R3, R12, R23.
func TestConditions_TellHowPredecessorsEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("a"), after("b"), when("early", ended("a", isAborted)),
		when("early too", ended("b", isCompleted), ended("a", isAborted, isCompleted)))
	got := play(t, store, nil, "a")
	if got["early"] != isCompleted || got["early too"] != isCompleted {
		t.Fatalf("the tasks are %v", got)
	}
	insert(t, store, when("late", ended("a", isAborted)),
		when("late too", ended("b", isCompleted), ended("a", isAborted, isCompleted)))
	wantErr(t, "RetryTasks",
		errOf(store.RetryTasks(t.Context(), []stint.TaskID{"early", "early too"})), nil)
	want := map[stint.TaskID][2]int{
		"early": {0, 1}, "early too": {1, 1}, "late": {0, 1}, "late too": {1, 1},
	}
	for _, owned := range own(t, store, 10) {
		if told := [2]int{owned.Completed, owned.Aborted}; told != want[owned.ID] {
			t.Errorf("%q is told of %v completed and aborted, want %v", owned.ID, told,
				want[owned.ID])
		}
		delete(want, owned.ID)
	}
	if len(want) > 0 {
		t.Errorf("not owned are %v", want)
	}
}
