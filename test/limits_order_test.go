package stint_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// insertSingly inserts tasks each with a call of its own, so that each is a row of the queue.
func insertSingly(t *testing.T, store *stint.Store, tasks ...stint.Task) {
	t.Helper()
	for _, task := range tasks {
		insert(t, store, task)
	}
}

// Tasks of a key come in the order of their age, whatever bounds a fetch before the key.
// Proves L4.
func TestOwnTasks_KeepsTheOrderWithinAKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
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
					exec(t, pool, `UPDATE stint.limits
						SET refilled_at = refilled_at - interval '9 h'`)
					exec(t, pool, `UPDATE stint.key_rates SET full_at = full_at - interval '9 h',
						wake_at = wake_at - interval '9 h'`)
				}
				if len(got) != len(tasks) || !slices.IsSorted(got) {
					t.Errorf("fetched %v", got)
				}
			}
		})
	}
}

// hourly is a rate whose bucket is full after some hours.
func hourly(burst int) stint.Rate { return stint.Rate{Tasks: 1, Per: time.Hour, Burst: burst} }

// A key that is full holds up other keys for a few looks at the queue, however many tasks it has,
// though the caller wants only one task and the rows do not know their keys.
// Proves L4.
func TestOwnTasks_PassesTasksOfAFullKeyInFewSteps(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
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
				recheckNever(store)
				tasks := ofKey("k", n)
				for i := range tasks[1:] {
					tasks[i+1].NotBefore = time.Now().Add(time.Hour)
				}
				insert(t, store, tasks...)
				wantFetch(t, store, 1, tasks[0].ID)
				exec(t, pool, `UPDATE stint.scheduled SET not_before = now() - interval '1 s'`)
				maintain(t, store)
				exec(t, pool, prepare)
				insert(t, store, withKey("l", "other")...)
				asked := spy.count("own_limited")
				wantFetch(t, store, 1, "other")
				if asked = spy.count("own_limited") - asked; asked > 10 {
					t.Errorf("it took %d fetches", asked)
				}
			})
		}
	}
}

// An orderModel knows which tasks wait, of each key in the order in which they have to come.
type orderModel struct {
	*testing.T
	*rand.Rand
	store   *stint.Store
	pool    *pgxpool.Pool
	waiting map[string][]stint.Task
	owned   []stint.OwnedTask
	n       int
}

// Whatever bounds the fetches, the tasks of a key come by priority and age, until all have come.
// Proves L4.
func TestOwnTasks_KeepsTheOrderWithinKeysWhateverHappens(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	// In these, tokens or a turn came while tasks of the key were parked that come first.
	seeds := []uint64{
		11452578196550116441, 371001066211600808, 4401216475446925578, 3334327415065575599,
	}
	for range testrun.Rounds(20) {
		seeds = append(seeds, rand.Uint64())
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 2})
			m := &orderModel{
				T: t, Rand: rand.New(rand.NewPCG(seed, 0)), store: store, pool: pool,
				waiting: map[string][]stint.Task{},
			}
			for range 60 {
				m.step()
			}
			setLimits(t, store, stint.Limits{ConcurrencyPerKey: 3})
			wantErr(t, "ResumeKeys", store.ResumeKeys(t.Context(), "act", "a", "b", "c"), nil)
			for m.left() > 0 {
				m.complete(len(m.owned))
				if before := m.left(); m.own(100) == 0 {
					m.Fatalf("%d tasks wait, and none is fetched", before)
				}
			}
		})
	}
}

func (m *orderModel) left() (n int) {
	for _, tasks := range m.waiting {
		n += len(tasks)
	}
	return n
}

