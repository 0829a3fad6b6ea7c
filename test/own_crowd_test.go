package stint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// crowdedKeys are more keys than a call parks tasks of.
const crowdedKeys = 3000

// A task whose key has room is fetched by the first call, however many tasks are ahead of it
// whose keys have none, and before all of these are parked, which later calls do, in pieces.
// Proves L4.
func TestOwnTasks_HandsOutBehindManyFullKeys(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"per key":          {ConcurrencyPerKey: 1},
		"in order":         {Ordered: true},
		"rate per key":     {RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour}},
		"with concurrency": {ConcurrencyPerKey: 1, Concurrency: 10 * crowdedKeys},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool, owned := newFullKeys(t, limits, crowdedKeys)
			insert(t, store, stint.Task{ID: "none", Action: "act"})
			other := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
			parked := func() int {
				return yields[int](t, pool, "SELECT count(*) FROM stint.ready WHERE position < 0")
			}
			wantFetch(t, store, 1, "free")
			wantFetch(t, other, 10, "none")
			if n := parked(); n == 0 || n >= crowdedKeys {
				t.Errorf("%d tasks are parked by now, of %d", n, crowdedKeys)
			}
			for calls := 0; parked() < crowdedKeys; calls++ {
				wantFetch(t, store, 10)
				if calls > 10 {
					t.Fatal("later calls do not park the others")
				}
			}
			if limits.RatePerKey != (stint.Rate{}) {
				return
			}
			// What is parked, and what is not, comes when its key has room.
			complete(t, store, owned[:10]...)
			if got := len(own(t, store, 100)); got != 10 {
				t.Errorf("after 10 returns %d tasks are fetched", got)
			}
		})
	}
}

// What is fetched behind others goes ahead of no older task of its key.
// Proves G250, L4.
func TestOwnTasks_KeepsTheOrderOfKeysBehindManyFullOnes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"per key": {ConcurrencyPerKey: 1}, "in order": {Ordered: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _, owned := newFullKeys(t, limits, crowdedKeys)
			// Later tasks of the same keys, among those whose keys have room.
			for i := range 5 {
				key := fmt.Sprintf("key%05d", crowdedKeys-1-i)
				insert(t, store, withKey(key, stint.TaskID(fmt.Sprint("later", i)))...)
				free := stint.TaskID(fmt.Sprint("free", i))
				insert(t, store, withKey(string(free), free)...)
			}
			begun := map[string]bool{} // keys
			for _, task := range own(t, store, 100) {
				begun[task.Key] = true
				if task.ID[:1] != "f" {
					t.Errorf("%s is fetched, though its key is full", task.ID)
				}
			}
			complete(t, store, owned[crowdedKeys-5:]...)
			for range 10 {
				for _, task := range own(t, store, 100) {
					if !begun[task.Key] && task.ID[:1] == "l" {
						t.Errorf("%s goes ahead of an older task of its key", task.ID)
					}
					begun[task.Key] = true
				}
			}
			if len(begun) != 11 {
				t.Errorf("tasks of %d keys were fetched, want 11: %v", len(begun), begun)
			}
		})
	}
}
