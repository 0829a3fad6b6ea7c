package schedule

import (
	"context"
	"errors"
	"slices"
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

// Of what was missed the newest occurrences are caught up with, as many as the schedule says, and
// the others are counted.
func TestTiming_DueLeavesOutAllButTheNewest(t *testing.T) {
	t.Parallel()
	of, err := calendar.Parse("* * * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	timing := Timing{Calendar: of, Window: 24 * time.Hour, Most: 3}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due, missed, next := timing.Due(t.Context(), now.Add(-time.Hour), now)
	want := []time.Time{now.Add(-2 * time.Minute), now.Add(-time.Minute), now}
	if !slices.EqualFunc(due, want, time.Time.Equal) || missed != 58 {
		t.Errorf("it finds %v and misses %d, want %v and 58", due, missed, want)
	}
	if !next.Equal(now.Add(time.Minute)) {
		t.Errorf("it occurs next at %v", next)
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
