package taskstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
)

func TestClaim_GivesATaskANewIDAndAnOwner(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	old := add(t, store, "g", "a")[0]
	before := now(t, pool)
	task, found, err := store.Claim(t.Context(), taskstore.Claim{
		Client: bob, Group: "g", Duration: time.Minute + time.Microsecond,
	})
	after := now(t, pool)
	if err != nil || !found || task.ID <= old.ID || string(task.Data) != "a" ||
		task.Group != "g" || task.Owner != bob || task.TimeSpec < before+60_000 ||
		task.TimeSpec > after+60_000 {
		t.Errorf("Claim = %+v, %t, %v", task, found, err)
	}
	if _, found, err := store.Get(t.Context(), old.ID); found || err != nil {
		t.Errorf("the old task is there: %t, %v", found, err)
	}
	wantData(t, store, "g", "a")
	if _, found := claim(t, store, ann, "g"); found {
		t.Error("a task that is owned was claimed")
	}
	update(t, store, taskstore.Request{Client: bob, Deletes: []int64{task.ID}})
	wantData(t, store, "g")
}

func TestClaim_FindsNothingInAGroupWithoutTasks(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	add(t, store, "other", "a")
	if task, found := claim(t, store, ann, "g"); found || task.ID != 0 {
		t.Errorf("Claim = %+v, %t, want nothing", task, found)
	}
}

func TestClaim_GivesNoTaskThatItDependsOn(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	only := idsOf(add(t, store, "g", "a"))
	request := taskstore.Claim{Client: ann, Group: "g", Duration: time.Hour, Depends: only}
	if task, found, err := store.Claim(t.Context(), request); found || err != nil {
		t.Errorf("Claim = %+v, %t, %v, want nothing", task, found, err)
	}
	other := add(t, store, "g", "b")[0]
	if task, found, err := store.Claim(t.Context(), request); !found || err != nil ||
		string(task.Data) != "b" || task.ID == other.ID {
		t.Errorf("Claim = %+v, %t, %v, want the other task", task, found, err)
	}
}

// A worker that was too slow finds that another has its task.
// Proves G126.
func TestClaim_GivesAnExpiredTaskToAnother(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	add(t, store, "g", "a")
	slow := mustClaim(t, store, ann, "g")
	expire(t, pool)
	task := mustClaim(t, store, bob, "g")
	_, err := store.Update(t.Context(), taskstore.Request{
		Client: ann, Adds: []taskstore.Add{{Group: "done"}}, Deletes: []int64{slow.ID},
	})
	wantConflict(t, err, taskstore.ConflictError{Deletes: []int64{slow.ID}})
	update(t, store, taskstore.Request{
		Client: bob, Adds: []taskstore.Add{{Group: "done"}}, Deletes: []int64{task.ID},
	})
	wantData(t, store, "g")
	wantData(t, store, "done", "")
}

// Proves G129.
func TestClaim_NeedsTheTasksThatItDependsOn(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	tasks := add(t, store, "g", "a", "b")
	needed := add(t, store, "other", "x", "y", "z")
	update(t, store, taskstore.Request{Client: ann, Deletes: idsOf(needed[1:])})
	attempt := func(depends ...int64) (taskstore.Task, bool, error) {
		return store.Claim(t.Context(), taskstore.Claim{
			Client: ann, Group: "g", Duration: time.Hour, Depends: depends,
		})
	}
	_, found, err := attempt(needed[2].ID, needed[0].ID, needed[1].ID, needed[2].ID)
	wantConflict(t, err, taskstore.ConflictError{Depends: idsOf(needed[1:])})
	if found {
		t.Error("a task was claimed all the same")
	}
	wantData(t, store, "g", "a", "b")
	wantErr(t, "Update", errOf(store.Tasks(t.Context(), idsOf(tasks))), nil)

	// What the claim depends on is not claimed itself.
	task, found, err := attempt(needed[0].ID, tasks[0].ID)
	if err != nil || !found || string(task.Data) != "b" {
		t.Errorf("Claim = %+v, %t, %v, want b", task, found, err)
	}
	if _, found, err = attempt(tasks[0].ID); err != nil || found {
		t.Errorf("Claim = %t, %v, want nothing", found, err)
	}
}

func TestClaim_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	good := taskstore.Claim{Client: ann, Group: "g", Duration: time.Hour}
	for part, change := range map[string]func(*taskstore.Claim){
		"clientid: ": func(c *taskstore.Claim) { c.Client = 0 },
		"group: ":    func(c *taskstore.Claim) { c.Group = "" },
		"duration: must be a millisecond": func(c *taskstore.Claim) {
			c.Duration = time.Millisecond - 1
		},
		"duration: must not exceed": func(c *taskstore.Claim) {
			c.Duration = 10*365*24*time.Hour + 1
		},
		"depends at index 1": func(c *taskstore.Claim) { c.Depends = []int64{1, 0} },
		"depends: ":          func(c *taskstore.Claim) { c.Depends = make([]int64, 10_001) },
	} {
		bad := good
		change(&bad)
		_, _, err := store.Claim(t.Context(), bad)
		if !errors.Is(err, stint.ErrInvalidArgument) || !strings.Contains(err.Error(), part) {
			t.Errorf("Claim = %v, want an invalid argument with %q", err, part)
		}
	}
}

