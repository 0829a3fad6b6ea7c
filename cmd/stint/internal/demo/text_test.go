package demo_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/demo"
	"github.com/stint-tasks/stint/internal/testing/golden"
)

func wantGolden(t *testing.T, name, got string) {
	t.Helper()
	golden.Want(t, filepath.Join("testdata", name+".golden"), got+"\n")
}

// story are the events of one, with a picture half-way.
func story() []demo.Event {
	return []demo.Event{
		{Kind: demo.KindInserted, Seconds: 0.1, Tasks: 2510},
		{Kind: demo.KindWorking, Seconds: 0.3, Actor: demo.SecondActor, Process: 4711},
		{
			Kind: demo.KindFailed, Seconds: 1.42, Actor: demo.FirstActor,
			Task: "africa/4/photo-33", Status: "the photo is smudged",
		},
		{
			Kind: demo.KindAborted, Seconds: 4.1, Task: "antarctica/5/scan", Tasks: 53,
			After: 0.009, Status: "invalid performance token", Actor: demo.FirstActor,
		},
		{
			Kind: demo.KindKilled, Seconds: 7.3, Actor: demo.SecondActor, Process: 4711,
			Tasks: 15, LeaseLeft: 29.6,
		},
		{Kind: demo.KindProgress, Seconds: 7.4, Picture: picture()},
		{
			Kind: demo.KindHandedOn, Seconds: 8.1, Actor: demo.FirstActor, Tasks: 15, After: 0.879,
		},
		{
			Kind: demo.KindPrinted, Seconds: 21.3, Task: "book/print",
			Status: "told of 2,402 completed and 52 aborted tasks",
		},
		{
			Kind: demo.KindSprinted, Seconds: 22.1,
			Sprint: &demo.Sprint{Tasks: 50_000, Inserted: 0.291, Performed: 0.204},
		},
	}
}

func picture() *demo.Picture {
	counts := func(completed, aborted, inProgress, ready, scheduled, blocked int) demo.Counts {
		return demo.Counts{
			stint.StateCompleted: completed, stint.StateAborted: aborted,
			stint.StateInProgress: inProgress, stint.StateReady: ready,
			stint.StateScheduled: scheduled, stint.StateBlocked: blocked,
		}
	}
	return &demo.Picture{
		States: counts(1162, 53, 31, 1190, 15, 59),
		Parts: []demo.Part{
			{Name: "africa", States: counts(417, 0, 0, 0, 0, 0)},
			{Name: "antarctica", States: counts(230, 53, 31, 85, 8, 10)},
			{Name: "oceania", States: counts(8, 0, 0, 400, 0, 9)},
			{Name: "book", States: counts(1, 0, 0, 0, 0, 7)},
			{Name: "empty"},
		},
		Workers: []demo.Worker{
			{Actor: demo.FirstActor, Owns: 16, Completed: 1162},
			{Actor: demo.SecondActor, Owns: 15, Completed: 536, Killed: true},
		},
	}
}

func TestEvent_TellsTheStory(t *testing.T) {
	t.Parallel()
	for name, style := range map[string]demo.Style{
		"story": {Width: 100}, "story-narrow": {Width: 48}, "story-coloured": {90, true},
	} {
		lines := []string{}
		for _, event := range story() {
			lines = append(lines, event.Text(style))
		}
		wantGolden(t, name, strings.Join(lines, "\n"))
	}
}

func TestPicture_GivesEachStateItsShare(t *testing.T) {
	t.Parallel()
	for name, style := range map[string]demo.Style{
		"picture": {Width: 80}, "picture-wide": {Width: 200}, "picture-narrow": {Width: 20},
		"picture-coloured": {100, true},
	} {
		wantGolden(t, name, picture().Draw(style))
	}
	wantGolden(t, "picture-line", picture().Line())
}

func TestSummary_SaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	summary := demo.Summary{
		OK: true, Tasks: 2510, Photos: 2000, Failures: 294, HandedOn: 15,
		States: demo.Counts{stint.StateCompleted: 2457, stint.StateAborted: 53},
		Causes: map[stint.AbortCause]int{stint.CauseCancelled: 1, stint.CauseDependency: 52},
		Tries: map[stint.State]map[int]int{
			stint.StateCompleted: {0: 5, 1: 2208, 2: 179, 3: 65},
			stint.StateAborted:   {0: 52, 1: 1},
		},
		Seconds: 21.34, TasksPerSecond: 117.6, Noticed: 0.7493, Taken: 0.8788,
		SprintTasks: 50_000, InsertedPerSecond: 170_813, PerformedPerSecond: 1_248_089,
	}
	wantGolden(t, "summary", summary.Text(demo.Style{Width: 80}))
	wantGolden(t, "summary-coloured", summary.Text(demo.Style{Width: 80, Colours: true}))
	summary.OK = false
	for range 12 {
		summary.Problems = append(summary.Problems, `"book/bind" is aborted, not completed`)
	}
	wantGolden(t, "summary-problems", summary.Text(demo.Style{Width: 80}))
}
