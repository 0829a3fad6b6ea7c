package stint

import (
	"context"
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/calendar"
)

// However many occurrences nobody was there for, counting them ends with the context.
func TestSchedule_DueEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	of, err := calendar.Parse("every 1s", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	schedule := Schedule{CatchUp: CatchUpAll, Window: windowMax}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due, missed, _ := schedule.due(ctx, of, now.AddDate(-20, 0, 0), now)
	if len(due) > caughtUpMax || missed > 1 {
		t.Errorf("it finds %d and counts %d", len(due), missed)
	}
}
