//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestAbort_TakesFiltersAndAsks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "owned", Action: "mail", Priority: 1},
		stint.Task{ID: "blocked", Action: "mail", After: []stint.TaskID{"owned"}},
		stint.Task{ID: "other", Action: "act"})
	db.own(t, "mail")
	db.run(t, "", "abort", "--action", "mail").wantExit(t, 2, "no terminal", "give --yes")
	db.run(t, "", "abort", "owned", "--action", "mail").wantExit(t, 2, "IDs or filters, not both")
	db.run(t, "", "abort", "--yes").wantExit(t, 2, "expected task IDs, or filters")
	r := db.run(t, "", "abort", "--action", "mail", "--yes").wantExit(t, 0)
	r.wantOutput(t, "aborted 2 tasks, 1 of them in progress\n")
	db.run(t, "", "abort", "--action", "mail", "--yes").wantExit(t, 0).
		wantOutput(t, "aborted 0 tasks\n")
	db.run(t, "", "show", "other").wantOutput(t, "ready")
}

// Those that were aborted because of others come along, without being asked for.
func TestRetry_TakesFilters(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "first", Action: "act"},
		stint.Task{ID: "second", Action: "act", After: []stint.TaskID{"first"}},
		stint.Task{ID: "other", Action: "other"})
	db.run(t, "", "abort", "first", "other").wantExit(t, 0)
	db.run(t, "", "retry", "--action", "act", "--since", "0s", "--yes").wantExit(t, 0).
		wantOutput(t, "retried 0 tasks\n")
	db.run(t, "", "retry", "--aborted", "--action", "act", "--since", "1h", "--yes").
		wantExit(t, 0).wantOutput(t, "retried 1 task and 1 dependent\n")
	db.run(t, "", "show", "other").wantOutput(t, "aborted")
}

// Proves G336.
func TestDelete_TakesFilters(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "owned", Action: "own"}, stint.Task{ID: "a/1", Action: "act"},
		stint.Task{ID: "a/2", Action: stint.Spontaneous, After: []stint.TaskID{"a/1"}},
		stint.Task{ID: "b", Action: "act"})
	db.own(t, "own")
	db.run(t, "", "delete", "a/1").wantExit(t, 0).wantOutput(t, "deleted 1 task and 1 dependent\n")
	db.insert(t, stint.Task{ID: "a/1", Action: "act"},
		stint.Task{ID: "c/7", Action: "act", Body: []byte(`{"n": 7}`)},
		stint.Task{ID: "c/8", Action: "act", Body: []byte(`{"n": 8}`)},
		stint.Task{ID: "c/9", Action: "act", Body: []byte(`{"n": 7`)})
	for _, want := range []string{"deleted 1 task\n", "deleted 0 tasks\n"} {
		db.run(t, "", "delete", "--body", "$.n == 7", "--yes").wantExit(t, 0).wantOutput(t, want)
	}
	db.run(t, "", "delete", "c/8", "c/9").wantExit(t, 0)
	db.run(t, "", "delete", "--prefix", "a/", "--yes").wantExit(t, 0).
		wantOutput(t, "deleted 1 task\n")
	db.run(t, "", "delete", "--older-than", "0s", "--yes").wantExit(t, 0).
		wantOutput(t, "deleted 1 task\n")
	if got := db.ids(t); !slices.Equal(got, []stint.TaskID{"owned"}) {
		t.Errorf("there are %q, want the owned one", got)
	}
}

// A list and each change by a part of the message take the tasks that have it, and no others.
// Proves G336.
func TestFilters_TakeAPartOfTheMessage(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	for id, status := range map[stint.TaskID]string{
		"late": "It Timed out", "other": "refused", "none": "",
	} {
		db.insert(t, stint.Task{ID: id, Action: string(id)})
		owned := db.own(t, string(id))
		err := db.store.ReturnTask(t.Context(), id, owned.Token, status, stint.StatusPending)
		if err != nil {
			t.Fatal(err)
		}
	}
	by := func(verb string, more ...string) ran {
		t.Helper()
		return db.run(t, "", append([]string{verb, "--message", "TIMED out"}, more...)...).
			wantExit(t, 0)
	}
	by("ls", "--json").wantOutput(t, `"id":"late"`)
	db.run(t, "", "ls", "--message", "it_timed").wantExit(t, 0, "no tasks")
	db.run(t, "", "ls", "--message", strings.Repeat("x", 513)).wantExit(t, 2, "Filter.Status")
	by("change", "--set-priority", "7", "--yes").wantOutput(t, "changed 1 task\n")
	by("abort", "--dry-run").wantOutput(t, "would abort 1 task\n")
	by("abort", "--status", "timed out for good", "--yes").wantOutput(t, "aborted 1 task\n")
	by("retry", "--yes").wantOutput(t, "retried 1 task\n")
	db.run(t, "", "abort", "late", "--status", "timed out").wantExit(t, 0)
	by("delete", "--yes").wantOutput(t, "deleted 1 task\n")
	by("delete", "--yes").wantOutput(t, "deleted 0 tasks\n")
	for _, id := range []stint.TaskID{"other", "none"} {
		if task := db.get(t, id); task.State != stint.StateReady || task.Priority != 0 {
			t.Errorf("%s is %s, with priority %d", id, task.State, task.Priority)
		}
	}
}

