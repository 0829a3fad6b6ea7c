package stint_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// never is farther away than nanoseconds can count.
func never() time.Time { return time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC) }

// waitingStates are those in which a store has nothing to do, and nothing comes for a long time.
func waitingStates() map[string]func(*testing.T, *stint.Store) {
	insertNot := func(task stint.Task) func(*testing.T, *stint.Store) {
		return func(t *testing.T, store *stint.Store) {
			t.Helper()
			task.ID = "a"
			insert(t, store, task)
		}
	}
	limited := func(limits stint.Limits) func(*testing.T, *stint.Store) {
		return func(t *testing.T, store *stint.Store) {
			t.Helper()
			setLimits(t, store, limits)
			insert(t, store, keyedTasks(3, "a", "b")...)
			for n := 1; n > 0; {
				n = len(own(t, store, 10))
			}
		}
	}
	rare := stint.Rate{Tasks: 1, Per: 365 * 24 * time.Hour}
	return map[string]func(*testing.T, *stint.Store){
		"nothing":        func(*testing.T, *stint.Store) {},
		"never":          insertNot(stint.Task{Action: "act", NotBefore: never()}),
		"never external": insertNot(stint.Task{Action: stint.External, NotBefore: never()}),
		"spontaneous":    insertNot(stint.Task{Action: stint.Spontaneous, NotBefore: never()}),
		"external":       insertNot(stint.Task{Action: stint.External, PostResult: true}),
		"deadline":       insertNot(stint.Task{Action: "other", Deadline: never()}),
		"other":          insertNot(stint.Task{Action: "other"}),
		"owned": func(t *testing.T, store *stint.Store) {
			t.Helper()
			insert(t, store, stint.Task{ID: "a", Action: "act"})
			ownOne(t, store)
		},
		"owned for ever": func(t *testing.T, store *stint.Store) {
			t.Helper()
			insert(t, store, stint.Task{ID: "a", Action: "act"})
			_, err := store.OwnTasks(t.Context(), "a", 1, []string{"act"}, stint.NoExpiry)
			wantErr(t, "OwnTasks", err, nil)
		},
		"fail fast": func(t *testing.T, store *stint.Store) {
			t.Helper()
			insert(t, store, stint.Task{ID: "a", Action: "other", FailFast: true},
				stint.Task{ID: "b", Action: "other", After: []stint.TaskID{"a"}, FailFast: true})
		},
		"paused": func(t *testing.T, store *stint.Store) {
			t.Helper()
			insert(t, store, stint.Task{ID: "a", Action: "act"})
			wantErr(t, "Pause", store.Pause(t.Context(), "act"), nil)
		},
		"schedule": func(t *testing.T, store *stint.Store) {
			t.Helper()
			wantErr(t, "PutSchedules", store.PutSchedules(t.Context(), []stint.Schedule{{
				Name: "far", Spec: "@yearly", From: never().AddDate(-1, 0, 0),
				Tasks: []stint.Task{{Action: "act"}},
			}}), nil)
		},
		"concurrency":         limited(stint.Limits{Concurrency: 1}),
		"concurrency of keys": limited(stint.Limits{ConcurrencyPerKey: 1}),
		"order":               limited(stint.Limits{Ordered: true}),
		"fair":                limited(stint.Limits{Fair: true, Concurrency: 1}),
		"rate":                limited(stint.Limits{Rate: rare}),
		"rate of keys":        limited(stint.Limits{RatePerKey: rare}),
		"budget":              limited(stint.Limits{Rate: rare, ByCost: true}),
		"budget of keys":      limited(stint.Limits{RatePerKey: rare, ByCost: true, Fair: true}),
	}
}

// Who waits for tasks looks no more often for what others have put into the tables. A time may be
// farther away than nanoseconds can count: as that of the task which names a shard is.
// Proves G207.
func TestWaitToOwnTasks_RestsWhereNothingComesSoon(t *testing.T) {
	t.Parallel()
	states := waitingStates()
	for _, name := range testrun.Some(slices.Sorted(maps.Keys(states))) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.New(t)
			spied, spy := spyOn(t, pool, 4)
			store := openStore(t, spied, stint.Options{
				PollInterval: time.Hour, Maintenance: stint.MaintainNever,
			})
			states[name](t, store)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			waiting := start(func() ([]stint.OwnedTask, error) {
				return store.WaitToOwnTasks(ctx, "w", 1, []string{"act", "more"}, time.Hour)
			})
			spy.sees(t, "next_due", 1)
			for range 40 { // time enough for as many looks
				_, err := store.Stats(t.Context())
				wantErr(t, "Stats", err, nil)
			}
			const few = 10
			for _, look := range []string{"next_due", "next_limited", "ready_actions"} {
				if n := spy.count(look); n > few {
					t.Errorf("%s was executed %d times", look, n)
				}
			}
			cancel()
			_, err := ends(t, "WaitToOwnTasks", waiting)
			wantErr(t, "WaitToOwnTasks", err, context.Canceled)
		})
	}
}
