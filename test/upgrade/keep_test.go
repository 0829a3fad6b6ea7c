//go:build unix

package upgrade_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

const span = 2000

// A world is tasks in every state.
type world struct {
	// owned are in progress: one alone, with a status, and those of a span.
	owned, ownedSpan []stint.OwnedTask
	// late is a task whose lease has expired, fork one that others wait for.
	late, fork stint.OwnedTask
	// shown are the tasks to look at with everything.
	shown []stint.TaskID
}

// populate makes tasks in every state, by the verbs of a release.
func populate(t *testing.T, c *client.Client, s side) *world {
	t.Helper()
	ctx := t.Context()
	soon, inAnHour := time.Now().Add(time.Second), time.Now().Add(time.Hour)
	s.insert(named("bulk ", "bulk", span)...)
	s.insert(named("owned span ", "span", 100)...)
	singles := []stint.Task{
		{ID: "single", Action: "single", Body: []byte("body \x00\xff"), Priority: 7},
		{ID: "scheduled", Action: "single", NotBefore: inAnHour},
		{ID: "deadlined", Action: "single", Deadline: inAnHour, MaxTries: stint.UnlimitedTries},
		{ID: "retried", Action: "retry", MaxTries: 3},
		{ID: "put off", Action: "put off"},
		{ID: "late", Action: "late"},
		{ID: "exhausted", Action: "exhaust", MaxTries: 1},
		{ID: "answered", Action: "answer", PostResult: true},
		{ID: "failed", Action: "fail"},
		{ID: "doomed", Action: "single", After: []stint.TaskID{"failed"}},
		{ID: "anyway", Action: "anyway", After: []stint.TaskID{"failed"}, OnAbort: stint.RunAnyway},
		{ID: "cancelled", Action: "single"},
		{ID: "replaced", Action: "single"},
		{ID: "expired", Action: "never", Deadline: soon},
		{ID: "opened again", Action: "again"},
		{ID: "question", Action: stint.External},
		{ID: "owned", Action: "own"},
		{ID: "net/done", Action: "net"},
		{ID: "net/fork", Action: "fork"},
		{ID: "net/join", Action: stint.Spontaneous, After: []stint.TaskID{"net/done", "net/fork"}},
		{ID: "net/asks", Action: "net", After: []stint.TaskID{"net/join", "question"}},
		{ID: "net/later", Action: "net", After: []stint.TaskID{"net/done"}, NotBefore: inAnHour},
		{ID: "net/end", Action: "net", After: []stint.TaskID{"net/asks"}, Deadline: inAnHour},
	}
	s.insert(singles...)
	w := &world{late: s.own("late", 1, time.Millisecond)[0]}
	for _, task := range singles {
		w.shown = append(w.shown, task.ID)
	}
	s.end(s.own("retry", 1, time.Hour), stint.Return{Code: stint.StatusPending, Status: "again"})
	s.end(s.own("put off", 1, time.Hour), stint.Return{
		Code: stint.StatusPending, RetryAfter: time.Hour,
	})
	s.end(s.own("exhaust", 1, time.Hour), stint.Return{Code: stint.StatusPending})
	s.end(s.own("answer", 1, time.Hour), stint.Return{
		Code: stint.StatusCompleted, Result: []byte("42"),
	})
	s.end(s.own("fail", 1, time.Hour), stint.Return{Code: stint.StatusAborted, Status: "said"})
	s.end(s.own("again", 1, time.Hour), stint.Return{Code: stint.StatusAborted})
	_, err := c.RetryTasks(ctx, []stint.TaskID{"opened again"})
	wantErr(t, "RetryTasks", err, nil)
	_, err = c.AbortTasks(ctx, []stint.TaskID{"cancelled"}, "not wanted")
	wantErr(t, "AbortTasks", err, nil)
	err = c.ReplaceTasks(ctx, []stint.Task{{ID: "replaced", Action: "single", Priority: 1}})
	wantErr(t, "ReplaceTasks", err, nil)
	s.complete(s.own("net", 1, time.Hour)...)
	w.fork = s.own("fork", 1, time.Hour)[0]
	w.owned, w.ownedSpan = s.own("own", 1, time.Hour), s.own("span", 90, time.Hour)
	wantErr(t, "SetStatus", c.SetStatus(ctx, w.owned[0], "half way", 0.5), nil)
	s.complete(w.ownedSpan[40:50]...) // so the span is cut
	w.ownedSpan = append(w.ownedSpan[:40:40], w.ownedSpan[50:]...)
	eventually(t, "the end of the lease", func() bool { return s.get("late").State == "ready" })
	eventually(t, "the deadline", func() bool { return s.get("expired").State == "aborted" })
	s.wantAsPopulated()
	return w
}

func (s side) wantAsPopulated() {
	s.t.Helper()
	s.wantState("ready", "bulk 0", "single", "deadlined", "retried", "late", "anyway", "replaced",
		"opened again", "owned span 99")
	s.wantState("scheduled", "scheduled", "put off", "net/later")
	s.wantState("in-progress", "owned", "owned span 0", "net/fork")
	s.wantState("completed", "answered", "net/done", "owned span 40")
	s.wantState("blocked", "net/join", "net/asks", "net/end")
	for id, cause := range map[stint.TaskID]string{
		"exhausted": "tries", "failed": "returned", "doomed": "dependency",
		"cancelled": "cancelled", "expired": "expired",
	} {
		s.wantState("aborted "+cause, id)
	}
}

