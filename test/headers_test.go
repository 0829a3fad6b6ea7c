package stint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// headed gives each of tasks headers of its own, but for every third.
func headed(tasks []stint.Task) []stint.Task {
	for i := range tasks {
		if i%3 != 2 {
			tasks[i].Headers = map[string]string{
				"traceparent": fmt.Sprintf("00-%032x-%016x-01", i+1, i+1),
				"tenant-id":   "Ærø \"&<\\\n\x01\u2028",
			}
		}
	}
	return tasks
}

// wantHeaders checks that tasks have their headers, in whichever way one looks.
func wantHeaders(t *testing.T, store *stint.Store, tasks []stint.Task) {
	t.Helper()
	want := map[stint.TaskID]map[string]string{}
	for _, task := range tasks {
		want[task.ID] = task.Headers
	}
	infos, err := store.GetTasks(t.Context(), named(tasks))
	wantErr(t, "GetTasks", err, nil)
	page, err := store.ListTasks(t.Context(), stint.Filter{Limit: 10_000})
	wantErr(t, "ListTasks", err, nil)
	for _, info := range slices.Concat(infos, page.Tasks) {
		if of, ok := want[info.ID]; ok && !maps.Equal(info.Headers, of) {
			t.Errorf("%q has the headers %q, want %q", info.ID, info.Headers, of)
		}
	}
}

// wantOwnedHeaders checks that tasks come to their owner with the headers that they have.
func wantOwnedHeaders(t *testing.T, owned []stint.OwnedTask, tasks ...stint.Task) {
	t.Helper()
	want := map[stint.TaskID]map[string]string{}
	for _, task := range tasks {
		want[task.ID] = task.Headers
	}
	if len(owned) != len(tasks) {
		t.Errorf("%d tasks are fetched, want %d", len(owned), len(tasks))
	}
	for _, task := range owned {
		if !maps.Equal(task.Headers, want[task.ID]) {
			t.Errorf("%q is fetched with %q, want %q", task.ID, task.Headers, want[task.ID])
		}
	}
}

// asynq#787: "something analogous to headers in HTTP ... to inject tracing context on the client
// side, to be extracted on the server side", without a field of every payload.
// Proves G232.
func TestHeaders_ComeToTheOwnerHoweverTheTaskIsInserted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	linked := func(prefix string, n int) []stint.Task {
		tasks := numbered(prefix, n)
		for i := 1; i < n; i++ {
			tasks[i].ToSignalAfter = []stint.TaskID{tasks[0].ID}
		}
		return tasks
	}
	for _, tasks := range [][]stint.Task{
		numbered("alone", 1), // in one statement with those of others
		numbered("few", 5), numbered("many", 200), keyed(numbered("keyed", 200), "a", ""),
		linked("network", 10), linked("large network", 200),
	} {
		insert(t, store, headed(tasks)...)
		wantHeaders(t, store, tasks)
		var owned []stint.OwnedTask
		for len(owned) < len(tasks) { // those of networks in two steps
			some := own(t, store, len(tasks))
			complete(t, store, some...)
			owned = append(owned, some...)
		}
		wantOwnedHeaders(t, owned, tasks...)
	}
	streamed := headed(numbered("streamed", 100))
	_, err := store.InsertTasksFrom(t.Context(), stream(streamed, nil))
	wantErr(t, "InsertTasksFrom", err, nil)
	wantHeaders(t, store, streamed)
	for _, n := range []int{1, 5, 100} {
		replacing := headed(numbered("streamed", n))
		for i := range replacing {
			replacing[i].Headers = map[string]string{"new": fmt.Sprint(i)}
		}
		wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), replacing), nil)
		copy(streamed, replacing)
		wantHeaders(t, store, streamed)
	}
	wantOwnedHeaders(t, own(t, store, 1000), streamed...)
	tx := begin(t, pool)
	inside := headed(numbered("inside", 1))
	insert(t, store.WithTx(tx), inside...)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantOwnedHeaders(t, own(t, store, 2), inside...)
}