func (m *orderModel) step() {
	m.Helper()
	switch m.IntN(8) {
	case 0, 1:
		m.insert(1 + m.IntN(1<<m.IntN(6)))
	case 2:
		hours := stint.Rate{Tasks: 1, Per: time.Hour, Burst: 1 + m.IntN(3)}
		setLimits(m.T, m.store, stint.Limits{
			Concurrency: m.IntN(2) * (1 + m.IntN(4)), ConcurrencyPerKey: m.IntN(4),
			RatePerKey: []stint.Rate{{}, hours}[m.IntN(2)],
			Rate:       []stint.Rate{{}, hours}[m.IntN(2)], Fair: m.IntN(3) == 0,
		})
	case 3:
		key := string(rune('a' + m.IntN(3)))
		change := m.store.PauseKeys
		if m.IntN(2) == 0 {
			change = m.store.ResumeKeys
		}
		wantErr(m, "change of a pause", change(m.Context(), "act", key), nil)
	case 4:
		m.complete(m.IntN(len(m.owned) + 1))
		exec(m, m.pool, `UPDATE stint.limits SET refilled_at = refilled_at - interval '1 h'`)
		exec(m, m.pool, `UPDATE stint.key_rates SET full_at = full_at - interval '1 h',
			wake_at = wake_at - interval '1 h'`)
	default:
		m.own(1 + m.IntN(1<<m.IntN(6)))
	}
}

// insert inserts tasks in one call, of one key or of several.
func (m *orderModel) insert(n int) {
	m.Helper()
	tasks := make([]stint.Task, n)
	one, priority := m.IntN(4), int16(m.IntN(4)/3)
	for i := range tasks {
		key := one
		if one == 3 {
			key = m.IntN(4)
		}
		tasks[i] = stint.Task{
			ID: stint.TaskID(fmt.Sprintf("%05d", m.n)), Action: "act", Priority: priority,
			Key: []string{"a", "b", "c", ""}[key],
		}
		m.n++
	}
	insert(m, m.store, tasks...)
	for _, task := range tasks {
		waiting := append(m.waiting[task.Key], task)
		slices.SortStableFunc(waiting, func(a, b stint.Task) int {
			return int(b.Priority - a.Priority)
		})
		m.waiting[task.Key] = waiting
	}
}

func (m *orderModel) complete(n int) {
	m.Helper()
	m.Shuffle(len(m.owned), func(i, j int) { m.owned[i], m.owned[j] = m.owned[j], m.owned[i] })
	complete(m, m.store, m.owned[:n]...)
	m.owned = m.owned[n:]
}

// own owns tasks, and checks that they are the first of their keys.
func (m *orderModel) own(n int) int {
	m.Helper()
	owned := own(m, m.store, n)
	for _, task := range owned {
		first := m.waiting[task.Key][0]
		if task.ID != first.ID {
			m.Fatalf("of key %q, %s was fetched ahead of %s", task.Key, task.ID, first.ID)
		}
		m.waiting[task.Key] = m.waiting[task.Key][1:]
	}
	m.owned = append(m.owned, owned...)
	return len(owned)
}

// Tasks of a full key that are seen behind others whose keys are not known stay in the queue: one
// of these may be an older one of the same key.
// Proves L4.
func TestOwnTasks_ParksNoTaskAheadOfAnOlderOne(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, withKey("k", "k0")...)
	running := wantFetch(t, store, 1, "k0")
	insert(t, store, withKey("k", "k1")...)
	spans := numbered("t", 640)
	for i := range spans {
		spans[i].Key = string(spans[i].ID)
	}
	spans[30].Key = "k"
	insert(t, store, spans...)
	insert(t, store, withKey("k", "k2")...)
	const some = 20
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.ready"); n > some {
		t.Fatalf("%d rows are ready, more than a fetch looks at", n)
	}
	complete(t, store, own(t, store, some)...) // k1 is parked
	complete(t, store, running...)
	complete(t, store, wantFetch(t, store, 1, "k1")...)
	for range 30 {
		owned := own(t, store, 1)
		complete(t, store, owned...)
		switch owned[0].ID {
		case spans[30].ID:
			return
		case "k2":
			t.Fatal("k2 was fetched ahead of an older task of its key")
		}
	}
	t.Error("the older task was not fetched")
}
