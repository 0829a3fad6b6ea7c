//go:build linux

package faults_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

// sleeper is a process that does nothing.
func sleeper(t *testing.T, kind string) *system.Process {
	t.Helper()
	p := process(t, kind, "sleep", "1000")
	noErr(t, p.Start())
	return p
}

func TestKills_KillTheirKindAlone(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"kill-workers": "worker", "kill-service": "service"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worker, service := sleeper(t, "worker"), sleeper(t, "service")
			killed, spared := worker, service
			if kind == "service" {
				killed, spared = service, worker
			}
			r := newRig(t, worker, service)
			r.during(name, func() {
				r.eventually("the process dies twice", func() bool { return killed.Deaths() > 1 })
			})
			if n := spared.Deaths(); n != 0 {
				t.Errorf("another one died %d times", n)
			}
		})
	}
}

func TestKillAllWorkers_KillsAll(t *testing.T) {
	t.Parallel()
	one, other := sleeper(t, "worker"), sleeper(t, "python")
	r := newRig(t, one, other)
	r.during("kill-all-workers", func() {
		r.eventually("all have died", func() bool { return one.Deaths()+other.Deaths() == 2 })
	})
}

func TestFreezes_LetProcessesGoOn(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{
		"freeze-workers": "worker", "freeze-service": "service",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sleeper(t, kind)
			r := newRig(t, p)
			r.during(name, func() {
				r.eventually("it stands still", func() bool { return state(p.PID()) == "T" })
			})
			r.eventually("it goes on", func() bool { return state(p.PID()) == "S" })
		})
	}
}

// The clock of a process in Python is off by an hour or ten seconds, and then right again.
func TestWorkerClock_Jumps(t *testing.T) {
	t.Parallel()
	const far, near = 5 * time.Second, 2 * time.Second
	p := process(t, "python", "python3", "-uc",
		"import time\nwhile True: print(int(time.time()));time.sleep(.05)")
	var off atomic.Int64
	p.Said = func(line string) {
		if there, err := strconv.ParseInt(line, 10, 64); err == nil {
			off.Store(int64(time.Since(time.Unix(there, 0)).Abs()))
		}
	}
	noErr(t, p.Start())
	r := newRig(t, p)
	r.during("worker-clock", func() {
		r.eventually("the clock is off", func() bool { return off.Load() > int64(far) })
	})
	r.eventually("the clock is right", func() bool { return off.Load() < int64(near) })
	wantWithout(t, p.PID(), "clock.so")
}

func TestWorkerMemory_EndsAWorkerThatWantsMore(t *testing.T) {
	t.Parallel()
	p := process(t, "worker", "python3", "-c",
		"import time\na = []\nwhile True: a.append(bytearray(10**6));time.sleep(.01)")
	noErr(t, p.Start())
	r := newRig(t, p)
	r.during("worker-memory", func() {
		r.eventually("the worker dies", func() bool { return p.Deaths() > 0 })
	})
}
