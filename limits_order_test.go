package stint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// insertSingly inserts tasks each with a call of its own, so that each is a row of the queue.
func insertSingly(t *testing.T, store *stint.Store, tasks ...stint.Task) {
	t.Helper()
	for _, task := range tasks {
		insert(t, store, task)
	}
}

// L4: tasks of a key come in the order of their age, whatever bounds a hand-out before its key does.
func TestOwnTasks_KeepsTheOrderWithinAKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits stint.Limits
		n      int
	}{
		"few are wanted":     {stint.Limits{ConcurrencyPerKey: 5}, 1},
		"few of the action":  {stint.Limits{Concurrency: 1, ConcurrencyPerKey: 2}, 10},
		"few tokens":         {stint.Limits{Rate: hourly(2), ConcurrencyPerKey: 5}, 10},
		"few tokens of keys": {stint.Limits{RatePerKey: hourly(3), ConcurrencyPerKey: 5}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, insertAll := range []func(*testing.T, *stint.Store, ...stint.Task){
				insertSingly,
				func(t *testing.T, store *stint.Store, tasks ...stint.Task) {
					t.Helper()
					insert(t, store, tasks...)
				},
			} {
				store, pool := newLookingStore(t, c.limits)
				tasks := ofKey("k", 12)
				insertAll(t, store, tasks[:8]...)
				insertAll(t, store, keyed(numbered("other", 2), "l")...)
				insertAll(t, store, tasks[8:]...)
				var got []stint.TaskID
				for range 2 * len(tasks) {
					owned := own(t, store, c.n)
					complete(t, store, owned...)
					for _, task := range owned {
						if task.Key == "k" {
							got = append(got, task.ID)
						}
					}
					exec(t, pool, `UPDATE stint.limits SET refilled_at = refilled_at - interval '9 h'`)
					exec(t, pool, `UPDATE stint.key_rates SET full_at = full_at - interval '9 h',
						wake_at = wake_at - interval '9 h'`)
				}
				if len(got) != len(tasks) || !slices.IsSorted(got) {
					t.Errorf("handed out %v", got)
				}
			}
		})
	}
}

// hourly is a rate whose bucket is full after some hours.
func hourly(burst int) stint.Rate { return stint.Rate{Tasks: 1, Per: time.Hour, Burst: burst} }

// L4: a key that is full holds up other keys for a few looks at the queue, however many tasks it
// has, though the caller wants only one task and the rows do not know their keys.
func TestOwnTasks_PassesTasksOfAFullKeyInFewSteps(t *testing.T) {
	t.Parallel()
	const n = 3000
	for name, prepare := range map[string]string{
		"known keys":   `UPDATE stint.ready SET limit_key = 'k' WHERE limit_key IS NULL`,
		"unknown keys": `UPDATE stint.ready SET limit_key = NULL`,
	} {
		for _, limits := range []stint.Limits{
			{ConcurrencyPerKey: 1}, {ConcurrencyPerKey: 1, Concurrency: 2},
		} {
			t.Run(fmt.Sprint(name, limits.Concurrency), func(t *testing.T) {
				t.Parallel()
				_, pool := newLimitedStore(t, limits)
				spied, spy := spyOn(t, pool, 4)
				store := openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever})
				stint.LeaveRoomToOthers(store)
				tasks := ofKey("k", n)
				for i := range tasks[1:] {
					tasks[i+1].NotBefore = time.Now().Add(time.Hour)
				}
				insert(t, store, tasks...)
				wantHandOut(t, store, 1, tasks[0].ID)
				exec(t, pool, `UPDATE stint.scheduled SET not_before = now() - interval '1 s'`)
				maintain(t, store)
				exec(t, pool, prepare)
				insert(t, store, withKey("l", "other")...)
				asked := spy.count("own_limited")
				wantHandOut(t, store, 1, "other")
				if asked = spy.count("own_limited") - asked; asked > 10 {
					t.Errorf("it took %d hand-outs", asked)
				}
			})
		}
	}
}
