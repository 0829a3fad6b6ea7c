//go:build linux

package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-tasks/stint/chaos/faults"
)

func TestAll_NamesEachOnce(t *testing.T) {
	t.Parallel()
	last := ""
	for _, f := range faults.All() {
		if f.Name <= last || f.Text == "" || f.Do == nil {
			t.Errorf("%s comes after %s, with text %q", f.Name, last, f.Text)
		}
		last = f.Name
	}
}

// started is when the server was started.
const started = "SELECT pg_postmaster_start_time()::text"

func TestRestartServer_LosesNoMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.text(started)
	r.during("restart-server", func() {
		r.eventually("the server has been started again", func() bool {
			now := r.text(started)
			return now != "" && now != before
		})
	})
	if r.said("not properly shut down") {
		t.Error("the server had to recover")
	}
}

func TestCrashes_MakeTheServerRecover(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"crash-server", "kill-server"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.during(name, func() {
				r.eventually("the server has recovered", func() bool {
					return r.said("not properly shut down") && r.text(started) != ""
				})
			})
		})
	}
}

func TestFreezeServer_AnswersNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serves()
	r.during("freeze-server", func() {
		r.eventually("a statement hangs", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			_, err := r.through.Exec(ctx, "SELECT 1")
			return err != nil && state(r.Server.PostmasterPID()) == "T"
		})
	})
}

func TestKillBackend_MakesTheServerEndAllSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("kill-backend", func() {
		r.eventually("the server notices a process that was killed", func() bool {
			_ = r.exec(r.through, "SELECT 1")
			return r.said("was terminated by signal 9")
		})
	})
}

func TestFreezeBackends_StopsSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var pid int
	noErr(t, r.through.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	r.during("freeze-backends", func() {
		r.eventually("the process stands still", func() bool { return state(pid) == "T" })
	})
	if state(pid) == "T" {
		t.Error("the process stands still for good")
	}
}

func TestStorms_EndStatements(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"end-backends": "57P01", "cancel-statements": "57014",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.during(name, func() {
				r.eventually("a statement ends with "+want, func() bool {
					_, err := r.through.Exec(t.Context(), "SELECT pg_sleep(10)")
					return code(err) == want
				})
			})
		})
	}
}