// Proves G155.
func TestMigrate_KeepsAllTasksAndTokens(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx, pool := t.Context(), testdb.NewEmpty(t)
	old, latest := oldRelease(t, pool), newRelease(t, pool)
	old.must(t, "", "migrate")
	old.must(t, "", "migrate", "functions")
	wantVersion(t, pool, 1)
	_, c := old.serve(t)
	before := side{c, t, "old"}
	w := populate(t, c, before)
	was := look(t, old, w.shown)

	latest.must(t, "", "migrate")
	wantVersion(t, pool, migrations.Version())
	wantSame(t, was, look(t, latest, w.shown))
	wantSame(t, was, look(t, old, w.shown))
	store := openStore(t, pool)
	after := side{store, t, "new"}
	wantClean(t, store, old)

	// What the old release has fetched, the new one takes back, and the other way round.
	kept, err := store.ExtendTasksOwnership(ctx, "old", w.ownedSpan[:20], 2*time.Hour)
	if err != nil || len(kept) != 20 || !kept[0] || !kept[19] {
		t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	err = c.SetStatus(ctx, w.ownedSpan[0], "almost", 0.9)
	wantErr(t, "SetStatus", err, nil)
	after.complete(w.owned[0], w.fork, w.late)
	after.complete(w.ownedSpan[:70]...)
	before.complete(w.ownedSpan[70:]...)
	before.complete(after.own("bulk", span/2, time.Hour)...)
	after.complete(before.own("bulk", span/2, time.Hour)...)
	before.complete(after.own("span", 10, time.Hour)...)
	before.complete(after.own("retry", 1, time.Hour)...)
	after.complete(before.own("again", 1, time.Hour)...)
	after.end(before.own("anyway", 1, time.Hour), stint.Return{Code: stint.StatusPending})
	before.complete(after.own("anyway", 1, time.Hour)...)
	lapsed := after.own("single", 1, time.Millisecond)
	eventually(t, "the end of a lease", func() bool {
		return before.get("single").State == stint.StateReady
	})
	before.complete(lapsed...) // late, as nobody else owns it
	after.wantState("completed", "net/join", "late", "owned", "retried", "single")
	verdicts, err := store.AnswerTasks(ctx, "people", []stint.Answer{
		{ID: "question", Code: stint.StatusCompleted},
	})
	wantErr(t, "AnswerTasks", errors.Join(append(verdicts, err)...), nil)
	before.complete(after.own("net", 1, time.Hour)...) // net/asks
	after.complete(before.own("net", 1, time.Hour)...) // net/end
	execute(t, pool, "SELECT stint.add_task('function', id => 'from SQL')")
	after.complete(before.own("function", 1, time.Hour)...)

	if _, err = c.RetryTasks(ctx, []stint.TaskID{"failed"}); err != nil {
		t.Errorf("RetryTasks = %v", err)
	}
	after.wantState("blocked", "doomed")
	before.complete(after.own("fail", 1, time.Hour)...)
	if _, err = store.RetryTasks(ctx, []stint.TaskID{"exhausted"}); err != nil {
		t.Errorf("RetryTasks = %v", err)
	}
	after.complete(before.own("exhaust", 1, time.Hour)...)
	wantClean(t, store, old)
	left := yields[string](t, pool, `SELECT string_agg(id, ', ' ORDER BY id)
		FROM stint.task_states WHERE state < 10`)
	if want := "deadlined, doomed, net/later, put off, replaced, scheduled"; left != want {
		t.Errorf("left are %s, want %s", left, want)
	}
}

func TestRelease_RefusesASchemaThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	old, latest := oldRelease(t, pool), newRelease(t, pool)
	old.must(t, "", "migrate")
	store := openStore(t, pool)
	_, err := store.ListTasks(t.Context(), stint.Filter{})
	wantErr(t, "ListTasks on version 1", err, stint.ErrSchemaVersion)
	wantErr(t, "InsertTasks on version 1", store.InsertTasks(t.Context(), named("a", "a", 1)),
		stint.ErrSchemaVersion)
	latest.wantRefused(t, "stint migrate", "ls")
	wantVersion(t, pool, 1)

	latest.must(t, "", "migrate")
	tables := columns(t, pool)
	old.must(t, `{"id": "a", "action": "act"}`, "insert")
	old.must(t, "", "show", "a")
	old.must(t, "", "migrate", "status")
	old.wantRefused(t, "newer", "migrate")
	old.wantRefused(t, "newer", "migrate", "--to", "0", "--down")
	wantVersion(t, pool, migrations.Version())
	if got := columns(t, pool); got != tables {
		t.Errorf("the old release made of\n%s\nthis:\n%s", tables, got)
	}
	latest.must(t, "", "show", "a")

	// As once limits are set.
	execute(t, pool, "UPDATE stint.supported SET since = 2")
	old.wantRefused(t, "2 and up", "ls")
	latest.must(t, "", "ls")
}
