package stint_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// What users of other queues complained of when they limited fetches, each as a claim.

// run runs statements of the store in a transaction: each its name, with its parameters in
// parentheses.
func run(t *testing.T, tx pgx.Tx, calls ...string) {
	t.Helper()
	_, err := tx.Exec(t.Context(), statements(t)["set_planner"])
	wantErr(t, "set_planner", err, nil)
	for _, call := range calls {
		name, _, _ := strings.Cut(call, "(")
		_, err := tx.Exec(t.Context(), "PREPARE "+name+" AS "+statements(t)[name])
		wantErr(t, "PREPARE", err, nil)
		_, err = tx.Exec(t.Context(), "EXECUTE "+call, pgx.QueryExecModeSimpleProtocol)
		wantErr(t, call, err, nil)
		_, err = tx.Exec(t.Context(), "DEALLOCATE "+name)
		wantErr(t, "DEALLOCATE", err, nil)
	}
}

// openFetch fetches up to n tasks with action "act", and leaves the transaction open.
func openFetch(t *testing.T, pool *pgxpool.Pool, claim, n int) pgx.Tx {
	t.Helper()
	tx := begin(t, pool)
	run(t, tx, "lock_limits('{act}')",
		"unpark_within_limits('{}', '{}', '{}', '{}', '{}', '{act}', true, NULL)",
		"queue_turns('{act}')", fmt.Sprintf("deal_turns('{act}', %d, false)", n),
		fmt.Sprintf("own_limited(%d, 'first', %d, '{act}', '1 h', NULL, '{0}', "+
			"'{9223372036854775807}', false, 1, 0)", claim, n))
	return tx
}

// ofOne are limits each of which lets one task of a key be fetched.
func ofOne() map[string]stint.Limits {
	once := stint.Rate{Tasks: 1, Per: time.Hour, Burst: 1}
	limits := map[string]stint.Limits{
		"concurrency":         {Concurrency: 1},
		"concurrency per key": {ConcurrencyPerKey: 1},
		"rate":                {Rate: once},
		"rate per key":        {RatePerKey: once},
		"all": {
			Concurrency: 1, ConcurrencyPerKey: 1, Rate: once, RatePerKey: once,
		},
	}
	for name, l := range maps.Clone(limits) {
		l.Fair = true
		limits[name+", fair"] = l
	}
	return limits
}

// pgqueuer#777: two fetches that count at the same time exceed the limit. Here the second waits
// for the first or gets less, whether that commits or not.
// Proves L1.
func TestComplaint_TwoFetchesAtOnceCountEachOther(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	names := slices.Sorted(maps.Keys(ofOne()))
	for _, c := range testrun.Third(testrun.Pairs(names, []bool{true, false}), 0) {
		name, commits := c.A, c.B
		t.Run(fmt.Sprint(name, ", commits ", commits), func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, ofOne()[name])
			insert(t, store, ofKey("a", 4)...)
			tx := openFetch(t, pool, 7, 10)
			var first int
			err := tx.QueryRow(t.Context(), "SELECT count(*) FROM stint.leased").Scan(&first)
			if err != nil || first != 1 {
				t.Fatalf("the first got %d, %v, want 1", first, err)
			}
			done := make(chan error, 1)
			var second []stint.OwnedTask
			go func() {
				var err error
				second, err = store.OwnTasks(
					t.Context(), "second", 10, []string{"act"}, time.Hour)
				done <- err
			}()
			awaitWaiting(t, pool, 1, done)
			want := 1
			if commits {
				want = 0
				wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			} else {
				wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
			}
			wantErr(t, "OwnTasks", <-done, nil)
			if !commits && len(second) == 0 { // it may have passed over what was locked
				second = own(t, store, 10)
			}
			if len(second) != want {
				t.Errorf("the second got %q, want %d", idsOf(second), want)
			}
			if got := own(t, store, 10); len(got) > 0 {
				t.Errorf("%q were fetched beyond the limit", idsOf(got))
			}
		})
	}
}

