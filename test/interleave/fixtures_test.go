package interleave_test

import (
	"time"

	"github.com/stint-tasks/stint"
)

// A fixture is a few tasks, of which t is the one that verbs are about. In most, d waits for t, and
// p and q are owned by somebody.
type fixture struct {
	name  string
	build func(w *world)
}

// day is the unit of times, so that it does not matter how long the tests take.
const day = 24 * time.Hour

func act(id stint.TaskID, after ...stint.TaskID) stint.Task {
	return stint.Task{ID: id, Action: "act", After: after}
}

// other is a task that nobody fetches.
func other(id stint.TaskID, after ...stint.TaskID) stint.Task {
	return stint.Task{ID: id, Action: "other", After: after}
}

// pqOwned inserts p and q, which "first" owns, each by itself.
func pqOwned(w *world) {
	w.t.Helper()
	for _, id := range []stint.TaskID{"p", "q"} {
		w.insert(stint.Task{ID: id, Action: "before"})
		w.own(1, "before")
	}
}

var fixtures = []fixture{
	{"ready", func(w *world) { w.insert(act("t"), other("d", "t"), other("x")) }},
	{"two chains", func(w *world) {
		w.insert(act("t"), other("d", "t"), other("x"), other("y", "x"))
	}},
	{"span", func(w *world) { w.insert(act("s"), act("t"), act("u")) }},
	{"owned span", func(w *world) {
		w.insert(act("s"), act("t"), act("u"))
		w.own(3, "act")
		w.insert(other("d", "t"), other("x"))
	}},
	{"owned", func(w *world) {
		w.insert(act("t"), other("d", "t"), other("x"))
		w.own(1, "act")
	}},
	{"expired", func(w *world) {
		w.insert(act("t"), other("d", "t"), other("x"))
		w.own(1, "act")
		w.exec("expire_leases")
	}},
	{"expired last", func(w *world) {
		w.insert(stint.Task{ID: "t", Action: "act", MaxTries: 1}, other("d", "t"), other("x"))
		w.own(1, "act")
		w.exec("expire_leases")
	}},
	{"late", func(w *world) {
		w.insert(act("t"), other("d", "t"), other("x"))
		w.own(1, "act")
		w.exec("expire_leases")
		w.ok("Maintain", w.truth.Maintain(w.t.Context()))
	}},
	{"blocked", func(w *world) {
		pqOwned(w)
		w.insert(act("t", "p", "q"), other("d", "t"), other("x"))
	}},
	{"conditions", func(w *world) {
		pqOwned(w)
		w.insert(stint.Task{
			ID: "t", Action: "act", After: []stint.TaskID{"q"},
			When: []stint.Condition{{After: "p", Results: []string{"yes"}}},
		}, other("d", "t"), other("x"))
	}},
	{"any", func(w *world) {
		pqOwned(w)
		w.insert(stint.Task{
			ID: "t", Action: "act", WhenAny: []stint.Condition{
				{After: "p", Results: []string{"yes"}},
				{After: "q", States: []stint.State{stint.StateAborted, stint.StateCompleted}},
			},
		}, other("d", "t"), other("x"))
	}},
	{"spontaneous", func(w *world) {
		pqOwned(w)
		w.insert(
			stint.Task{ID: "t", Action: stint.Spontaneous, After: []stint.TaskID{"p", "q"}},
			act("d", "t"), other("x"))
	}},
	{"completed", func(w *world) {
		pqOwned(w)
		w.insert(act("t"), other("d", "t", "p"), other("x"))
		w.own(1, "act")
		w.finish("t", stint.StatusCompleted)
	}},
	{"aborted", func(w *world) {
		pqOwned(w)
		w.insert(act("t"), other("d", "t", "p"), other("x"))
		w.own(1, "act")
		w.finish("t", stint.StatusAborted)
	}},
	{"old", func(w *world) {
		w.insert(act("t"), act("d", "t"), other("x"))
		for _, id := range []stint.TaskID{"t", "d"} {
			w.own(1, "act")
			w.finish(id, stint.StatusCompleted)
		}
		w.exec("age_finished")
	}},
	{"due", func(w *world) {
		w.insert(stint.Task{ID: "t", Action: "act", NotBefore: time.Now().Add(day)},
			other("d", "t"), other("x"))
		w.exec("make_due")
	}},
	{"scheduled", func(w *world) {
		w.insert(stint.Task{ID: "t", Action: "act", NotBefore: time.Now().Add(day)},
			other("d", "t"), other("x"))
	}},
	{"deadline", func(w *world) {
		w.insert(stint.Task{ID: "t", Action: "act", Deadline: time.Now().Add(day)},
			other("d", "t"), other("x"))
		w.exec("pass_deadlines")
	}},
	{"owned deadline", func(w *world) {
		w.insert(stint.Task{ID: "t", Action: "act", Deadline: time.Now().Add(day)},
			other("d", "t"), other("x"))
		w.own(1, "act")
		w.exec("pass_deadlines")
	}},
	{"external", func(w *world) {
		w.insert(stint.Task{ID: "t", Action: stint.External}, act("d", "t"), other("x"))
	}},
	{"external deadline", func(w *world) {
		w.insert(stint.Task{
			ID: "t", Action: stint.External, Deadline: time.Now().Add(day),
		}, act("d", "t"), other("x"))
		w.exec("pass_deadlines")
	}},
	limited("per key", stint.Limits{ConcurrencyPerKey: 1}),
	limited("concurrency", stint.Limits{Concurrency: 1}),
	limited("ordered", stint.Limits{Ordered: true}),
	limited("fair", stint.Limits{Fair: true, Concurrency: 1}),
	limited("budget", stint.Limits{Rate: slowly, ByCost: true}),
	limited("budget of a key", stint.Limits{RatePerKey: slowly, ByCost: true}),
	{"fail fast", func(w *world) {
		pqOwned(w)
		w.insert(act("t", "p"), stint.Task{
			ID: "d", Action: "other", FailFast: true, After: []stint.TaskID{"t", "q"},
		}, other("x"))
	}},
	{"failed", func(w *world) {
		pqOwned(w)
		w.insert(act("t", "p"), stint.Task{
			ID: "d", Action: "other", FailFast: true, After: []stint.TaskID{"t", "q"},
		}, other("x"))
		w.finish("q", stint.StatusAborted)
	}},
	{"schedule", func(w *world) {
		w.ok("PutSchedules", w.truth.PutSchedules(w.t.Context(), []stint.Schedule{daily}))
		w.exec("make_due")
	}},
	{"debounced", func(w *world) {
		w.insert(other("x"))
		w.ok("Debounce", w.truth.Debounce(w.t.Context(), act("t"), day, 2*day))
	}},
	{"debounced twice", func(w *world) {
		w.insert(act("t"), other("x"))
		w.own(1, "act")
		w.ok("Debounce", w.truth.Debounce(w.t.Context(), act("t"), day, 2*day))
	}},
}

var daily = stint.Schedule{Name: "s", Spec: "@daily", Tasks: []stint.Task{act("")}}

// slowly is a budget to which nothing comes in as long as tests take, and which t takes all of.
var slowly = stint.Rate{Tasks: 100, Per: 300 * day, Burst: 100}

// limited is a fixture in which t is owned under limits, and u and v have to wait.
func limited(name string, limits stint.Limits) fixture {
	return fixture{name, func(w *world) {
		w.t.Helper()
		w.ok("SetLimits", w.truth.SetLimits(w.t.Context(), "act", limits))
		for _, id := range []stint.TaskID{"t", "u", "v"} {
			w.insert(stint.Task{ID: id, Action: "act", Key: "k", Cost: 100})
		}
		w.own(1, "act")
		owned, err := w.truth.OwnTasks(w.t.Context(), "first", 1, []string{"act"}, day)
		if w.ok("OwnTasks", err); len(owned) > 0 {
			w.t.Fatalf("OwnTasks gave %v past the limits", owned)
		}
		w.insert(other("d", "t"), other("x"))
	}}
}
