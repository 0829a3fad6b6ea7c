package outage_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-tasks/stint/internal/outage"
)

// newLog returns a Log, and a function that returns the lines that it has written since.
func newLog() (*outage.Log, func() []string) {
	var text bytes.Buffer
	handler := slog.NewTextHandler(&text, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "since" {
				return slog.Attr{}
			}
			return a
		},
	})
	return outage.New(slog.New(handler), "it fails"), func() []string {
		defer text.Reset()
		return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	}
}

func wantLines(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if len(want) == 0 {
		want = []string{""}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", when, got, want)
	}
}

// Proves G86.
func TestLog_TellsTheBeginningThenSeldomThenTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, lines := newLog()
		l.Worked(t.Context())
		wantLines(t, "when all is well", lines())
		for range 600 { // for ten minutes
			l.Failed(t.Context(), errors.New("no server"))
			time.Sleep(time.Second)
		}
		all := lines()
		wantLines(t, "first", all[:2], `level=WARN msg="it fails" error="no server"`,
			`level=WARN msg="it fails" error="no server" failures=61 for=1m0s`)
		if len(all) != 10 {
			t.Errorf("%d lines in ten minutes, want one a minute", len(all))
		}
		l.Worked(t.Context())
		wantLines(t, "at the end", lines(),
			`level=INFO msg="works again" failure="it fails" failures=600 for=10m0s`)
		l.Worked(t.Context())
		wantLines(t, "after the end", lines())
	})
}

func TestLog_IsNotFloodedByWhatFailsEveryOtherTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, lines := newLog()
		for range 1200 { // for ten minutes
			l.Failed(t.Context(), errors.New("no"))
			time.Sleep(time.Second / 4)
			l.Worked(t.Context())
			time.Sleep(time.Second / 4)
		}
		all := lines()
		if len(all) != 20 {
			t.Errorf("%d lines in ten minutes, want a beginning and an end a minute", len(all))
		}
		wantLines(t, "first", all[:2], `level=WARN msg="it fails" error=no`,
			`level=INFO msg="works again" failure="it fails" failures=1 for=250ms`)
	})
}

// An outage that follows another one at once is told of when a minute has passed.
func TestLog_TellsOfTheNextOutageWithinAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, lines := newLog()
		l.Failed(t.Context(), errors.New("first"))
		l.Worked(t.Context())
		_ = lines()
		for range 65 {
			time.Sleep(time.Second)
			l.Failed(t.Context(), errors.New("second"))
		}
		wantLines(t, "of the second", lines(),
			`level=WARN msg="it fails" error=second failures=60 for=59s`)
	})
}
