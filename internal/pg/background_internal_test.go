package pg

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

// The pauses of work that fails grow, and those of work that succeeds again are as before.
// Proves G86.
func TestRepeat_RestsLongerWhileItFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &DB{shared: &shared{Config: Config{Logger: slog.New(slog.DiscardHandler)}}}
		for every, most := range map[time.Duration]int64{
			time.Second / 4: 28, time.Second: 28, 30 * time.Second: 3,
		} {
			var calls atomic.Int64
			var works atomic.Bool
			ctx, cancel := context.WithCancel(t.Context())
			go db.RepeatUntil(ctx, "work", every, func(context.Context) error {
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
			time.Sleep(max(OutagePauseMax, every) * 5 / 4)
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

func TestFailed_TakesNoNoteOfTheEndOfTheDB(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for ctx, err := range map[context.Context]error{
		t.Context(): ErrClosed, ended: errors.New("cut off"),
	} {
		pending := slog.New(slog.NewTextHandler(failingWriter{t}, nil))
		if !Failed(ctx, outage.New(pending, "it fails"), err) {
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
		db := &DB{shared: &shared{Config: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}}
		ctx, cancel := context.WithCancel(t.Context())
		go db.RepeatUntil(ctx, "prune finished tasks", time.Second,
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
