package outage_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-tasks/stint/internal/outage"
)

// newTallies returns Tallies, and a function that returns the lines of that level that they have
// written since.
func newTallies() (*outage.Tallies, func(level string) []string) {
	var text bytes.Buffer
	handler := slog.NewTextHandler(&text, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "since" {
				return slog.Attr{}
			}
			return a
		},
	})
	return outage.NewTallies(slog.New(handler)), func(level string) []string {
		defer text.Reset()
		var of []string
		for line := range strings.Lines(text.String()) {
			if strings.HasPrefix(line, "level="+level) {
				of = append(of, strings.TrimSuffix(line, "\n"))
			}
		}
		return of
	}
}

// Proves G114.
func TestTallies_TellTheFirstAtOnceThenCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tallies, lines := newTallies()
		fail := func(of string, n int) {
			kind := outage.Kind{What: "it fails", Level: slog.LevelWarn, Of: of}
			tallies.Failed(t.Context(), kind, slog.String("of", of), slog.Int("n", n))
		}
		for n := range 600 { // for eleven minutes
			fail("a", n)
			if n < 2 {
				fail("b", n)
			}
			time.Sleep(1100 * time.Millisecond)
		}
		synctest.Wait()
		all := lines("WARN")
		wantLines(t, "first", all[:4],
			`level=WARN msg="it fails" of=a n=0`, `level=WARN msg="it fails" of=b n=0`,
			all[2], all[3])
		const summary = `level=WARN msg="it fails" of=a n=54 failures=54 for=58.9s`
		if !strings.HasPrefix(all[2], summary) &&
			!strings.HasPrefix(all[3], summary) {
			t.Errorf("after a minute: %q, want what was counted", all[2:4])
		}
		if all[2] != `level=WARN msg="it fails" of=b n=1` &&
			all[3] != `level=WARN msg="it fails" of=b n=1` {
			t.Errorf("after a minute: %q, want the one failure as it was", all[2:4])
		}
		if len(all) != 13 && len(all) != 14 {
			t.Errorf("%d lines in eleven minutes, want one a minute and action", len(all))
		}
		time.Sleep(10 * time.Minute)
		_ = lines("WARN")
		fail("a", 1)
		wantLines(t, "after a pause", lines("WARN"), `level=WARN msg="it fails" of=a n=1`)
		fail("a", 2)
		wantLines(t, "the second, by itself", lines("DEBUG"),
			`level=DEBUG msg="it fails" of=a n=2`)
		fail("a", 3)
		_ = lines("DEBUG")
		tallies.Flush()
		wantLines(t, "at the end", lines("WARN"),
			`level=WARN msg="it fails" of=a n=3 failures=2 for=0s`)
		tallies.Flush()
		time.Sleep(time.Hour)
		if left := lines("WARN"); len(left) > 0 {
			t.Errorf("after the end: %q", left)
		}
	})
}