// All tries have them, also those behind a retry by hand, and what else changes of the task leaves
// them alone.
// Proves G232.
func TestHeaders_StayWithTheTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	task := headed(numbered("t", 1))[0]
	insert(t, store, task)
	owned := ownOne(t, store)
	returnWith(t, store, owned, stint.Return{Code: stint.StatusPending, RetryAfter: time.Hour})
	_, err := store.ChangeTasks(ctx, []stint.TaskID{task.ID}, stint.TaskChanges{
		StartNow: true, Priority: new(int16(7)), Key: new("k"), MaxTries: 9,
	})
	wantErr(t, "ChangeTasks", err, nil)
	wantOwnedHeaders(t, own(t, store, 1), task)
	expireLeases(t, pool)
	maintain(t, store)
	wantOwnedHeaders(t, own(t, store, 1), task)
	_, err = store.AbortTasks(ctx, []stint.TaskID{task.ID}, "")
	wantErr(t, "AbortTasks", err, nil)
	retry(t, store, task.ID)
	wantHeaders(t, store, []stint.Task{task})
	owned = ownOne(t, store)
	wantOwnedHeaders(t, []stint.OwnedTask{owned}, task)
	// A task that takes its ID, or runs behind it, has its own.
	next := stint.Task{ID: task.ID, Action: "act", Headers: map[string]string{"call": "1"}}
	for _, call := range []string{"1", "2"} { // inserts one to follow, and changes that
		next.Headers = map[string]string{"call": call}
		wantErr(t, "Debounce", store.Debounce(ctx, next, time.Microsecond, time.Hour), nil)
	}
	complete(t, store, owned)
	follows := next
	follows.ID += "+"
	wantHeaders(t, store, []stint.Task{task, follows})
	wantOwnedHeaders(t, own(t, store, 1), follows)
}

// Proves G232.
func TestHeaders_AreToldByEveryLook(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	first, second := after("first"), after("second", "first")
	first.Headers, second.Headers = map[string]string{"a": "1"}, map[string]string{"b": ""}
	insert(t, store, first, second)
	same := func(what string, got stint.TaskInfo, want stint.Task) {
		t.Helper()
		if got.ID != want.ID || !maps.Equal(got.Headers, want.Headers) {
			t.Errorf("%s tells the headers %q of %q", what, got.Headers, got.ID)
		}
	}
	why, err := store.Explain(t.Context(), "second")
	wantErr(t, "Explain", err, nil)
	same("Explain", why.Task, second)
	same("Explain", why.WaitsFor[0], first)
	graph, err := store.Graph(t.Context(), "first")
	wantErr(t, "Graph", err, nil)
	same("Graph", graph.Tasks[0], first)
	same("Graph", graph.Tasks[1], second)
	ownOne(t, store)
	problems, err := store.Problems(t.Context(), 10)
	wantErr(t, "Problems", err, nil)
	same("Problems", problems.Slow[0], first)
}

// Proves G232.
func TestHeaders_ComeWithTheTasksOfSchedules(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := headed([]stint.Task{{Action: "act"}})
	wantErr(t, "PutSchedules", store.PutSchedules(ctx, []stint.Schedule{
		{Name: "s", Spec: "@yearly", Tasks: tasks},
	}), nil)
	id, err := store.TriggerSchedule(ctx, "s")
	wantErr(t, "TriggerSchedule", err, nil)
	tasks[0].ID = id
	wantOwnedHeaders(t, own(t, store, 2), tasks...)
	exec(t, pool, "UPDATE stint.schedules SET next_at = now() - interval '1 s'")
	maintain(t, store)
	owned := ownOne(t, store)
	if !maps.Equal(owned.Headers, tasks[0].Headers) {
		t.Errorf("the task of an occurrence has the headers %q", owned.Headers)
	}
	listed, err := store.ListSchedules(ctx)
	wantErr(t, "ListSchedules", err, nil)
	if got := listed[0].Tasks[0].Headers; !maps.Equal(got, tasks[0].Headers) {
		t.Errorf("the schedule has the headers %q", got)
	}
}

// tooMany are headers with one more than a task may have.
func tooMany() map[string]string {
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint("name-", i)] = ""
	}
	return many
}

