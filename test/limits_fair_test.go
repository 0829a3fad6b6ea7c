package stint_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// ofKey are n ready tasks with a key, whose IDs begin with it.
func ofKey(key string, n int) []stint.Task {
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{
			ID: stint.TaskID(fmt.Sprintf("%s/%05d", key, i)), Action: "act", Key: key,
		}
	}
	return tasks
}

// byKey counts owned tasks by their keys.
func byKey(owned []stint.OwnedTask) map[string]int {
	counts := map[string]int{}
	for _, task := range owned {
		counts[task.Key]++
	}
	return counts
}

// unmaintained opens a store that nothing but its own calls maintains.
func unmaintained(t *testing.T, limits stint.Limits) *stint.Store {
	t.Helper()
	store, _ := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever, PollOnly: true})
	recheckNever(store)
	setLimits(t, store, limits)
	return store
}

// A key of a fair action that was met while it was paused is fetched as soon as it is resumed,
// without any maintenance.
func TestFair_HandsOutAKeyOnceItIsResumed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := unmaintained(t, stint.Limits{Fair: true})
	insert(t, store, ofKey("a", 3)...)
	wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), "act", "a"), nil)
	if got := own(t, store, 10); len(got) > 0 {
		t.Fatalf("of a paused key, %v were fetched", byKey(got))
	}
	wantErr(t, "ResumeKeys", store.ResumeKeys(t.Context(), "act", "a"), nil)
	if got := own(t, store, 10); len(got) != 3 {
		t.Errorf("of the resumed key, %v were fetched, want 3", byKey(got))
	}
}

// A limit per key that is raised makes room for the keys of a fair action at once.
func TestFair_HandsOutMoreOnceTheLimitPerKeyIsRaised(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := unmaintained(t, stint.Limits{Fair: true, ConcurrencyPerKey: 1})
	insert(t, store, ofKey("a", 3)...)
	for range 2 { // the second meets the key at its limit
		own(t, store, 10)
	}
	setLimits(t, store, stint.Limits{Fair: true, ConcurrencyPerKey: 3})
	if got := own(t, store, 10); len(got) != 2 {
		t.Errorf("%v were fetched, want the other 2", byKey(got))
	}
}

// The room that a lease left by its end is used by the next fetch.
func TestFair_HandsOutATaskWhoseLeaseHasExpired(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true,
	})
	setLimits(t, store, stint.Limits{Fair: true, ConcurrencyPerKey: 1})
	insert(t, store, ofKey("a", 3)...)
	for range 2 {
		own(t, store, 10)
	}
	expireLeases(t, pool)
	if got := own(t, store, 10); len(got) != 1 {
		t.Errorf("%v were fetched, want 1", byKey(got))
	}
}

// A key saves nothing up while it is paused.
func TestFair_GivesAResumedKeyNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := unmaintained(t, stint.Limits{Fair: true})
	insert(t, store, ofKey("a", 600)...)
	insert(t, store, ofKey("b", 1200)...)
	wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), "act", "a"), nil)
	for handed := 0; handed < 640; {
		got := own(t, store, 64)
		if len(got) == 0 || byKey(got)["b"] != len(got) {
			t.Fatalf("%v were fetched, want b", byKey(got))
		}
		handed += len(got)
	}
	wantErr(t, "ResumeKeys", store.ResumeKeys(t.Context(), "act", "a"), nil)
	maintain(t, store)
	got := map[string]int{}
	for range 10 { // a turn each
		for key, n := range byKey(own(t, store, 32)) {
			got[key] += n
		}
	}
	if got["a"] < 160-64 || got["b"] < 160-64 {
		t.Errorf("%v of 320 were fetched, want as many of each", got)
	}
}

// A key whose tasks come one by one does not keep others from their turn.
func TestFair_AKeyWhoseTasksComeOneByOneGetsNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := unmaintained(t, stint.Limits{Fair: true})
	insert(t, store, ofKey("b", 100)...)
	got := map[string]int{}
	for i := range 100 {
		insert(t, store, stint.Task{ID: stint.TaskID(fmt.Sprint("a", i)), Action: "act", Key: "a"})
		for key, n := range byKey(own(t, store, 1)) {
			got[key] += n
		}
	}
	if got["b"] < 50-32 {
		t.Errorf("%v of 100 were fetched, want as many of b", got)
	}
}

