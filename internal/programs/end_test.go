//go:build unix

package programs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
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
	testrun.Long(t)
	for name, script := range map[string]string{"program": polite, "child": parent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			d, line := lasting(t, script)
			insert(t, store, stint.Task{ID: "a", Action: "a"})
			start(t, store, d)
			reader := line.open(t)
			await(t, reader, "running")
			if _, err := store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "no"); err != nil {
				t.Fatal(err)
			}
			ends(t, reader, "bye\n")
			if info := get(t, store); info.Status != "no" || info.Tries != 1 {
				t.Errorf("got %+v, want it as it was aborted", info)
			}
		})
	}
}

// begin runs the program of a task by itself. The context of its handler ends with a cause when end
// is called, and outcome waits for what the handler says.
func begin(t *testing.T, d *Directory) (end func(cause error), outcome func() error) {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		task := &worker.Task{OwnedTask: stint.OwnedTask{ID: "a", Action: "a", Try: 1}}
		_, err := d.run(ctx, task, nil)
		ended <- err
	}()
	t.Cleanup(d.Close)
	return end, func() error { return <-ended }
}

func TestPerform_KillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{worker.ErrTimeout, worker.ErrStopping} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			d, line := lasting(t, stubborn)
			if errors.Is(cause, worker.ErrTimeout) {
				d.killGrace = 10 * time.Millisecond
			} else {
				d.killGrace = time.Hour // the worker does not wait for so long
			}
			end, outcome := begin(t, d)
			reader := line.open(t)
			await(t, reader, "running")
			end(cause)
			ends(t, reader, "")
			err := outcome()
			if !errors.Is(err, cause) || err.Error() != cause.Error()+": signal: killed" {
				t.Errorf("error = %v, want %v, killed", err, cause)
			}
		})
	}
}

// However it exits: 0 may mean that it has cleared up, 65 that it was disturbed.
func TestPerform_IgnoresTheExitStatusOfWhatWasEnded(t *testing.T) {
	t.Parallel()
	for exit, how := range map[string]string{"0": "", "65": ": exit status 65"} {
		t.Run(exit, func(t *testing.T) {
			t.Parallel()
			d, line := lasting(t, strings.Replace(polite, "exit 0", "exit "+exit, 1))
			d.killGrace = time.Hour
			end, outcome := begin(t, d)
			reader := line.open(t)
			await(t, reader, "running")
			end(worker.ErrTimeout)
			ends(t, reader, "bye\n")
			err := outcome()
			_, plain := any(err).(*endError) // and no abort
			if !plain || !errors.Is(err, worker.ErrTimeout) ||
				err.Error() != worker.ErrTimeout.Error()+how {
				t.Errorf("error = %v, want %v%s", err, worker.ErrTimeout, how)
			}
		})
	}
}

func TestPerform_TriesAgainAfterTheTimeout(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "a", MaxTries: 2})
	d := newDirectory(t, map[string]string{"a": "exec sleep 1000"})
	start(t, store, d, worker.WithTimeout(50*time.Millisecond))
	const want = "time-out of the handler passed: " // also before the program has begun
	if info := finish(t, store, "a"); info.AbortCause != stint.CauseTries || info.Tries != 2 ||
		!strings.HasPrefix(info.Status, want) {
		t.Errorf("got %+v, want %q", info, want)
	}
}

func TestClose_KillsWhatIsInItsGrace(t *testing.T) {
	t.Parallel()
	d, line := lasting(t, `exec >"$LIFELINE" 2>/dev/null
		trap 'echo told' TERM
		echo running
		while :; do sleep 0.01; done`)
	d.killGrace = time.Hour
	end, outcome := begin(t, d)
	reader := line.open(t)
	await(t, reader, "running")
	end(worker.ErrTimeout)
	await(t, reader, "told")
	d.Close()
	ends(t, reader, "")
	if err := outcome(); !errors.Is(err, worker.ErrTimeout) {
		t.Errorf("error = %v, want %v", err, worker.ErrTimeout)
	}
}

func TestPerform_GivesBackWhenTheWorkerStops(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	d, line := lasting(t, `echo log >&2
		echo running >"$LIFELINE"
		exec sleep 1000`)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	stop := start(t, store, d)
	await(t, line.open(t), "running")
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	const want = "worker is stopping: signal: terminated\nlog\n"
	// A question of the worker's that it has called back may be given the task for a moment.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	info := get(t, store)
	for late := time.After(time.Minute); info.State != stint.StateReady; info = get(t, store) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("got %+v, want it ready", info)
		}
	}
	if info.Status != want || info.Tries != 0 {
		t.Errorf("got %+v, want it with its try and the status %q", info, want)
	}
}

// Nothing works on a task behind its end, and nothing that would holds it up.
func TestPerform_KillsWhatAProgramLeavesBehind(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
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