// An empty value, as of a variable that is not set, must not mean all tasks.
func TestFilters_RefuseEmptyValues(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	for _, flag := range []string{
		"--prefix=", "--actor=", "--body=", "--message=", "--state=", "--action=",
		"--newer-than=0s",
	} {
		for _, verb := range []string{"delete", "abort", "retry"} {
			db.run(t, "", verb, flag, "--yes").wantExit(t, 2, "invalid "+flag[:len("--st")])
		}
	}
	db.run(t, "", "retry", "--aborted=false", "--yes").wantExit(t, 2, "expected task IDs")
	db.run(t, "", "delete", "--state", "in-progress", "--yes").wantExit(t, 2, "nothing to delete")
	db.run(t, "", "show", "a").wantOutput(t, "ready")
}

// A network is opened whole, in whatever order its tasks are found; a task whose aborted
// predecessor the filters leave out stays aborted, and holds up no other.
func TestRetry_OpensANetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	const n = 250
	tasks := make([]stint.Task, n)
	ids := []string{"abort", "outside", "behind"}
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprintf("%03d", n-i)), Action: "act"}
		if i > 0 {
			tasks[i].After = []stint.TaskID{tasks[i-1].ID}
		}
		ids = append(ids, string(tasks[i].ID))
	}
	db.insert(t, append(tasks, stint.Task{ID: "outside", Action: "other"},
		stint.Task{ID: "behind", Action: "act", After: []stint.TaskID{"outside"}})...)
	db.run(t, "", ids...).wantExit(t, 0)
	db.run(t, "", "retry", "--action", "act", "--aborted", "--yes").wantExit(t, 1,
		"left out 1 task: ", `predecessor was aborted: "outside"`).
		wantOutput(t, "retried 250 tasks\n")
	db.run(t, "", "show", "behind").wantOutput(t, "aborted")
}

// More tasks than one transaction changes at a time are one plan all the same: no dependency is
// lost between them, and what a command has changed itself is not put down to others.
// Proves G119.
func TestChanges_OfManyTasksAreOnePlan(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	const pairs = 5100
	var tasks []stint.Task
	for i := range pairs {
		first := stint.TaskID(fmt.Sprintf("a%04d", i))
		tasks = append(tasks, stint.Task{ID: first, Action: "act"}, stint.Task{
			ID: "b" + first, Action: "act", After: []stint.TaskID{first},
		})
	}
	db.insert(t, tasks...)
	for range 2 {
		var returns []stint.Return
		for _, task := range db.ownAll(t, 2*pairs) {
			returns = append(returns, stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			})
		}
		if errs, err := db.store.ReturnTasks(t.Context(), returns); err != nil ||
			errors.Join(errs...) != nil {
			t.Fatal(err, errors.Join(errs...))
		}
	}
	change := func(says string, args ...string) {
		r := db.run(t, "", append(args, "--yes")...).wantExit(t, 0)
		if r.wantOutput(t, says+" 10,200 tasks"); strings.Contains(r.stderr, "left out") {
			t.Errorf("stint %q says %q, want nothing left out", args, r.stderr)
		}
		between := says + " 10,000 of 10,200 tasks\n"
		if !isRemote() && !strings.HasSuffix(r.stderr, between) { // one request is all or nothing
			t.Errorf("stint %q says %q, want %q", args, r.stderr, between)
		}
	}
	change("retried", "retry", "--state", "completed")
	for _, task := range db.ownAll(t, 2*pairs) {
		if strings.HasPrefix(string(task.ID), "b") {
			t.Fatalf("%s is fetched before its predecessor has ended", task.ID)
		}
	}
	change("aborted", "abort", "--action", "act")
	change("retried", "retry", "--aborted")
	change("deleted", "delete", "--action", "act")
}

