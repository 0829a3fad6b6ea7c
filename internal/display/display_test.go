package display

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestPainter_WritesAllStatesWithAsManyBytes(t *testing.T) {
	t.Parallel()
	texts := []string{
		"blocked", "scheduled", "ready", "in-progress", "completed", "aborted", "STATE",
	}
	for _, text := range texts {
		if got := Painter(true).State(text); len(got) != len(text)+len("\x1b[30m\x1b[0m") {
			t.Errorf("%q is painted %q", text, got)
		}
		if got := Painter(false).State(text); got != text {
			t.Errorf("%q is painted %q without colours", text, got)
		}
	}
}

func TestRelative_SaysWhatMatters(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for ahead, want := range map[time.Duration]string{
		0:                           "0s ago",
		-59 * time.Second:           "59s ago",
		61 * time.Second:            "in 1m01s",
		-59 * time.Minute:           "59m ago",
		90 * time.Minute:            "in 1h30m",
		-100 * 24 * time.Hour:       "100d ago",
		800 * 24 * time.Hour:        "in 2y",
		time.Duration(1<<63 - 1):    "in >100y",
		-time.Duration(1<<63-1) - 1: ">100y ago",
	} {
		if got := Relative(now.Add(ahead), now); got != want {
			t.Errorf("%v ahead is %q, want %q", ahead, got, want)
		}
	}
}

func TestNumber_HasCommasBetweenThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 12_345: "12,345", 100_000: "100,000",
		1_234_567: "1,234,567", -1: "-1", -100: "-100", -1000: "-1,000",
		math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := Number(n); got != want {
			t.Errorf("Number(%d) = %s, want %s", n, got, want)
		}
	}
	if got := Count(1, "task") + ", " + Count(1000, "task"); got != "1 task, 1,000 tasks" {
		t.Errorf("Count says %s", got)
	}
}

func TestTask_ShowsBodiesThatTerminalsCan(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                        "",
		"one line\n":              "one line",
		"two\nlines":              "two\nlines",
		"\x1b[31mred":             "8 bytes, not text (see: --json)",
		"\x00":                    "1 byte, not text (see: --json)",
		strings.Repeat("x", 4097): "4,097 bytes (see: --json)",
	} {
		if got := Content([]byte(body)); got != want {
			t.Errorf("%.20q is shown as %q, want %q", body, got, want)
		}
	}
}

func TestText_IsQuotedWhereTerminalsWouldObey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":             "",
		"copy/été/表":   "copy/été/表",
		"\x1b[2J":      `"\x1b[2J"`,
		"a\u202eb":     `"a\u202eb"`,
		"a\u009bb":     `"a\u009bb"`,
		"\x9b2J":       `"\x9b2J"`,
		"two\nlines":   `"two\nlines"`,
		"zero\u200bed": `"zero\u200bed"`,
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q) = %s, want %s", text, got, want)
		}
	}
}

// No text of a task does anything to a terminal.
func FuzzText(f *testing.F) {
	for _, text := range []string{"\x1b[31m", "\x9b", "\u009b", "a\r\nb", "\u202e", "\t", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for what, shown := range map[string]string{
			"Text": Text(text), "Lines": Lines(text), "FirstWords": FirstWords(text),
			"Content": Content([]byte(text)),
		} {
			ofOneLine := what == "Text" || what == "FirstWords"
			bad := func(r rune) bool { return !unicode.IsPrint(r) && (r != '\n' || ofOneLine) }
			if strings.ContainsFunc(shown, bad) || !utf8.ValidString(shown) {
				t.Errorf("%s shows %q as %q", what, text, shown)
			}
		}
	})
}
