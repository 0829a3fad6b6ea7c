//go:build unix

package programs

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// Programs that tell the lifeline that they run, and then last for ever: one that takes leave, one
// whose child does, and one that does not want to end, nor does its child.
const (
	polite = `exec >"$LIFELINE" 2>/dev/null
		trap 'echo bye; exit 0' TERM
		echo running
		while :; do sleep 0.01; done`
	parent = `(` + polite + `) &
		wait`
	stubborn = `exec >"$LIFELINE" 2>/dev/null
		trap '' TERM
		sleep 1000 &
		echo running
		while :; do sleep 1; done`
)

// lasting is a program with a lifeline.
func lasting(t *testing.T, script string) (*Directory, lifeline) {
	t.Helper()
	line := newLifeline(t)
	return newDirectory(t, map[string]string{"a": "LIFELINE=" + string(line) + "\n" + script}), line
}

func get(t *testing.T, store *stint.Store) stint.TaskInfo {
	t.Helper()
	infos, err := store.GetTasks(t.Context(), []stint.TaskID{"a"})
	if err != nil {
		t.Fatal(err)
	}
	return infos[0]
}

func TestPerform_EndsTheProgramOfALostTask(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"program": polite, "child": parent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			d, line := lasting(t, script)
			insert(t, store, stint.Task{ID: "a", Action: "a"})
			start(t, store, d)
			reader := line.open(t)
			await(t, reader, "running")
			if err := store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "no"); err != nil {
				t.Fatal(err)
			}
			ends(t, reader, "bye\n")
			if info := get(t, store); info.Status != "no" || info.Tries != 1 {
				t.Errorf("got %+v, want it as it was aborted", info)
			}
		})
	}
}

func TestPerform_KillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	d, line := lasting(t, stubborn)
	d.killGrace = 10 * time.Millisecond
	insert(t, store, stint.Task{ID: "a", Action: "a", MaxTries: 1})
	start(t, store, d, worker.WithTimeout(100*time.Millisecond))
	ends(t, line.open(t), "running\n")
	const want = "time-out of the handler passed: signal: killed"
	if info := finish(t, store, "a"); info.AbortCause != stint.CauseTries || info.Status != want {
		t.Errorf("got %+v, want %q", info, want)
	}
}

// However it exits: its 0 may mean that it has cleared up.
func TestPerform_TriesAgainAfterTheTimeout(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	d, line := lasting(t, polite)
	insert(t, store, stint.Task{ID: "a", Action: "a", MaxTries: 1})
	start(t, store, d, worker.WithTimeout(100*time.Millisecond))
	ends(t, line.open(t), "running\nbye\n")
	const want = "time-out of the handler passed"
	if info := finish(t, store, "a"); info.AbortCause != stint.CauseTries || info.Status != want {
		t.Errorf("got %+v, want %q", info, want)
	}
}

func TestPerform_GivesBackWhenTheWorkerStops(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ script, words, status string }{
		"polite":   {polite, "bye\n", "worker is stopping"},
		"stubborn": {stubborn, "", "worker is stopping: signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			d, line := lasting(t, test.script)
			insert(t, store, stint.Task{ID: "a", Action: "a"})
			stop := start(t, store, d)
			reader := line.open(t)
			await(t, reader, "running")
			if err := stop(); err != nil {
				t.Errorf("Run = %v", err)
			}
			ends(t, reader, test.words)
			info := get(t, store)
			if info.State != stint.StateReady || info.Status != test.status {
				t.Errorf("got %+v, want it ready: %s", info, test.status)
			}
		})
	}
}

// The worker does not wait for as long as a time-out allows.
func TestClose_KillsWhatIsInItsGrace(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	d, line := lasting(t, `exec >"$LIFELINE" 2>/dev/null
		trap 'echo told' TERM
		echo running
		while :; do sleep 0.01; done`)
	d.killGrace = time.Hour
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	stop := start(t, store, d, worker.WithTimeout(100*time.Millisecond))
	reader := line.open(t)
	await(t, reader, "running")
	await(t, reader, "told")
	if err := stop(); !errors.Is(err, worker.ErrStillRunning) {
		t.Errorf("Run = %v, want %v", err, worker.ErrStillRunning)
	}
	ends(t, reader, "")
}

// Nothing works on a task behind its end, and nothing that would holds it up.
func TestPerform_KillsWhatAProgramLeavesBehind(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	d, line := lasting(t, `exec 3>"$LIFELINE"
		sleep 1000 &
		echo done`)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	start(t, store, d)
	ends(t, line.open(t), "")
	if info := finish(t, store, "a"); string(info.Result) != "done\n" {
		t.Errorf("got %+v, want it completed", info)
	}
}
