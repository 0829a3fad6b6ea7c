package stint

import (
	"context"
	"errors"
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

// A schedule that goes on failing is tried again, however long it has failed.
func TestSchedules_RestForSoLongAtMost(t *testing.T) {
	t.Parallel()
	f := &scheduleFirer{}
	var last *restingSchedule
	for range 10 {
		f.rest("s", last, errors.New("no"))
		last = f.resting["s"]
		delete(f.resting, "s")
	}
	if last.looks != restLooksMax {
		t.Errorf("it rests for %d looks, want %d", last.looks, restLooksMax)
	}
}
