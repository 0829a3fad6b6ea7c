package taskstore_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
)

// When the reserved IDs are used up, more are reserved, and none is left out.
func TestIDs_GoOnBehindWhatWasReserved(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStore(t)
	last := add(t, store, "g", "a")[0].ID
	exec(t, pool, "UPDATE stint.taskstore_reserved SET upto = $1", last+2)
	tasks := add(t, store, "g", "b", "c", "d") // one too many
	if want := []int64{last + 3, last + 4, last + 5}; !slices.Equal(idsOf(tasks), want) {
		t.Errorf("the IDs are %v, want %v", idsOf(tasks), want)
	}
	if next := nextID(t, store); next <= tasks[2].ID {
		t.Errorf("the next ID is %d, want more than %d", next, tasks[2].ID)
	}
	// The same of a claim, which finds the IDs used up to the last.
	exec(t, pool, "UPDATE stint.taskstore_reserved SET upto = $1", tasks[2].ID+1)
	task := mustClaim(t, store, ann, "g")
	if task.ID <= tasks[2].ID+1 {
		t.Errorf("the ID is %d, want more than %d", task.ID, tasks[2].ID+1)
	}
	if upto := yields[int64](t, pool, "SELECT upto FROM stint.taskstore_reserved"); upto < task.ID {
		t.Errorf("a claim has given out the ID %d, reserved are those up to %d", task.ID, upto)
	}
	wantCount(t, store, "g", 5)
}

// nextID adds a task and returns its ID.
func nextID(t *testing.T, store *taskstore.Store) int64 {
	t.Helper()
	return add(t, store, "g", "")[0].ID
}

func wantCount(t *testing.T, store *taskstore.Store, group string, want int) {
	t.Helper()
	tasks, err := store.Group(t.Context(), group, 0, true)
	if err != nil || len(tasks) != want {
		t.Errorf("group %q has %d tasks, %v, want %d", group, len(tasks), err, want)
	}
}

// A crash of the server sets the sequence back, as RESTART does. No ID comes again, not even one
// that the crash has made forgotten.
// Proves G130.
func TestIDs_AreNotUsedAgainWhenTheSequenceIsSetBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStore(t)
	for _, change := range []func() int64{
		func() int64 { return nextID(t, store) },
		func() int64 { return mustClaim(t, store, ann, "g").ID },
	} {
		last := nextID(t, store)
		upto := yields[int64](t, pool, "SELECT upto FROM stint.taskstore_reserved")
		exec(t, pool, "ALTER SEQUENCE stint.taskstore_ids RESTART")
		if got := change(); got <= last || got != upto+1 {
			t.Errorf("the ID is %d, want %d, behind what was reserved", got, upto+1)
		}
	}
}

// Callers who find the IDs used up at the same time do not get the same ones.
// Proves G130.
func TestIDs_AreDifferentWhoeverReservesThem(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStore(t)
	const callers = 8
	rounds := testrun.Rounds(50)
	var all []int64
	for round := range rounds {
		if round%2 == 0 {
			exec(t, pool, "ALTER SEQUENCE stint.taskstore_ids RESTART")
		} else {
			exec(t, pool, `UPDATE stint.taskstore_reserved
				SET upto = (SELECT last_value + 5 FROM stint.taskstore_ids)`)
		}
		ids := make([][]int64, callers)
		var wait sync.WaitGroup
		for caller := range callers {
			wait.Go(func() {
				for range 3 {
					tasks, err := store.Update(t.Context(), taskstore.Request{
						Client: ann, Adds: slices.Repeat([]taskstore.Add{{Group: "g"}}, 3),
					})
					if err != nil {
						t.Errorf("Update = %v", err)
						return
					}
					ids[caller] = append(ids[caller], idsOf(tasks)...)
				}
				if !slices.IsSorted(ids[caller]) {
					t.Errorf("the IDs of a caller are %v, want them to grow", ids[caller])
				}
			})
		}
		wait.Wait()
		now := slices.Concat(ids...)
		slices.Sort(now)
		if len(all) > 0 && now[0] <= all[len(all)-1] {
			t.Errorf("round %d begins with the ID %d, the last was %d",
				round, now[0], all[len(all)-1])
		}
		all = append(all, now...)
	}
	if n := len(slices.Compact(all)); n != rounds*callers*9 {
		t.Errorf("%d different IDs, want %d", n, rounds*callers*9)
	}
}
