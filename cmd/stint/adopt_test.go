//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// It says what happens, before and after, and does nothing where there is nothing to adopt.
// Proves G331.
func TestAdopt_SaysWhatHappens(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"})
	own := func() (err error) {
		_, err = db.store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, stint.NoExpiry)
		return err
	}
	if err := own(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"adopt", "--yes"}, {"adopt", "--dry-run"}} {
		db.run(t, "", args...).wantExit(t, 2, "there is nothing to adopt", "--environment")
	}
	db.exec(t, "UPDATE stint.origin SET written_by = '3'")
	db.run(t, "", "stats").wantExit(t, 0, "stint adopt")
	const what = "hand out 1 ready task, and 0 when they are due and 1 when their owners are gone"
	db.run(t, "", "adopt", "--dry-run").wantExit(t, 0).wantOutput(t, "stores would "+what)
	db.run(t, "", "stats").wantExit(t, 0, "stint adopt")
	db.run(t, "", "adopt", "--yes").wantExit(t, 0).wantOutput(t, "adopted: stores "+what)
	if err := own(); err != nil {
		t.Error(err)
	}
	db.run(t, "", "adopt", "--environment", "staging", "--yes").wantExit(t, 0).
		wantOutput(t, `name its environment "staging"`)
}

// What is said of a copy of files depends on the environment that is named, by a flag or a
// variable; and whoever wants to acts in copies nevertheless.
// Proves G331.
func TestServe_ActsInItsOwnEnvironmentOnly(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"})
	db.run(t, "", "adopt", "--environment", "production", "--yes").wantExit(t, 0)
	const (
		own = "/stint.v1.WorkerService/OwnTasks"
		ask = `{"actor":"curl","session":1,"claim":"%d","max_tasks":1,"actions":["act"],` +
			`"lease":"60s"}`
	)
	for i, env := range [][]string{
		{"STINT_ENVIRONMENT=staging"}, {"STINT_ENVIRONMENT=production"}, {},
	} {
		with := *db
		with.env = slices.Concat(db.env, env)
		stats := with.run(t, "", "stats").wantExit(t, 0)
		if got := strings.Contains(stats.stderr, "stint adopt"); got != (i == 0) {
			t.Errorf("with %v stats says %q", env, stats.stderr)
		}
	}
	s := db.serve(t, "--environment", "staging")
	if _, answer := s.call(t, post, own, fmt.Sprintf(ask, 1)); !strings.Contains(answer, "copy") {
		t.Errorf("in another environment OwnTasks = %s", answer)
	}
	s.stop(t)
	s = db.serve(t, "--environment", "staging", "--act-in-copies")
	s.wantCall(t, 200, `"id":"a"`, post, own, fmt.Sprintf(ask, 2))
	s.stop(t)
	s = db.serve(t, "--environment", "production")
	s.wantCall(t, 200, `"id":"b"`, post, own, fmt.Sprintf(ask, 3))
	s.stop(t)
}
