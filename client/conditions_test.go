package client_test

import (
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Conditions go through the service byte for byte, and so does what they bring about.
// Proves R23.
func TestClient_CarriesConditions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	when := func(id stint.TaskID, conditions ...stint.Condition) stint.Task {
		return stint.Task{ID: id, Action: "act", When: conditions}
	}
	tasks := []stint.Task{
		{ID: "a", Action: "act"},
		when("b", stint.Condition{After: "a", Results: []string{"x", "\xff\x00"}}),
		when("c", stint.Condition{After: "a", States: []stint.State{stint.StateAborted}}),
		{ID: "d", Action: "act", WhenAny: []stint.Condition{
			{After: "b"}, {After: "c", States: []stint.State{stint.StateSkipped}},
		}},
		{ID: "ask", Action: stint.External},
	}
	wantErr(t, "InsertTasks", r.InsertTasks(ctx, tasks), nil)
	graph, err := r.Graph(ctx, "a")
	want, err2 := r.store.Graph(ctx, "a")
	same(t, "Graph", graph.Conditions, want.Conditions, err, err2)
	if len(graph.Conditions) != 4 {
		t.Errorf("the conditions are %v", graph.Conditions)
	}
	why, err := r.Explain(ctx, "d")
	if err != nil || !why.AnyOf || why.Missing != 2 {
		t.Errorf("Explain = %+v, %v", why, err)
	}
	owned := r.own(t, 1)[0]
	verdicts, err := r.ReturnTasks(ctx, []stint.Return{{
		ID: "a", Token: owned.Token, Code: stint.StatusCompleted, Result: []byte("\xff\x00"),
	}})
	wantErr(t, "ReturnTasks", err, nil)
	wantErr(t, "the return", verdicts[0], nil)
	verdicts, err = r.AnswerTasks(ctx, "ann", []stint.Answer{
		{ID: "ask", Code: stint.StatusSkipped},
	})
	wantErr(t, "AnswerTasks", err, nil)
	wantErr(t, "the answer", verdicts[0], nil)
	wantSkipped(t, r)
	existing, err := r.EnsureTasks(ctx, []stint.Task{
		tasks[0], when("e", stint.Condition{After: "a", States: []stint.State{stint.StateAborted}}),
	})
	if err != nil || len(existing) != 1 {
		t.Errorf("EnsureTasks = %v, %v", existing, err)
	}
	err = r.InsertTasks(ctx, []stint.Task{when("f", stint.Condition{After: "a\xff"})})
	wantErr(t, "InsertTasks", err, stint.ErrInvalidArgument)
	schedule := stint.Schedule{Name: "s", Spec: "@daily", Tasks: tasks[:4]}
	schedule.Tasks[1].When[0].Results = []string{"x"}
	wantErr(t, "PutSchedules", r.PutSchedules(ctx, []stint.Schedule{schedule}), nil)
	kept, err := r.ListSchedules(ctx, "s")
	wantErr(t, "ListSchedules", err, nil)
	same(t, "when", kept[0].Tasks[1].When, schedule.Tasks[1].When)
	same(t, "when any", kept[0].Tasks[3].WhenAny, schedule.Tasks[3].WhenAny)
}

// wantSkipped checks what the verbs that read say of the tasks of TestClient_CarriesConditions.
func wantSkipped(t *testing.T, r *remote) {
	t.Helper()
	ctx := t.Context()
	infos, err := r.GetTasks(ctx, []stint.TaskID{"b", "c", "d", "ask"})
	wantErr(t, "GetTasks", err, nil)
	for i, state := range []stint.State{
		stint.StateReady, stint.StateSkipped, stint.StateReady, stint.StateSkipped,
	} {
		if infos[i].State != state {
			t.Errorf("%q is %s, want %s", infos[i].ID, infos[i].State, state)
		}
	}
	if infos[1].StatusCode != stint.StatusSkipped || infos[1].FinishedAt.IsZero() {
		t.Errorf("a skipped task is %+v", infos[1])
	}
	stats, err := r.Stats(ctx)
	wantErr(t, "Stats", err, nil)
	if a := stats.Actions[0]; a.Skipped != 1 || a.Aborted != 0 {
		t.Errorf("Stats = %+v", a)
	}
	page, err := r.ListTasks(ctx, stint.Filter{States: []stint.State{stint.StateSkipped}})
	if err != nil || len(page.Tasks) != 2 {
		t.Errorf("ListTasks = %+v, %v", page, err)
	}
}
