package schedule

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/calendar"
)

// However many occurrences nobody was there for, counting them ends with the context.
func TestTiming_DueEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	of, err := calendar.Parse("every 1s", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	timing := Timing{Calendar: of, Window: 366 * 24 * time.Hour, Most: CaughtUpMax}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due, missed, _ := timing.Due(ctx, now.AddDate(-20, 0, 0), now)
	if len(due) > CaughtUpMax || missed > 1 {
		t.Errorf("it finds %d and counts %d", len(due), missed)
	}
}

// A schedule that goes on failing is tried again, however long it has failed.
func TestResting_RestsForSoLongAtMost(t *testing.T) {
	t.Parallel()
	var r Resting
	tries := 0
	for range 200 {
		if resting := r.Look(); len(resting) == 0 {
			tries++
			if !r.Add("s", errors.New("no")) {
				t.Fatal("there is no room for it")
			}
		}
	}
	if least := 200 / (restLooksMax + 1); tries < least {
		t.Errorf("it is tried %d times in 200 looks, want %d", tries, least)
	}
}
