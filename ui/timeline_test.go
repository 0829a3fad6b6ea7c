package ui_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// A longLived is a store that tells of changes of a task, too.
type longLived struct {
	aFake
	changes stint.ChangePage
}

func (l *longLived) ListChanges(context.Context, stint.ChangeFilter) (stint.ChangePage, error) {
	return l.changes, nil
}

// Where a page leaves out tries that the store keeps, and changes, it says so and names the command
// that tells of all; it says how stores keep more only of tries that this one has not kept.
func TestTask_SaysWhatItsTimelineLeavesOut(t *testing.T) {
	t.Parallel()
	const advice = "There were more tries than these"
	for _, test := range []struct {
		name          string
		tries, kept   int
		more          stint.Cursor
		since         time.Duration // of the task, before noon
		want, wantNot []string
	}{
		{
			name: "nothing", tries: 100, kept: 100, since: time.Hour,
			wantNot: []string{"earlier tr", "earlier changes", advice},
		},
		{
			name: "one try", tries: 101, kept: 101, since: time.Hour,
			want:    []string{"and 1 earlier try: <code>stint show a</code>"},
			wantNot: []string{"earlier changes", advice},
		},
		{
			name: "tries and changes", tries: 300, kept: 300, more: "7", since: time.Hour,
			want: []string{
				"and 200 earlier tries: <code>stint show a</code>",
				"and earlier changes: <code>stint changes a</code>",
			},
			wantNot: []string{advice},
		},
		{
			name: "changes of a task that had the ID before", tries: 1, kept: 1, more: "7",
			since: time.Second, wantNot: []string{"earlier tr", "earlier changes", advice},
		},
		{
			name: "tries that the store lacks", tries: 300, kept: 200, since: time.Hour,
			want: []string{"and 100 earlier tries", advice},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := &longLived{changes: stint.ChangePage{
				Next:    test.more,
				Changes: []stint.Change{{At: ago(time.Minute), Verb: "RetryTasks", Items: 1}},
			}}
			for i := range test.kept {
				store.history.Tries = append(store.history.Tries, stint.Try{
					Number: test.tries - test.kept + i + 1, EndedAt: ago(time.Second),
					Status: fmt.Sprint("try ", i),
				})
			}
			store.explain = func(context.Context, stint.TaskID) (stint.Explanation, error) {
				return stint.Explanation{Now: noon, Task: stint.TaskInfo{
					ID: "a", Action: "mail", State: stint.StateReady, Tries: test.tries,
					InsertedAt: ago(test.since),
				}}, nil
			}
			page := text(t, ui.New(store, ui.Options{}), "/task?id=a")
			wantParts(t, page, test.want...)
			for _, part := range test.wantNot {
				if strings.Contains(page, part) {
					t.Errorf("the page has %q", part)
				}
			}
		})
	}
}