// A claim does not wait for tasks that others are changing.
// Proves G127.
func TestClaim_PassesOverWhatOthersHold(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	tasks := add(t, store, "g", texts(100)...)
	tx := begin(t, pool)
	_, err := tx.Exec(t.Context(),
		"SELECT FROM stint.taskstore_tasks WHERE id <> $1 FOR UPDATE", tasks[50].ID)
	wantErr(t, "lock", err, nil)
	if task := mustClaim(t, store, ann, "g"); string(task.Data) != "50" {
		t.Errorf("Claim = %q, want the one task that nobody holds", task.Data)
	}
	if _, found := claim(t, store, ann, "g"); found {
		t.Error("a task that somebody holds was claimed")
	}
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	mustClaim(t, store, ann, "g")
}

// Proves G127.
func TestClaim_GivesEachTaskToOneOfManyCallers(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	const callers = 8
	n := testrun.Rounds(2000)
	add(t, store, "g", texts(n)...)
	claimed := make([][]string, callers)
	var wait sync.WaitGroup
	for caller := range callers {
		wait.Go(func() {
			for {
				task, found, err := store.Claim(t.Context(), taskstore.Claim{
					Client: int64(caller + 1), Group: "g", Duration: time.Hour,
				})
				if err != nil {
					t.Errorf("Claim = %v", err)
				}
				if err != nil || !found {
					return
				}
				claimed[caller] = append(claimed[caller], string(task.Data))
			}
		})
	}
	wait.Wait()
	got, want := slices.Concat(claimed...), texts(n)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d tasks were claimed, %d of them different, want %d",
			len(got), len(slices.Compact(got)), n)
	}
}

// Wherever a claim begins, it finds the one task of a group.
// Proves G133.
func TestClaim_GoesThroughAllPlaces(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	const places = 64
	add(t, store, "g", texts(places)...)
	exec(t, pool, "UPDATE stint.taskstore_tasks SET place = convert_from(data, 'UTF8')::smallint")
	var got []string
	for range places {
		got = append(got, string(mustClaim(t, store, ann, "g").Data))
	}
	if _, found := claim(t, store, ann, "g"); found {
		t.Error("a task was claimed twice")
	}
	if slices.IsSortedFunc(got, compareNumbers) {
		t.Errorf("the tasks came in the order of their places")
	}
	slices.SortFunc(got, compareNumbers)
	if !slices.Equal(got, texts(places)) {
		t.Errorf("the claimed tasks are %q", got)
	}
}

func compareNumbers(a, b string) int {
	var one, other int
	_, _ = fmt.Sscan(a, &one)
	_, _ = fmt.Sscan(b, &other)
	return one - other
}

// Each of a few tasks may be the next, the newest and the oldest, at any place.
// Proves G133.
func TestClaim_IsRandom(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStore(t)
	for _, crowd := range []bool{false, true} {
		first := map[string]int{}
		const tasks, rounds = 5, 250 // that one is never first: 5 × 0.8^250, or 1 in 10^23
		for round := range rounds {
			group := fmt.Sprintf("%t/%d", crowd, round)
			for _, text := range texts(tasks) {
				add(t, store, group, text)
			}
			if crowd { // all at one place
				exec(t, pool, "UPDATE stint.taskstore_tasks SET place = 7")
			}
			first[string(mustClaim(t, store, ann, group).Data)]++
		}
		for _, text := range texts(tasks) {
			if first[text] == 0 {
				t.Errorf("at one place: %t: task %s was never the first of %d: %v",
					crowd, text, tasks, first)
			}
		}
	}
}

// A claim that is cut off may be made again. What the first one has claimed comes back.
func TestClaim_RepeatedAfterACutClaimsAnother(t *testing.T) {
	t.Parallel()
	truth, pool := newStore(t)
	proxy := pgcut.New(t, pool)
	store := openStore(t, proxy.Pool(t, 1), taskstore.Options{})
	add(t, truth, "g", "a", "b")
	request := taskstore.Claim{Client: ann, Group: "g", Duration: time.Hour}
	for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		trap := proxy.Cut(at, pgcut.Executes("claim"))
		if _, _, err := store.Claim(t.Context(), request); err == nil || !trap.Sprung() {
			t.Fatalf("Claim that was cut = %v, cut: %t", err, trap.Sprung())
		}
	}
	mustClaim(t, store, ann, "g")
	if _, found := claim(t, store, ann, "g"); found {
		t.Error("a task was claimed twice")
	}
	expire(t, pool)
	mustClaim(t, store, ann, "g")
	mustClaim(t, store, ann, "g")
}