// Proves G233.
func TestHeaders_RefusesWhatIsBeyondTheLimits(t *testing.T) {
	t.Parallel()
	store, pool := newAddStore(t)
	closed, _ := newUncheckedStore(t, stint.Options{})
	most := map[string]string{"name": strings.Repeat("\x01", 2044)} // six bytes each in JSON
	full := stint.Task{ID: "most", Action: "act", Headers: most}
	insert(t, store, full)
	mustAdd(t, pool, "'act', id => 'most too', headers => $1", most)
	wantHeaders(t, store, []stint.Task{full, {ID: "most too", Headers: most}})
	for name, test := range map[string]struct {
		headers map[string]string
		want    error
	}{
		"too many": {tooMany(), stint.ErrTooLarge},
		"too long": {map[string]string{"name": most["name"] + "v"}, stint.ErrTooLarge},
		"no name":  {map[string]string{"": "v"}, stint.ErrInvalidArgument},
		"a long name": {
			map[string]string{strings.Repeat("n", 65): ""}, stint.ErrInvalidArgument,
		},
		"a capital letter": {map[string]string{"Name": "v"}, stint.ErrInvalidArgument},
		"a new line":       {map[string]string{"name\n": "v"}, stint.ErrInvalidArgument},
	} {
		task := stint.Task{ID: "t", Action: "act", Headers: test.headers}
		err := closed.InsertTasks(t.Context(), []stint.Task{{Action: "act"}, task})
		wantErr(t, name, err, test.want)
		var refused *stint.ArgumentError
		if !errors.As(err, &refused) || refused.Index != 1 || refused.ID != "t" {
			t.Errorf("%s: %v names another task", name, err)
		}
		wantErr(t, name, closed.Debounce(t.Context(), task, time.Second, time.Second), test.want)
		_, err = closed.ListTasks(t.Context(), stint.Filter{Headers: test.headers})
		wantErr(t, name, err, test.want)
		err = closed.PutSchedules(t.Context(), []stint.Schedule{
			{Name: "s", Spec: "@daily", Tasks: []stint.Task{task}},
		})
		wantErr(t, name, err, test.want)
		_, err = addTask(t.Context(), pool, "'act', headers => $1", test.headers)
		code := map[error]string{
			stint.ErrTooLarge: "STI03", stint.ErrInvalidArgument: "STI02",
		}[test.want]
		wantCode(t, name, err, code, "headers: ")
	}
	for name, value := range map[string]string{"NUL": "a\x00b", "no UTF-8": "\xff"} {
		err := closed.InsertTasks(t.Context(), []stint.Task{
			{Action: "act", Headers: map[string]string{"name": value}},
		})
		wantErr(t, name, err, stint.ErrInvalidArgument)
	}
	for _, document := range []string{`[]`, `"a"`, `{"a": 1}`, `{"a": null}`} {
		_, err := addTask(t.Context(), pool, "'act', headers => $1::text::jsonb", document)
		wantCode(t, document, err, "STI02", "headers: must")
	}
}

// Proves G14.
func TestHeaders_AddTaskTakesThem(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newAddStore(t)
	want := headed(numbered("t", 2))
	mustAdd(t, pool, "'act', id => 't000000', headers => $1", want[0].Headers)
	mustAdd(t, pool, "'act', id => 't000001', headers => $1", want[1].Headers)
	mustAdd(t, pool, "'act', id => 'none', headers => '{}'")
	want = append(want, stint.Task{ID: "none"})
	wantHeaders(t, store, want)
	wantOwnedHeaders(t, own(t, store, 4), want...)
}

// What the options add comes by the context of the call, to tasks that lack it; the caller's slice
// stays as it was, so that it can be inserted again for somebody else.
// Proves G233.
func TestOptionsHeaders_AddsThemToWhatACallInserts(t *testing.T) {
	t.Parallel()
	type of struct{}
	store, pool := newStoreAndPool(t, stint.Options{
		Headers: func(ctx context.Context) map[string]string {
			added, _ := ctx.Value(of{}).(map[string]string)
			return added
		},
	})
	trace := map[string]string{"traceparent": "00-1", "tracestate": strings.Repeat("s", 2000)}
	ctx := context.WithValue(t.Context(), of{}, trace)
	tasks := []stint.Task{
		{ID: "none", Action: "act"},
		{ID: "other", Action: "act", Headers: map[string]string{"tenant": strings.Repeat("t", 99)}},
		{ID: "own", Action: "act", Headers: map[string]string{"traceparent": "00-2"}},
		{ID: "full", Action: "act", Headers: map[string]string{"x": strings.Repeat("x", 2040)}},
	}
	given := slices.Clone(tasks)
	wantErr(t, "InsertTasks", store.InsertTasks(ctx, tasks), nil)
	for i := range tasks {
		if !maps.Equal(tasks[i].Headers, given[i].Headers) {
			t.Errorf("the caller's task has the headers %q", tasks[i].Headers)
		}
	}
	want := slices.Clone(given)
	want[0].Headers = trace
	want[1].Headers = map[string]string{ // there is no room for the rest
		"traceparent": "00-1", "tenant": given[1].Headers["tenant"],
	}
	wantHeaders(t, store, want)
	wantOwnedHeaders(t, own(t, store, 4), want...)
	tx := begin(t, pool)
	inside := store.WithTx(tx)
	wantErr(t, "Debounce",
		inside.Debounce(ctx, stint.Task{ID: "d", Action: "act"}, time.Hour, time.Hour), nil)
	wantErr(t, "ReplaceTasks",
		inside.ReplaceTasks(ctx, []stint.Task{{ID: "r", Action: "act"}}), nil)
	streamed := []stint.Task{{ID: "s", Action: "act"}}
	_, err := inside.InsertTasksFrom(ctx, stream(streamed, nil))
	wantErr(t, "InsertTasksFrom", err, nil)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantHeaders(t, store, []stint.Task{
		{ID: "d", Headers: trace}, {ID: "r", Headers: trace}, {ID: "s", Headers: trace},
	})
}

