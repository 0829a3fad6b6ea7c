//go:build linux

package faults_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestFullDisk_RefusesWrites(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("full-disk", func() {
		r.eventually("a write is refused for want of room", func() bool {
			err := r.exec(r.through, "INSERT INTO public.kept SELECT generate_series(1, 1000000)")
			return code(err) == "53100"
		})
	})
	r.wantNoRemains()
}

// wantNoRemains checks that nothing is left of where the data were meanwhile.
func (r *rig) wantNoRemains() {
	r.t.Helper()
	for _, pattern := range []string{"volume-*", "server/data.*", "server/data/filler"} {
		if left, _ := filepath.Glob(filepath.Join(r.Dir, pattern)); len(left) > 0 {
			r.t.Errorf("%v is left", left)
		}
	}
}

// What was committed stays, though files that nobody flushed are gone.
func TestPowerLoss_LosesWhatWasNotFlushed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var written, kept []int
	name := func(n int) string {
		return filepath.Join(r.Server.Data(), "unflushed-"+strconv.Itoa(n))
	}
	r.during("power-loss", func() {
		lost := func() bool {
			for _, n := range written {
				if _, err := os.Stat(name(n)); errors.Is(err, os.ErrNotExist) {
					return true
				}
			}
			return false
		}
		r.eventually("a file is gone", func() bool {
			if n, err := r.insert(); err == nil {
				kept = append(kept, n)
				_, err := os.Stat(r.Server.Data() + ".aside")
				if err == nil && os.WriteFile(name(n), []byte("x"), 0o600) == nil {
					written = append(written, n)
				}
			}
			return lost()
		})
	})
	if lost := r.lost(kept); lost > 0 {
		t.Errorf("%d of %d rows are lost, though their commits were told", lost, len(kept))
	}
	r.wantNoRemains()
}

func TestAsynchronousCrash_LosesCommits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("asynchronous-crash", func() {
		kept := 0
		r.eventually("a row is gone whose commit was told", func() bool {
			if n, err := r.insert(); err == nil {
				kept = n
			}
			return kept > 0 && r.number("SELECT count(*) FROM public.kept WHERE n = $1", kept) == 0
		})
	})
	if got := r.text("SHOW synchronous_commit"); got != "on" {
		t.Errorf("afterwards synchronous_commit is %s", got)
	}
}

func TestSlowFlush_MakesCommitsTakeLong(t *testing.T) {
	t.Parallel()
	const often, least = 5, 50 * time.Millisecond
	r := newRig(t)
	r.during("slow-flush", func() {
		r.eventually("all commits take long", func() bool {
			for range often {
				began := time.Now()
				if _, err := r.insert(); err != nil || time.Since(began) < least {
					return false
				}
			}
			return true
		})
	})
	wantWithout(t, r.Server.PostmasterPID(), "slowflush.so")
}

func TestServerMemory_FailsStatements(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serves()
	r.during("server-memory", func() {
		r.eventually("a statement has no memory", func() bool {
			err := r.exec(r.through, "SELECT length(repeat(repeat('.', 1000), 20000))")
			return code(err) == "53200"
		})
	})
	r.eventually("the same statement has", func() bool {
		err := r.exec(r.through, "SELECT length(repeat(repeat('.', 1000), 20000))")
		if err != nil {
			r.t.Log(err)
		}
		return err == nil
	})
}
