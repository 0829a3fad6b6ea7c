package ask

import (
	"context"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/kept"
)

// Whoever is in a hurry gets the nearest tasks until all have been read.
func TestGetSoon_DoesNotWaitForALargeNetwork(t *testing.T) {
	t.Parallel()
	graphOf := func(tasks int) *stint.Graph {
		return &stint.Graph{Tasks: make([]stint.TaskInfo, tasks), Cut: true}
	}
	hold, broken := make(chan struct{}), false
	g := &Networks{
		ask: func(context.Context, stint.TaskID) (*stint.Graph, error) { return graphOf(1), nil },
		askLarge: func(context.Context, stint.TaskID) (*stint.Graph, error) {
			<-hold
			if broken {
				return nil, context.DeadlineExceeded
			}
			return graphOf(2), nil
		},
	}
	g.recent = kept.Answers[*netAnswer]{Most: 1, Timeout: time.Hour}
	g.large = kept.Answers[*stint.Graph]{Most: 1, Timeout: time.Hour}
	look := func(patience time.Duration, tasks int, wantBegun bool) {
		t.Helper()
		found, begun, err := g.GetSoon(t.Context(), "a", patience)
		if err != nil || len(found.Tasks) != tasks || begun != wantBegun {
			t.Errorf("%d tasks, begun %t, %v, want %d, %t", len(found.Tasks), begun, err, tasks,
				wantBegun)
		}
	}
	look(time.Nanosecond, 1, true)
	close(hold)
	look(time.Hour, 2, false)
	broken = true // which is not said to be under way
	g.large.Forget()
	look(time.Hour, 1, false)
}