// Room below the limit of a key is used by tasks with a lower priority, too.
func TestFair_FillsTheRoomOfAKeyWithTasksOfAllPriorities(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := unmaintained(t, stint.Limits{Fair: true, ConcurrencyPerKey: 2})
	insert(t, store, ofKey("a", 4)...)
	first := own(t, store, 10)
	own(t, store, 10) // meets the key at its limit
	high := stint.Task{ID: "high", Action: "act", Key: "a", Priority: 5}
	insert(t, store, high)
	own(t, store, 10)
	complete(t, store, first...)
	if got := own(t, store, 10); len(got) != 2 || got[0].ID != "high" {
		t.Errorf("%q were fetched, want 2", idsOf(got))
	}
}

// A turn is of tasks of one priority: those of a higher one, which have had theirs, do not count.
// Proves L5.
func TestFair_ATurnIsOfTasksOfOnePriority(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := unmaintained(t, stint.Limits{Fair: true})
	urgent := withKey("a", "u0", "u1", "u2")
	for i := range urgent {
		urgent[i].Priority = 1
	}
	insertSingly(t, store, urgent...)
	insertSingly(t, store, ofKey("a", 40)...)
	insertSingly(t, store, ofKey("b", 40)...)
	if got := byKey(own(t, store, 40)); got["a"] != 3+32 || got["b"] != 5 {
		t.Errorf("%v were fetched, want a turn of a behind what is urgent, and 5 of b", got)
	}
}

// Tasks with a higher priority are ahead of all others, also of those whose turn had come.
// Proves L5.
func TestFair_PrioritiesAreStrictThoughOthersHadTheirTurn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := unmaintained(t, stint.Limits{Fair: true, Concurrency: 1})
	insert(t, store, ofKey("a", 100)...)
	first := own(t, store, 50) // whose turn has come, but for which there is no room
	high := ofKey("z", 1)[0]
	high.Priority = 5
	insert(t, store, high)
	complete(t, store, first...)
	if got := own(t, store, 20); len(got) != 1 || got[0].Key != "z" {
		t.Errorf("%q was fetched ahead of a higher priority", idsOf(got))
	}
}

// Keys take turns only within a priority, however many tasks a call asks for: nothing of a lower
// one is fetched while there is something of a higher one.
//
// Proves L5.
func TestFair_ALowerPriorityWaitsForAllOfAHigherOne(t *testing.T) {
	t.Parallel()
	cases := testrun.Pairs([]string{"", "group"}, []int{20, 33, 64, 100})
	for _, c := range testrun.Some(cases) {
		group, most := c.A, c.B
		t.Run(fmt.Sprintf("%q, %d", group, most), func(t *testing.T) {
			t.Parallel()
			store := unmaintained(t, stint.Limits{Fair: true, FairGroup: group})
			urgent := slices.Concat(ofKey("a", 170), ofKey("few", 10), ofKey("b", 60))
			for i := range urgent {
				urgent[i].Priority = 1
			}
			insert(t, store, urgent...)
			insert(t, store, slices.Concat(ofKey("c", 50), ofKey("d", 50))...)
			for left, calls := len(urgent), 0; left > 0; calls++ {
				got := own(t, store, most)
				counts := byKey(got)
				later := counts["c"] + counts["d"]
				left -= len(got) - later
				if len(got) == 0 || left > 0 && later > 0 {
					t.Fatalf("call %d fetched %v with %d of higher priority left", calls,
						counts, left)
				}
			}
		})
	}
}

// A task that was fetched before its action had limits makes room when it is returned.
// Proves L2.
func TestSetLimits_TasksHandedOutBeforeMakeRoom(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"unfair": {ConcurrencyPerKey: 1}, "fair": {ConcurrencyPerKey: 1, Fair: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStoreAndPool(t, stint.Options{
				Maintenance: stint.MaintainNever, PollOnly: true,
			})
			insert(t, store, ofKey("a", 3)...)
			first := own(t, store, 1)
			setLimits(t, store, limits)
			if got := own(t, store, 10); len(got) > 0 {
				t.Fatalf("%q were fetched beyond the limit", idsOf(got))
			}
			complete(t, store, first...)
			if got := own(t, store, 10); len(got) != 1 {
				t.Errorf("%q were fetched, want 1", idsOf(got))
			}
		})
	}
}

