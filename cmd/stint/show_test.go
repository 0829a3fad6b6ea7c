//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

func TestShow_NamesWhatTheTaskWaitsForAndWhatWaitsForIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	tasks := []stint.Task{
		{ID: "done", Action: "do"},
		{ID: "mid", Action: "mid", After: []stint.TaskID{"done", "to\tdo"}},
		{ID: "to\tdo", Action: "act"},
		{ID: "alone", Action: "act"},
	}
	for i := range 1012 {
		tasks = append(tasks, stint.Task{
			ID: stint.TaskID(fmt.Sprintf("after/%04d", i)), Action: "act",
			After: []stint.TaskID{"mid"},
		})
	}
	db.insert(t, tasks...)
	db.complete(t, "do", nil)
	db.run(t, "", "show", "mid").wantExit(t, 0).wantOutput(t,
		"predecessors  \"to\\tdo\" (ready)\n              done (completed)\n",
		"dependents    after/0000 (blocked)\n              after/0001 (blocked)\n",
		"after/0009 (blocked)\n              and 1,002 more\n")
	var got struct {
		ID                       string
		Predecessors, Dependents []struct{ ID, State string }
	}
	db.run(t, "", "show", "mid", "--json").wantExit(t, 0).decode(t, &got)
	if got.ID != "mid" || len(got.Predecessors) != 2 || len(got.Dependents) != 1012 ||
		got.Predecessors[0].ID != "to\tdo" || got.Predecessors[1].State != "completed" ||
		got.Dependents[1011].ID != "after/1011" {
		t.Errorf("show --json = %+v", got)
	}
	for _, flags := range [][]string{nil, {"--json"}} {
		r := db.run(t, "", append([]string{"show", "alone"}, flags...)...).wantExit(t, 0)
		if strings.Contains(r.stdout, "predecessors") || strings.Contains(r.stdout, "dependents") {
			t.Errorf("of a task without neighbours show %q prints %s", flags, r.stdout)
		}
	}
}

func TestShow_TellsOfTriesAndSteps(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	ctx := t.Context()
	store, err := stint.New(db.pool, stint.Options{History: stint.HistoryOptions{Tries: 5}})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(ctx)) })
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	for _, r := range []stint.Return{
		{Code: stint.StatusPending, Status: "no\tnetwork", Log: "one\ntwo\n"},
		{Code: stint.StatusCompleted, Status: "well done"},
	} {
		owned, err := store.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
		if err != nil || len(owned) != 1 {
			t.Fatalf("OwnTasks = %v, %v", owned, err)
		}
		_, stepErr := store.RecordStep(ctx, owned[0], "first step", []byte("1"))
		r.ID, r.Token = owned[0].ID, owned[0].Token
		verdicts, err := store.ReturnTasks(ctx, []stint.Return{r})
		if err = errors.Join(append(verdicts, err, stepErr)...); err != nil {
			t.Fatalf("ReturnTasks = %v", err)
		}
	}
	text := db.run(t, "", "show", "a").wantExit(t, 0).stdout
	want := regexp.MustCompile(`(?m)^try 1 +returned .*, after [\d.]+m?s, by actor\n` +
		` +no    network\n +one\n +two\ntry 2 +completed .*, by actor\n +well done\n` +
		`steps +first step \(.*\)$`)
	if !want.MatchString(text) {
		t.Errorf("show says\n%s", text)
	}
	db.run(t, "", "show", "a", "--json").wantExit(t, 0).wantOutput(t,
		`"history":[{"number":1,"outcome":"returned","actor":"actor","owned_at":"`,
		`"status":"no\tnetwork","log":"one\ntwo\n"},{"number":2,"outcome":"completed",`,
		`"steps":[{"name":"first step","recorded_at":"`, `"bytes":1}]`)
}

// Bad flags are refused before anything else is looked at, such as whether the port is free.
func TestWorker_RefusesToKeepTooManyTries(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	serve := []string{"serve", "--listen", busy.Addr().String()}
	for flag, want := range map[string]string{
		"--log-level=loud":      `invalid --log-level "loud": must be one of debug, info`,
		"--keep-tries=1001":     "invalid --keep-tries 1001: must be 0 to 1000",
		"--keep-tries=-1":       "invalid --keep-tries -1",
		"--keep-tries-for=0":    "invalid --keep-tries-for 0",
		"--keep-tries-for=soon": "must be an age",
		"--max-losses=2":        "invalid --max-losses 2: must be 3 to 1000, or -1",
	} {
		for _, verb := range [][]string{{"worker", "--dir", t.TempDir()}, serve} {
			run(t, nil, "", append(verb, flag)...).wantExit(t, 2, want)
		}
	}
}

// A service of an older release is no reason to show nothing.
func TestShow_OfAnOlderServiceSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	older := func(s http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == stintv1connect.TaskServiceGetHistoryProcedure {
				http.NotFound(w, r)
				return
			}
			s.ServeHTTP(w, r)
		})
	}
	at, _ := testservice.StartBehind(t, db.pool, db.store, service.Options{}, older)
	run(t, []string{"STINT_SERVER=" + at}, "", "show", "a").
		wantExit(t, 0, "the service is of an older release").wantOutput(t, "act", "ready")
}

// However often tasks of one action fail, stint errors names the others whose tasks failed before.
//
// Proves G314.
func TestErrors_NameEachActionThatFailed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	calls := 0
	fail := func(action string, n int) {
		t.Helper()
		calls++
		tasks := make([]stint.Task, n)
		for i := range tasks {
			tasks[i] = stint.Task{
				ID: stint.TaskID(fmt.Sprint(action, calls, "/", i)), Action: action,
			}
		}
		d.insert(t, tasks...)
		owned, err := d.store.OwnTasks(t.Context(), "w", n, []string{action}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var returns []stint.Return
		for _, task := range owned {
			returns = append(returns, stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusAborted, Status: "no",
			})
		}
		if _, err := d.store.ReturnTasks(t.Context(), returns); err != nil {
			t.Fatal(err)
		}
	}
	fail("it's pay", 1000)
	fail("mail", 1000)
	r := d.run(t, "", "errors").wantExit(t, 0)
	if r.wantOutput(t, "mail", "it's pay"); r.stderr != "" {
		t.Errorf("it says %q", r.stderr)
	}
	for range 9 {
		fail("mail", 1000)
	}
	// So many tasks are counted by a sample.
	r = d.run(t, "", "errors").wantExit(t, 0, " aborted tasks of it's pay not counted",
		`stint ls --state aborted --action 'it'\''s pay'`)
	r.wantOutput(t, "mail", "10,000")
	d.run(t, "", "errors", "--json").wantExit(t, 0, " aborted tasks of it's pay not counted").
		wantOutput(t, `{"action":"mail","tasks":10000,`)
}