// hatchet#4494, solid_queue#546: the slots of a worker that was killed stay taken.
// Proves L2.
func TestComplaint_AKilledWorkerLeavesItsSlots(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"concurrency": {Concurrency: 3}, "concurrency per key": {ConcurrencyPerKey: 3},
		"fair": {ConcurrencyPerKey: 3, Fair: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.New(t)
			t.Cleanup(func() { checkStore(t, pool) })
			store := openStore(t, pool, stint.Options{})
			setLimits(t, store, limits)
			insert(t, store, ofKey("a", 9)...)
			worker := startWorker(t, pool, "killed", 3, time.Hour)
			wantErr(t, "Kill", worker.command.Process.Kill(), nil)
			var got []stint.OwnedTask
			eventually(t, soon, "all slots are free", func() bool {
				got = append(got, own(t, store, 10)...)
				return len(got) >= 3
			})
			for done := 0; done < 9; {
				if len(got) > 3 {
					t.Fatalf("%d are in progress", len(got))
				}
				complete(t, store, got...)
				done += len(got)
				got = own(t, store, 10)
			}
		})
	}
}

// pg-boss#756: the tasks of a key at its limit stall everybody behind them. Here they are met once,
// and then a fetch of others looks at none of them.
// Proves L4.
func TestComplaint_AFullKeyAtTheHeadOfTheQueueStallsNobody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const n = 2000
	for name, limits := range map[string]stint.Limits{
		"concurrency per key": {ConcurrencyPerKey: 1},
		"rate per key":        {RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 1}},
		"fair":                {ConcurrencyPerKey: 1, Fair: true},
	} {
		for _, apart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", rows of their own ", apart), func(t *testing.T) {
				t.Parallel()
				store, pool := newLimitedStore(t, limits)
				insert(t, store, ofKey("full", n)...)
				if apart {
					exec(t, pool, `INSERT INTO stint.ready 
							(position, lo, hi, action, tries, priority)
						SELECT ready.position, key, key, ready.action, 0, 0
						FROM stint.ready, generate_series(lo + 1, hi) AS key`)
					exec(t, pool, "UPDATE stint.ready SET hi = lo")
				}
				insert(t, store, ofKey("other", 1)...)
				got := own(t, store, 2)
				for range n/1000 + 2 {
					got = append(got, own(t, store, 2)...)
				}
				if byKey(got)["other"] != 1 || byKey(got)["full"] != 1 {
					t.Fatalf("%v were fetched, want one of each", byKey(got))
				}
				insert(t, store, ofKey("third", 1)...)
				const few = 300
				for _, call := range [][2]string{
					{"unpark_within_limits", "'{}', '{}', '{}', '{}', '{}', '{act}', true, NULL"},
					{"queue_turns", "'{act}'"},
					{"deal_turns", "'{act}', 10, false"},
					{"own_limited", "7, 'actor', 10, '{act}', '1 h', NULL, '{0}', " +
						"'{9223372036854775807}', false, 1, 0"},
				} {
					if rows := rowsLookedAt(t, pool, call[0], call[1]); rows > few {
						t.Errorf("%s looks at %.0f rows", call[0], rows)
					}
				}
				if got := own(t, store, 1); byKey(got)["third"] != 1 {
					t.Errorf("%v were fetched, want the third key", byKey(got))
				}
			})
		}
	}
}

// pg-boss#849: what a fetch reads grows with the number of keys that are at their limit.
// Proves L4.
func TestComplaint_FullKeysCostAFetchNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, fair := range []bool{false, true} {
		t.Run(fmt.Sprint("fair ", fair), func(t *testing.T) {
			t.Parallel()
			looked := map[int]map[string]float64{}
			for _, keys := range []int{10, 200} {
				store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1, Fair: fair})
				for i := range keys {
					insert(t, store, ofKey(fmt.Sprintf("key%04d", i), 20)...)
				}
				full := 0
				for more := true; more; {
					owned := own(t, store, 1000)
					full, more = full+len(owned), len(owned) > 0
				}
				if full != keys {
					t.Fatalf("%d of %d keys are full", full, keys)
				}
				insert(t, store, ofKey("another", 1)...)
				tx := begin(t, pool)
				run(t, tx, "queue_turns('{act}')", "deal_turns('{act}', 10, false)")
				wantErr(t, "Commit", tx.Commit(t.Context()), nil)
				looked[keys] = map[string]float64{}
				for _, call := range [][2]string{
					{"unpark_within_limits", "'{}', '{}', '{}', '{}', '{}', '{act}', true, NULL"},
					{"queue_turns", "'{act}'"},
					{"deal_turns", "'{act}', 10, false"},
					{"own_limited", "7, 'actor', 10, '{act}', '1 h', NULL, '{0}', " +
						"'{9223372036854775807}', false, 1, 0"},
				} {
					looked[keys][call[0]] = rowsLookedAt(t, pool, call[0], call[1])
				}
			}
			for name, few := range looked[10] {
				if many := looked[200][name]; many > few+10 {
					t.Errorf("%s looks at %.0f rows with 10 full keys, at %.0f with 200",
						name, few, many)
				}
			}
		})
	}
}

