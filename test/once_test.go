package stint_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves G12.
func TestOncePer_IsTheSameWithinAPeriodAndNotInTheNext(t *testing.T) {
	t.Parallel()
	const day, week = 24 * time.Hour, 7 * 24 * time.Hour
	berlin := time.FixedZone("CET", 3600)
	for _, c := range []struct {
		at     time.Time
		period time.Duration
		want   stint.TaskID
	}{
		{time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), day, "a@2026-11-22T00:00:00Z"},
		{time.Date(2026, 11, 22, 23, 59, 59, 999_999_999, time.UTC), day, "a@2026-11-22T00:00:00Z"},
		{time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), day, "a@2026-11-23T00:00:00Z"},
		{time.Date(2026, 11, 23, 0, 30, 0, 0, berlin), day, "a@2026-11-22T00:00:00Z"},
		{time.Date(2026, 11, 22, 13, 14, 15, 0, time.UTC), time.Hour, "a@2026-11-22T13:00:00Z"},
		{time.Date(2026, 11, 22, 13, 14, 15, 0, time.UTC), week, "a@2026-11-19T00:00:00Z"},
		{time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), week, "a@2026-11-26T00:00:00Z"},
		{time.Date(1969, 12, 31, 12, 0, 0, 0, time.UTC), week, "a@1969-12-25T00:00:00Z"},
		{time.Date(2600, 1, 1, 12, 0, 0, 0, time.UTC), day, "a@2600-01-01T00:00:00Z"},
		{time.Unix(0, 1_700_000_000), 500 * time.Millisecond, "a@1970-01-01T00:00:01.5Z"},
		{time.Unix(100, 1), 7 * time.Second, "a@1970-01-01T00:01:38Z"},
	} {
		if got := stint.OncePer("a", c.at, c.period); got != c.want {
			t.Errorf("OncePer at %s per %s = %s, want %s", c.at, c.period, got, c.want)
		}
	}
}

func TestOncePer_PanicsWithoutAPeriod(t *testing.T) {
	t.Parallel()
	for _, period := range []time.Duration{0, -time.Hour} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("OncePer per %s has returned", period)
				}
			}()
			stint.OncePer("a", time.Unix(0, 0), period)
		}()
	}
}

// Proves G12.
func TestOncePer_InsertsOneTaskPerPeriodHoweverManyAskAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var asking []func() error
	for minute := range 20 {
		asking = append(asking, func() error {
			id := stint.OncePer("a", at.Add(time.Duration(minute)*time.Minute), 10*time.Minute)
			return store.InsertTasks(t.Context(), []stint.Task{{ID: id, Action: "act"}})
		})
	}
	inserted := 0
	for _, err := range atOnce(asking...) {
		if err == nil {
			inserted++
		} else {
			wantErr(t, "InsertTasks", err, stint.ErrTaskExists)
		}
	}
	if got := own(t, store, 20); inserted != 2 || len(got) != 2 {
		t.Errorf("%d calls inserted, %d tasks, want 2", inserted, len(got))
	}
}