func (d *database) ownAll(t *testing.T, most int) []stint.OwnedTask {
	t.Helper()
	owned, err := d.store.OwnTasks(t.Context(), "actor", most, []string{"act"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return owned
}

// Proves G210.
func TestChanges_SayWhatTheyWouldDo(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "owned", Action: "mail", Priority: 1},
		stint.Task{ID: "a", Action: "mail"},
		stint.Task{ID: "behind", Action: "act", After: []stint.TaskID{"a", "owned"}})
	db.own(t, "mail")
	const said = "would abort 2 tasks, 1 of them in progress, and 1 dependent\n"
	for range 2 {
		db.run(t, "", "abort", "owned", "a", "--dry-run").wantExit(t, 0).wantOutput(t, said)
		db.run(t, "", "abort", "--action", "mail", "--dry-run").wantExit(t, 0).wantOutput(t, said)
	}
	db.run(t, "", "abort", "--action", "mail", "--dry-run", "--json").wantExit(t, 0).
		wantOutput(t, `{"found":2,"in_progress":1,"later":0,"others":1,"skipped":0,"started":0,`+
			`"would_abort":["a","owned"]}`)
	db.run(t, "", "delete", "--action", "mail", "--dry-run").wantExit(t, 0).
		wantOutput(t, "would delete 1 task\n")
	db.run(t, "", "delete", "owned", "--dry-run").wantExit(t, 6, "in progress")
	db.run(t, "", "abort", "--action", "mail", "--yes").wantExit(t, 0).
		wantOutput(t, "aborted 2 tasks, 1 of them in progress, and 1 dependent\n")
	db.run(t, "", "retry", "--aborted", "--dry-run").wantExit(t, 0).
		wantOutput(t, "would retry 2 tasks and 1 dependent\n")
	db.run(t, "", "show", "behind").wantOutput(t, "aborted")
}

// Proves G316, G317.
func TestAbort_LeavesWhatBeginsWhileItAsks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "mail"},
		stint.Task{ID: "later", Action: "mail", NotBefore: time.Now().Add(time.Hour)},
		stint.Task{
			ID: "anyway", Action: "act", After: []stint.TaskID{"a"},
			OnAbort: stint.RunAnyway,
		})
	terminal, err := pty.Start(newCommand(t, db.env, "abort", "--action", "mail"))
	if err != nil {
		t.Fatal(err)
	}
	var asked []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(asked), "[y/N] "); {
		if _, err := terminal.Read(one); err != nil {
			t.Fatalf("it says %q, and then %v", asked, err)
		}
		asked = append(asked, one[0])
	}
	if !strings.Contains(string(asked), "; 1 task would wait for no others any more, and begin") {
		t.Errorf("it asks %q", asked)
	}
	db.own(t, "mail")
	if _, err := io.WriteString(terminal, "yes\n"); err != nil {
		t.Fatal(err)
	}
	output, _ := io.ReadAll(terminal) // fails when the command has ended, as terminals do
	for _, want := range []string{"aborted 1 task", "left out 1 task, begun or changed meanwhile"} {
		if !strings.Contains(string(output), want) {
			t.Errorf("it says %q, without %q", output, want)
		}
	}
	db.run(t, "", "show", "a").wantExit(t, 0).wantOutput(t, "in-progress")
	// Who is not asked has the task aborted, whatever became of it.
	db.run(t, "", "abort", "--action", "mail", "--yes").wantExit(t, 0).
		wantOutput(t, "aborted 1 task, 1 of them in progress")
}

func TestAbort_AsksOnATerminal(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "mail"},
		stint.Task{ID: "b", Action: "act", After: []stint.TaskID{"a"}})
	where := "in the schema"
	if isRemote() {
		where = "of the service at http://127.0.0.1:"
	}
	for _, test := range []struct {
		answer, says string
		code         int
	}{
		{"n\n", "nothing was changed", 2}, {"yes\n", "aborted 1 task and 1 dependent", 0},
	} {
		cmd := newCommand(t, db.env, "abort", "--action", "mail")
		terminal, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(terminal, test.answer); err != nil {
			t.Fatal(err)
		}
		output, _ := io.ReadAll(terminal) // fails when the command has ended, as terminals do
		_ = cmd.Wait()                    // the exit code says it all
		if code := cmd.ProcessState.ExitCode(); code != test.code {
			t.Errorf("answered %q, exit code %d, want %d", test.answer, code, test.code)
		}
		asks := "abort 1 task and 1 dependent " + where
		for _, want := range []string{asks, "? [y/N]", test.says} {
			if !strings.Contains(string(output), want) {
				t.Errorf("answered %q, it says %q, want %q in it", test.answer, output, want)
			}
		}
	}
}
