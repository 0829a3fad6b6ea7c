package command

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

func TestPrintTasks_AlignsColouredColumns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	tasks := []stint.TaskInfo{
		{ID: "a", Action: "act", State: stint.StateReady, InsertedAt: now.Add(-90 * time.Second)},
		{
			ID: "tab\there", Action: "act", State: stint.StateInProgress, Tries: 1, MaxTries: 3,
			Actor: "worker", ActionDeadline: now.Add(25 * time.Second), Status: "half-way",
		},
		{
			ID: "c", Action: "\x1b[31m", State: stint.StateAborted,
			FinishedAt: now.Add(-49 * time.Hour), Status: strings.Repeat("é", 61),
		},
		{ID: "d", Action: "x", State: stint.StateScheduled, NotBefore: now.Add(3 * time.Hour)},
		{ID: "e", Action: "x", State: stint.StateInProgress},
	}
	var stdout, stderr bytes.Buffer
	p := &program{stdout: &stdout, stderr: &stderr}
	if err := p.printTasks(tasks, 5, now); err != nil {
		t.Fatal(err)
	}
	want := `ID           ACTION      STATE        TRIES   WHEN                ACTOR   STATUS
a            act         ready        0       inserted 1m30s ago
"tab\there"  act         in-progress  1 of 3  expires in 25s      worker  half-way
c            "\x1b[31m"  aborted      0       ended 2d ago                ` +
		strings.Repeat("é", 59) + `…
d            x           scheduled    0       begins in 3h00m
e            x           in-progress  0       no deadline
`
	if got := stdout.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := stderr.String(); got != "there may be more: --after 'e'\n" {
		t.Errorf("standard error is %q", got)
	}
}

func TestPainter_WritesAllStatesWithAsManyBytes(t *testing.T) {
	t.Parallel()
	texts := append(stateNames(), "STATE")
	for _, text := range texts {
		if got := painter(true).state(text); len(got) != len(text)+len("\x1b[30m\x1b[0m") {
			t.Errorf("%q is painted %q", text, got)
		}
		if got := painter(false).state(text); got != text {
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
		time.Duration(1<<63 - 1):    "in 106751d",
		-time.Duration(1<<63-1) - 1: "106751d ago",
	} {
		if got := relative(now.Add(ahead), now); got != want {
			t.Errorf("%v ahead is %q, want %q", ahead, got, want)
		}
	}
}

func TestDescribe_ShowsBodiesThatTerminalsCan(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                        "",
		"one line\n":              "one line",
		"two\nlines":              "two\n\tlines",
		"\x1b[31mred":             "8 bytes, not text (see: --json)",
		"\x00":                    "1 byte, not text (see: --json)",
		strings.Repeat("x", 4097): "4097 bytes (see: --json)",
	} {
		if got := content([]byte(body)); got != want {
			t.Errorf("%.20q is shown as %q, want %q", body, got, want)
		}
	}
}
