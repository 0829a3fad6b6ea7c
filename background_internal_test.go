package stint

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-tasks/stint/internal/outage"
)

// The pauses are without their jitter here: their length at most.
func TestReattachPause_IsShortWithinTheGraceAndGrowsBehindIt(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{10 * time.Millisecond, graceDefault, 5 * time.Second} {
		hurry := grace + handOnDelay
		within, away, pause := 0, time.Duration(0), reattachPauseFirst
		var behind []time.Duration
		for away < hurry+time.Minute {
			away += pause
			pause = reattachPause(pause, away, hurry)
			switch {
			case away >= hurry:
				behind = append(behind, pause)
			case pause > max(grace/4, reattachPauseFirst):
				t.Errorf("grace %v: a pause of %v when %v have passed", grace, pause, away)
			default:
				within++
			}
		}
		if within < 4 {
			t.Errorf("grace %v: %d attempts until the tasks are handed on", grace, within)
		}
		if n := len(behind); n > 28 || behind[n-1] != outagePauseMax {
			t.Errorf("grace %v: %d attempts in the minute behind it: %v", grace, n, behind)
		}
	}
	pause, attempts := reattachPauseFirst, 0
	for away := time.Duration(0); away < time.Minute; attempts++ { // no actor is registered
		away += pause
		pause = reattachPause(pause, away, 0)
	}
	if attempts > 28 || pause != outagePauseMax {
		t.Errorf("without actors %d attempts in a minute, then a pause of %v", attempts, pause)
	}
}

// Those who live are back before a store that can look again believes them dead.
func TestReattachPause_IsShorterThanThePatienceOfOthers(t *testing.T) {
	t.Parallel()
	if outagePauseMax > outageGrace*2/3 {
		t.Errorf("%v between attempts, others are patient for %v", outagePauseMax, outageGrace)
	}
}

// The pauses of work that fails grow, and those of work that succeeds again are as before.
func TestRepeat_RestsLongerWhileItFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Store{core: &core{logger: slog.New(slog.DiscardHandler), background: newBackground()}}
		for every, most := range map[time.Duration]int64{
			watchEvery: 28, time.Second: 28, 30 * time.Second: 3,
		} {
			var calls atomic.Int64
			var works atomic.Bool
			ctx, cancel := context.WithCancel(t.Context())
			go s.repeatUntil(ctx, "work", every, func(context.Context) error {
				calls.Add(1)
				if works.Load() {
					return nil
				}
				return errors.New("no server")
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := calls.Load(); n > most || n == 0 {
				t.Errorf("every %v: %d attempts in a minute", every, n)
			}
			works.Store(true)
			time.Sleep(max(outagePauseMax, every) * 5 / 4)
			calls.Store(0)
			time.Sleep(10 * every)
			synctest.Wait()
			if n := calls.Load(); n < 8 || n > 13 {
				t.Errorf("every %v: %d times in ten of these once it works again", every, n)
			}
			cancel()
			synctest.Wait()
		}
	})
}

func TestFailed_TakesNoNoteOfTheEndOfTheStore(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for ctx, err := range map[context.Context]error{
		t.Context(): ErrClosed, ended: errors.New("cut off"),
	} {
		pending := slog.New(slog.NewTextHandler(failingWriter{t}, nil))
		if s := (&Store{}); !s.failed(ctx, outage.New(pending, "it fails"), err) {
			t.Errorf("%v is taken for a success", err)
		}
	}
}

// A failingWriter fails the test when something is written.
type failingWriter struct{ t *testing.T }

func (w failingWriter) Write(line []byte) (int, error) {
	w.t.Errorf("logged: %s", line)
	return len(line), nil
}

// Whoever reads that work in the background has failed learns which work that is.
func TestRepeat_SaysWhichWorkHasFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Store{core: &core{
			logger: slog.New(slog.NewTextHandler(&log, nil)), background: newBackground(),
		}}
		ctx, cancel := context.WithCancel(t.Context())
		go s.repeatUntil(ctx, "prune finished tasks", time.Second,
			func(context.Context) error { return errors.New("no server") })
		time.Sleep(5 * time.Second)
		cancel()
		synctest.Wait()
		if got := log.String(); strings.Count(got, "\n") != 1 ||
			!strings.Contains(got, `work="prune finished tasks"`) {
			t.Errorf("logged %q, want one record that names the work", got)
		}
	})
}