// solid_queue#761: a task that was parked while somebody made room waits for ever. Here the
// fetch that parked it looks again; if that is cut off, a maintainer brings it back.
// Proves L2.
func TestComplaint_NoWakeUpIsLostBetweenParkingAndReturn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, fair := range []bool{false, true} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprint("fair ", fair, ", dies ", dies), func(t *testing.T) {
				t.Parallel()
				c := newCutStore(t, stint.Options{})
				setLimits(t, c.truth, stint.Limits{ConcurrencyPerKey: 1, Fair: fair})
				first := ofKey("a", 3)
				insert(t, c.truth, first[0])
				owned := own(t, c.truth, 1)
				own(t, c.Store, 1) // which learns that there are limits
				insert(t, c.truth, first[1:]...)
				// The look is a request of its own, behind the fetch that parks.
				trap := c.proxy.Hold(pgcut.AtRequest, func(r pgcut.Request) bool {
					return pgcut.Executes("unpark_within_limits")(r) &&
						!pgcut.Executes("own_limited")(r)
				})
				done := hold(t, trap, func() error {
					return errOf(c.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour))
				})
				if n := c.count(t, "SELECT count(*) FROM stint.ready WHERE position < 0"); n == 0 {
					t.Fatal("nothing is parked")
				}
				// As if the owner had returned it without a look at what is parked since.
				exec(t, c.truthPool, "UPDATE stint.leased SET limited_action = NULL")
				complete(t, c.truth, owned...)
				if dies {
					trap.Cut()
				} else {
					trap.Release()
				}
				wantErr(t, "OwnTasks", <-done, nil)
				if dies {
					maintain(t, c.truth)
				}
				n := c.count(t, "SELECT count(*) FROM stint.leased")
				if n += len(own(t, c.truth, 10)); n != 1 {
					t.Errorf("%d are fetched, want 1", n)
				}
			})
		}
	}
}

// oban#792: tasks without a key share a limit that nobody meant.
func TestComplaint_TasksWithoutAKeyShareNoLimit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, fair := range []bool{false, true} {
		store := unmaintained(t, stint.Limits{
			ConcurrencyPerKey: 1, Fair: fair,
			RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 1},
		})
		insert(t, store, numbered("none", 50)...)
		insert(t, store, ofKey("a", 5)...)
		got := map[string]int{}
		for range 3 {
			for key, n := range byKey(own(t, store, 100)) {
				got[key] += n
			}
		}
		if got[""] != 50 || got["a"] != 1 {
			t.Errorf("with fair %v, %v were fetched", fair, got)
		}
	}
}

// good_job#603: a task that has to wait below a limit loses tries, and comes back later each time.
// Proves G45.
func TestComplaint_AWaitBelowALimitIsNoTry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, name := range testrun.Third(slices.Sorted(maps.Keys(ofOne())), 0) {
		store := unmaintained(t, ofOne()[name])
		tasks := ofKey("a", 2)
		tasks[0].Priority, tasks[1].MaxTries = 1, 1
		insert(t, store, tasks...)
		first := own(t, store, 10)
		for range 10 {
			if got := own(t, store, 10); len(got) > 0 {
				t.Fatalf("%s: %q were fetched", name, idsOf(got))
			}
		}
		maintain(t, store)
		if i := info(t, store, "a/00001"); i.State != stint.StateReady || i.Tries != 0 ||
			i.Status != "" {
			t.Errorf("%s: the task that waits is %s", name, describe(i))
		}
		complete(t, store, first...)
		setLimits(t, store, stint.Limits{})
		second := own(t, store, 10)
		if !slices.Equal(idsOf(second), []stint.TaskID{"a/00001"}) || second[0].Try != 1 {
			t.Errorf("%s: %+v was fetched", name, second)
		}
	}
}
