//go:build unix

package tasktree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/programs"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func newStore(t *testing.T) *stint.Store {
	t.Helper()
	store, err := stint.New(testdb.New(t), stint.Options{PollInterval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return store
}

// start performs tasks with shell programs until the test ends.
func start(t *testing.T, store *stint.Store, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	// A process that is forked while a file is open for writing keeps it from being executed.
	syscall.ForkLock.RLock()
	for name, script := range scripts {
		script = "#!/bin/sh\n" + script
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Error(err)
		}
	}
	syscall.ForkLock.RUnlock()
	d, err := programs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(store, worker.Options{Concurrency: 4, StopGrace: time.Millisecond},
		d.Handlers()...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
		d.Close()
	})
}

// submit does what stint submit does: it inserts the tasks of a file, and waits.
func submit(
	t *testing.T, store *stint.Store, file string, progress func([]stint.TaskInfo),
) map[string]stint.TaskInfo {
	t.Helper()
	p := plan(t, file)
	if err := store.InsertTasks(t.Context(), p.Tasks); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	infos, err := p.Wait(ctx, store, progress)
	if err != nil {
		t.Fatal(err)
	}
	return infos
}

// field is a shell command that prints a field of the only object of a list on standard input.
func field(name string) string { return `sed 's/.*"` + name + `":"\{0,1\}\([^"}]*\).*/\1/'` }

// The two quickstarts of a queue whose workers run programs: a task of one step, whose program
// prints a user's ID; and a tree, in which the link that one program prints is mailed by another.
func TestSubmit_RunsOneStep(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	start(t, store, map[string]string{"process-user-data": field("uid") + " >&2"})
	const file = `[{
    "name": "mytask",
    "action": "process-user-data",
    "value": [{"uid": 1234}]
}]`
	got := submit(t, store, file, nil)["mytask"]
	if got.State != stint.StateCompleted || strings.TrimSpace(got.Status) != "1234" {
		t.Errorf("got %+v, want the user's ID as its log", got)
	}
}

func TestSubmit_RunsATree(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	start(t, store, map[string]string{
		"save-user-data": "uid=$(" + field("uid") + ")\n" +
			`echo "{\"link\": \"https://download/for/$uid\"}"`,
		"send-mail": "link=$(" + field("link") + ")\n" +
			`echo "sending mail with link $link" >&2`,
	})
	const file = `
- name: email
  action: send-mail
  value: [{$result: save}]
- name: save
  action: save-user-data
  value: [{uid: 1234}]
`
	var last []stint.TaskInfo
	infos := submit(t, store, file, func(tasks []stint.TaskInfo) { last = slices.Clone(tasks) })
	const link = "https://download/for/1234"
	save, email := infos["save"], infos["email"]
	if save.State != stint.StateCompleted || string(save.Result) != `{"link": "`+link+"\"}\n" {
		t.Errorf("save: got %+v, result %s", save, save.Result)
	}
	if email.State != stint.StateCompleted ||
		email.Status != "sending mail with link "+link+"\n" {
		t.Errorf("email: got %+v, want the link in its log", email)
	}
	if len(last) != 2 || last[0].ID != "t/email" || last[1].State != stint.StateCompleted {
		t.Errorf("the last progress is %+v", last)
	}
}

func TestSubmit_TellsWhatWasAborted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	start(t, store, map[string]string{
		"bad": "echo no such user >&2; exit 65", "cat": `cat "$STINT_INPUTS"`,
	})
	infos := submit(t, store, `
- {name: save, action: bad}
- {name: email, action: cat, after: [save]}
- {name: report, action: cat, after: [save], on_abort: run-anyway}
`, nil)
	if got := infos["save"]; got.Status != "exit status 65\nno such user\n" {
		t.Errorf("save: got %+v", got)
	}
	if got := infos["email"]; got.AbortCause != stint.CauseDependency {
		t.Errorf("email: got %+v", got)
	}
	if got := string(infos["report"].Result); !strings.Contains(got, "no such user") {
		t.Errorf("report: got %s", got)
	}
}

func TestWait_TellsOfProgress(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	p := plan(t, "[{name: a, action: x}, {name: b, action: x, after: [a]}]")
	tasks := slices.Concat(p.Tasks, []stint.Task{{ID: "t/other", Action: "other"}})
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	perform := func(status string) {
		owned, err := store.OwnTasks(t.Context(), "me", 1, []string{"x"}, time.Minute)
		if err != nil || len(owned) != 1 {
			t.Errorf("own = %v, %v", owned, err)
			return
		}
		task := owned[0]
		err = errors.Join(store.SetStatus(t.Context(), task, "half", 0.5),
			store.ReturnTask(t.Context(), task.ID, task.Token, status, stint.StatusCompleted))
		if err != nil {
			t.Error(err)
		}
	}
	var told [][]stint.State
	infos, err := p.Wait(t.Context(), store, func(tasks []stint.TaskInfo) {
		told = append(told, []stint.State{tasks[0].State, tasks[1].State})
		if len(told) < 3 {
			perform("done")
		}
	})
	if err != nil || infos["b"].Status != "done" || len(infos) != 2 {
		t.Errorf("got %+v, %v", infos, err)
	}
	want := [][]stint.State{
		{stint.StateReady, stint.StateBlocked}, {stint.StateCompleted, stint.StateReady},
	}
	last := []stint.State{stint.StateCompleted, stint.StateCompleted}
	if len(told) < 3 || !slices.EqualFunc(told[:2], want, slices.Equal) ||
		!slices.Equal(told[len(told)-1], last) {
		t.Errorf("told %v", told)
	}
}

func TestWait_EndsWithItsContextOrTheTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	p := plan(t, "[{name: a, action: x}]")
	progress := func([]stint.TaskInfo) {}
	if _, err := p.Wait(t.Context(), store, progress); !errors.Is(err, stint.ErrTaskNotFound) {
		t.Errorf("error = %v, want %v", err, stint.ErrTaskNotFound)
	}
	if err := store.InsertTasks(t.Context(), p.Tasks); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.Wait(ctx, store, func([]stint.TaskInfo) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
}

// More tasks than one look returns.
func TestWait_TellsOfManyTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const n = 10_001
	store := newStore(t)
	var file strings.Builder
	for i := range n {
		fmt.Fprintf(&file, "- {name: n%d, action: stint.Spontaneous}\n", i)
	}
	states := map[stint.State]int{}
	progress := func(tasks []stint.TaskInfo) {
		clear(states)
		for _, task := range tasks {
			states[task.State]++
		}
		if states[""] > 0 {
			t.Errorf("nothing is known of %d tasks", states[""])
		}
	}
	infos := submit(t, store, file.String(), progress)
	if len(infos) != n || states[stint.StateCompleted] != n {
		t.Errorf("%d infos; told of %v", len(infos), states)
	}
}