// Proves G234.
func TestListTasks_ByHeaders(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	tasks := numbered("t", 10)
	for i := range tasks {
		tasks[i].Headers = map[string]string{"tenant": fmt.Sprint(i % 2), "n": fmt.Sprint(i)}
	}
	tasks[9].Headers = nil
	insert(t, store, tasks...)
	insert(t, store, stint.Task{ID: "odd", Action: "act", Headers: map[string]string{"n": `{"`}})
	for _, test := range []struct {
		filter stint.Filter
		want   string
	}{
		{
			stint.Filter{Headers: map[string]string{"tenant": "1"}},
			"t000001 t000003 t000005 t000007",
		},
		{stint.Filter{Headers: map[string]string{"tenant": "1", "n": "5"}}, "t000005"},
		{stint.Filter{Headers: map[string]string{"n": "5", "other": "5"}}, ""},
		{stint.Filter{Headers: map[string]string{"n": ""}}, ""},
		{stint.Filter{Headers: map[string]string{"n": `{"`}}, "odd"},
		{stint.Filter{
			Headers: map[string]string{"tenant": "0"}, States: []stint.State{stint.StateReady},
			Limit: 2,
		}, "t000000 t000002"},
		{stint.Filter{Headers: map[string]string{"n": "3"}, NewestFirst: true}, "t000003"},
		{stint.Filter{Headers: map[string]string{}, IDPrefix: "odd"}, "odd"},
	} {
		page, err := store.ListTasks(t.Context(), test.filter)
		wantErr(t, "ListTasks", err, nil)
		var got []string
		for _, info := range page.Tasks {
			got = append(got, string(info.ID))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v lists %q, want %q", test.filter, got, test.want)
		}
	}
}

// Proves G236.
func TestOwnedTask_SaysWhenTheTaskWasInserted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("one", 1)...)
	insert(t, store, numbered("many", 100)...)
	exec(t, pool, "UPDATE stint.tasks SET inserted_at = now() - interval '3 days' WHERE id = $1",
		"one000000")
	same := func(owned []stint.OwnedTask) {
		t.Helper()
		for _, task := range owned {
			if at := info(t, store, task.ID).InsertedAt; !task.InsertedAt.Equal(at) ||
				at.IsZero() {
				t.Errorf("%q is said to be inserted at %v, not %v", task.ID, task.InsertedAt, at)
			}
		}
	}
	claim := stint.Claim{Number: 7}
	for range 2 { // the answer to the first call was lost
		owned, err := claims(ctx, store, claim, 200)
		wantErr(t, "ClaimTasks", err, nil)
		if len(owned) != 101 {
			t.Fatalf("%d tasks, want 101", len(owned))
		}
		same(owned)
		claim.Repeated = true
	}
	wantErr(t, "SetLimits", store.SetLimits(ctx, "limited", stint.Limits{Concurrency: 5}), nil)
	insert(t, store, headed([]stint.Task{{ID: "l", Action: "limited"}})...)
	limited, err := store.OwnTasks(ctx, "actor", 2, []string{"limited"}, time.Hour)
	if err != nil || len(limited) != 1 || len(limited[0].Headers) != 2 {
		t.Errorf("OwnTasks below a limit = %+v, %v", limited, err)
	}
	same(limited)
}
