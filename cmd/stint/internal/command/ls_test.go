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
			Actor: "worker", LeaseUntil: now.Add(25 * time.Second), Status: "half-way",
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
	if err := p.printTasks(stint.TaskPage{Tasks: tasks, Next: "e", Looked: 5}, now); err != nil {
		t.Fatal(err)
	}
	want := `ID           ACTION      STATE        TRIES   WHEN                ACTOR   STATUS
a            act         ready        0       inserted 1m30s ago
"tab\there"  act         in-progress  1 of 3  expires in 25s      worker  half-way
c            "\x1b[31m"  aborted      0       ended 2d ago                ` +
		strings.Repeat("é", 59) + `…
d            x           scheduled    0       begins in 3h00m
e            x           in-progress  0       no expiry
`
	if got := stdout.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := stderr.String(); got != "looked at 5 tasks, there may be more: --after 'e'\n" {
		t.Errorf("standard error is %q", got)
	}
}
