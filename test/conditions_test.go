package stint_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
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
			when("join", ended("heads", isCompleted, isSkipped), ended("tails", isCompleted, isSkipped)),
		},
		results: map[stint.TaskID]string{"flip": "tails"},
		want:    map[stint.TaskID]stint.State{"heads": isSkipped, "join": isCompleted},
	},
	{
		name: "an abort that the fan-in does not accept aborts it",
		tasks: []stint.Task{
			after("flip"), when("heads", answers("flip", "heads")),
			when("tails", answers("flip", "tails")),
			when("join", ended("heads", isCompleted, isSkipped), ended("tails", isCompleted, isSkipped)),
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

// Proves R23.
func TestConditions_DecideWhatRuns(t *testing.T) {
	t.Parallel()
	for _, c := range conditionals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			insert(t, store, c.tasks...)
			got := play(t, store, c.results, c.fails...)
			for id, want := range c.want {
				if got[id] != want {
					t.Errorf("%q is %s, want %s", id, got[id], want)
				}
			}
		})
	}
}