// A parked task is fetched after the task that it waited for, however that leaves the queue.
// Proves L2.
func TestLimits_NoTaskWaitsForOneThatIsGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, leave := range map[string]func(*testing.T, *stint.Store, stint.OwnedTask) error{
		"aborted": func(t *testing.T, store *stint.Store, task stint.OwnedTask) error {
			t.Helper()
			return errOf(store.AbortTasks(t.Context(), []stint.TaskID{task.ID}, ""))
		},
		"deleted": func(t *testing.T, store *stint.Store, task stint.OwnedTask) error {
			t.Helper()
			return errOf(store.DeleteTasks(t.Context(), []stint.TaskID{task.ID}))
		},
		"returned late": func(t *testing.T, store *stint.Store, task stint.OwnedTask) error {
			t.Helper()
			return store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t,
				stint.Options{Maintenance: stint.MaintainNever, PollOnly: true})
			recheckNever(store) // while it unparks tasks, it locks them
			setLimits(t, store, stint.Limits{ConcurrencyPerKey: 1})
			insert(t, store, ofKey("a", 3)...)
			insert(t, store, stint.Task{ID: "b", Action: "other"})
			first := own(t, store, 10)
			expireLeases(t, pool)
			_, err := store.OwnTasks(t.Context(), "actor", 1, []string{"other"}, time.Hour)
			wantErr(t, "OwnTasks", err, nil)
			_, err = store.OwnTasks(t.Context(), "actor", 1, []string{"other"}, time.Hour)
			wantErr(t, "OwnTasks", err, nil)
			wantErr(t, "leave", leave(t, store, first[0]), nil)
			if got := own(t, store, 10); len(got) != 1 {
				t.Errorf("%q were fetched, want 1", idsOf(got))
			}
		})
	}
}

// Whatever the weights, the order of the tasks, the sizes of fetches and how many are given back,
// keys that always have tasks are at no moment further apart than a turn.
// Proves L5.
func TestFair_SharesAreWithinATurnOfTheWeights(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const workers = 16
	for round := range testrun.Rounds(10) {
		store := unmaintained(t, stint.Limits{Fair: true})
		weights, total := map[string]int{}, 0
		for range 2 + rand.IntN(6) {
			key, weight := fmt.Sprint("k", len(weights)), 1+rand.IntN(5)
			weights[key], total = weight, total+weight
		}
		wantErr(t, "SetWeights", store.SetWeights(t.Context(), "act", weights), nil)
		const turns = 5
		var tasks []stint.Task
		for key, weight := range weights {
			tasks = append(tasks, ofKey(key, 32*weight*turns*2)...)
		}
		rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		insert(t, store, tasks...)
		given, others := map[string]int{}, make(chan map[string]int)
		for range workers {
			go func() { others <- byKey(ownSome(t, store, rand.IntN(32))) }()
		}
		for range workers {
			for key, n := range <-others {
				given[key] += n
			}
		}
		for sum := 0; sum < 32*total*turns; {
			wantShares(t, given, weights, round)
			owned := ownSome(t, store, 1+rand.IntN(32))
			sum += len(owned)
			for key, n := range byKey(owned) {
				given[key] += n
			}
		}
	}
}

// ownSome owns up to n tasks, and gives some of them back, perhaps.
func ownSome(t *testing.T, store *stint.Store, n int) []stint.OwnedTask {
	t.Helper()
	owned := own(t, store, n+1)
	if rand.IntN(4) == 0 {
		for _, task := range owned[:rand.IntN(len(owned)+1)] {
			err := store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusPending)
			wantErr(t, "ReturnTask", err, nil)
		}
	}
	return owned
}

// wantShares checks that no two keys are further apart than a turn.
func wantShares(t *testing.T, given, weights map[string]int, round int) {
	t.Helper()
	const turn = 32 // tasks for each unit of a weight
	least, most := math.Inf(1), 0.0
	for key, weight := range weights {
		share := float64(given[key]) / float64(weight)
		least, most = min(least, share), max(most, share)
	}
	if most-least > turn {
		t.Fatalf("in round %d, with weights %v, %v were fetched", round, weights, given)
	}
}

// A key that had no room while others had their turns has saved up one turn, and no more.
// Proves L5.
func TestFair_AKeyWithoutRoomSavesUpOneTurn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1, Fair: true})
	insert(t, store, ofKey("a", 100)...)
	insert(t, store, ofKey("b", 100)...)
	owned := own(t, store, 2)
	if len(owned) != 2 || owned[0].ID[0] == owned[1].ID[0] {
		t.Fatalf("OwnTasks gave %q, want one of each key", idsOf(owned))
	}
	slices.SortFunc(owned, func(a, b stint.OwnedTask) int { return cmp.Compare(a.ID, b.ID) })
	own(t, store, 1) // none: both keys are held
	complete(t, store, owned[1])
	exec(t, pool, "UPDATE stint.turns SET pass = pass + 1000000000 WHERE limit_key = 'b'")
	complete(t, store, owned[0])
	for range 70 {
		next := own(t, store, 1)
		if next[0].ID[0] == 'b' {
			return
		}
		complete(t, store, next...)
	}
	t.Error("b has had no turn among 70 tasks")
}

// While no task has to wait for its turn, none is parked, no turns are dealt, and a return tells
// nobody of it. Once some have to, they take turns.
// Proves L5.
func TestFair_CostsNothingWhereNobodyWaits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	limited, pool := newLimitedStore(t, stint.Limits{Fair: true, Concurrency: 20})
	h := newHeardStoreOn(t, pool, stint.Options{})
	dealt := func() int { return h.spy.count("queue_turns") + h.spy.count("deal_turns") }
	own(t, h.Store, 1) // learns of the limits
	before, parked := dealt(), "SELECT count(*) FROM stint.turns"
	for i := range 3 {
		insert(t, limited, keyed(numbered(fmt.Sprint("a", i), 2), "a")...)
		insert(t, limited, keyed(numbered(fmt.Sprint("b", i), 2), "b")...)
		owned := own(t, h.Store, 4)
		if len(owned) != 4 || len(own(t, h.Store, 4)) != 0 {
			t.Fatalf("%d tasks were fetched, want four and no more", len(owned))
		}
	}
	if n := dealt() - before; n > 0 {
		t.Errorf("turns were dealt %d times", n)
	}
	insert(t, limited, keyed(numbered("c", 10), "a")...)
	insert(t, limited, keyed(numbered("d", 10), "b")...)
	count := map[string]int{}
	for range 2 { // as many as may be in progress
		for _, task := range own(t, h.Store, 4) {
			count[task.Key]++
		}
	}
	if got := len(own(t, h.Store, 4)); got > 0 {
		t.Errorf("%d tasks too many are in progress", got)
	}
	if count["a"] != 4 || count["b"] != 4 || dealt() == before {
		t.Errorf("the keys get %v, want four each", count)
	}
	if n := yields[int](t, pool, parked); n != 2 {
		t.Errorf("%d keys wait for their turns, want two", n)
	}
}

// Of a key whose tasks wait already, no other task is fetched ahead of them.
// Proves L5.
func TestFair_NoTaskOvertakesThoseThatWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Fair: true})
	insert(t, store, keyed(numbered("a", 3), "a")...)
	wantFetch(t, store, 1, "a000000") // the others wait
	insert(t, store, withKey("a", "late")...)
	wantFetch(t, store, 10, "a000001", "a000002", "late")
}

// Where limits are rates or turns alone, the end of a task makes no room for which others wait.
func TestReturnTasks_TellsNobodyOfRoomThatItDoesNotMake(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, c := range map[string]struct {
		limits stint.Limits
		tells  bool
	}{
		"fair":        {stint.Limits{Fair: true}, false},
		"rate":        {stint.Limits{Rate: stint.Rate{Tasks: 1000, Per: time.Second}}, false},
		"concurrency": {stint.Limits{Concurrency: 10}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeardStore(t, stint.Options{})
			addListener(t, h) // else the server sends nothing
			wantErr(t, "SetLimits", h.SetLimits(t.Context(), "act", c.limits), nil)
			insert(t, h.Store, after("a"))
			owned := own(t, h.Store, 1)
			h.notified(t)
			conn, err := h.pool.Acquire(t.Context())
			wantErr(t, "Acquire", err, nil)
			defer conn.Release()
			_, err = conn.Exec(t.Context(), "LISTEN stint")
			wantErr(t, "LISTEN", err, nil)
			returnWith(t, h.Store, owned[0], stint.Return{Code: stint.StatusCompleted})
			h.notified(t) // what was told before is heard before
			told, last := false, ""
			for !strings.HasPrefix(last, "finished ") {
				heard, err := conn.Conn().WaitForNotification(t.Context())
				wantErr(t, "WaitForNotification", err, nil)
				last = heard.Payload
				told = told || last == "ready act"
			}
			if told != c.tells {
				t.Errorf("the return tells those who wait: %t, want %t", told, c.tells)
			}
		})
	}
}
