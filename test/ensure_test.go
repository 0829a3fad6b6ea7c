package stint_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// ensure ensures tasks, and checks which are there already.
func ensure(t *testing.T, store *stint.Store, tasks []stint.Task, existing ...stint.TaskID) {
	t.Helper()
	got, err := store.EnsureTasks(t.Context(), tasks)
	if err != nil || !slices.Equal(got, existing) {
		t.Fatalf("EnsureTasks = %q, %v, want %q", got, err, existing)
	}
}

// ensuredWith are tasks that make a call take each of its ways: one task shares a statement with
// those of other callers, few go in one statement, and many, or any that are linked, are copied.
func ensuredWith(name string) map[string][]stint.Task {
	id := func(more string) stint.TaskID { return stint.TaskID(name + more) }
	return map[string][]stint.Task{
		"alone":     nil,
		"few":       numbered(name+"few", 3),
		"many":      numbered(name+"many", 100),
		"linked":    {after(id("1")), after(id("2"), id("1"))},
		"scheduled": {{ID: id("later"), Action: "act", NotBefore: time.Now().Add(time.Hour)}},
	}
}

// A batch of which some are there, and in which one comes twice, adds the others, and says which it
// has left out: those stay as they are, however the new ones differ, in whichever state.
// Proves R1.
func TestEnsureTasks_AddsWhatIsMissingAndNamesTheRest(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	owned := oneInEachState(t, store)
	there := []stint.TaskID{
		"done000000", "done000001", owned.ID, "ready", "scheduled", "span000500",
	}
	for name, more := range ensuredWith("more") {
		for _, id := range there {
			was := info(t, store, id)
			same := stint.Task{
				ID: id, Action: "other", Body: []byte("other"), Priority: 7, Key: "k",
			}
			ensure(t, store, append(slices.Clone(more), same), id)
			if got := info(t, store, id); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", was) {
				t.Errorf("%s: %q was\n%+v, is\n%+v", name, id, was, got)
			}
			if len(more) > 0 {
				ensure(t, store, more, named(more)...)
				wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), named(more))), nil)
			}
		}
	}
	twice := append(numbered("new", 2), numbered("new", 3)...)
	twice[0].Body, twice[2].Body = []byte("first"), []byte("second")
	twice = append(twice, stint.Task{ID: "ready", Action: "act"})
	ensure(t, store, twice, "new000000", "new000001", "ready")
	if got := info(t, store, "new000000").Body; string(got) != "first" {
		t.Errorf("of two tasks with an ID, the one with body %q was added", got)
	}
	ensure(t, store, nil)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.tasks WHERE action = 'other'"); n > 0 {
		t.Errorf("%d tasks were changed", n)
	}
}

// Proves G1, G3, R1.
func TestEnsureTasks_AddsWhatInsertTasksAdds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("stored"))
	start := time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)
	full := func(name string) stint.Task {
		return stint.Task{
			ID: stint.TaskID(name), Action: "act", Key: "k", Body: []byte("\x00\xff"), Priority: -7,
			MaxTries: 3, Deadline: start.Add(time.Hour), PostResult: true,
			OnAbort: stint.RunAnyway, Headers: map[string]string{"trace": "x"},
		}
	}
	for name, change := range map[string]func(*stint.Task){
		"plain":     func(*stint.Task) {},
		"scheduled": func(task *stint.Task) { task.NotBefore = start },
		"waiting":   func(task *stint.Task) { task.After = []stint.TaskID{"stored"} },
		"external":  func(task *stint.Task) { task.Action = stint.External },
		"fail fast": func(task *stint.Task) {
			task.FailFast, task.After = true, []stint.TaskID{"stored"}
		},
		"answer key": func(task *stint.Task) {
			task.Action = stint.External
			task.AnswerKey = stint.AnswerKey(strings.Repeat("k", 16))
		},
		"join":       func(task *stint.Task) { *task = join(task.ID, "stored") },
		"empty join": func(task *stint.Task) { *task = join(task.ID) },
	} {
		for way, more := range ensuredWith(name) {
			inserted, ensured := full("insert "+name+way), full("ensure "+name+way)
			change(&inserted)
			change(&ensured)
			insert(t, store, inserted)
			ensure(t, store, append(more, ensured))
			want, got := info(t, store, inserted.ID), info(t, store, ensured.ID)
			for _, of := range []*stint.TaskInfo{&want, &got} {
				of.ID, of.InsertedAt, of.FinishedAt = "", time.Time{}, time.Time{}
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("%s, %s:\ngot  %+v\nwant %+v", name, way, got, want)
			}
		}
	}
	random := []stint.Task{{Action: "act"}, {Action: "act"}}
	ensure(t, store, random)
	ensure(t, store, random, random[0].ID, random[1].ID) // a repetition
}

// The tasks of a call are fetched in its order, in whichever order they were written.
func TestEnsureTasks_KeepsTheOrderOfTheCall(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, n := range []int{20, 200} {
		store := newStore(t)
		tasks := numbered("t", n)
		insert(t, store, tasks[n/2])
		slices.Reverse(tasks)
		ensure(t, store, tasks, tasks[n/2-1].ID)
		want := slices.DeleteFunc(named(tasks), func(id stint.TaskID) bool {
			return id == tasks[n/2-1].ID
		})
		want = append([]stint.TaskID{tasks[n/2-1].ID}, want...) // the oldest
		var got []stint.TaskID
		for len(got) < n {
			owned := own(t, store, 20)
			got = append(got, idsOf(owned)...)
			complete(t, store, owned...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d tasks came as %q", n, got)
		}
	}
}

// An ID is free again when its task is gone, whoever has removed it.
// Proves R1.
func TestEnsureTasks_AddsWhatHasBeenPruned(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone},
	})
	tasks := numbered("t", 2)
	ensure(t, store, tasks)
	complete(t, store, ownOne(t, store))
	wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), named(tasks[1:]))), nil)
	ensure(t, store, tasks)
	ensure(t, store, tasks, named(tasks)...)
}

// ensuredBesideOne are calls of EnsureTasks beside the task "there", and what they lead to.
var ensuredBesideOne = map[string]struct {
	code  stint.StatusCode // of "there", which has ended before, unless it is pending
	tasks []stint.Task
	want  string
}{
	"a predecessor that waits": {
		stint.StatusPending,
		[]stint.Task{after("there"), after("new", "there")},
		"new blocked, there ready",
	},
	"named by it": {
		stint.StatusPending, []stint.Task{
			{ID: "there", Action: "act", ToSignalAfter: []stint.TaskID{"new"}}, after("new"),
		}, "new blocked, there ready",
	},
	"by both": {
		stint.StatusPending, []stint.Task{
			{ID: "there", Action: "act", ToSignalAfter: []stint.TaskID{"new"}},
			after("new", "there"),
		}, "new blocked, there ready",
	},
	"a predecessor that has completed": {
		stint.StatusCompleted,
		[]stint.Task{after("there"), after("new", "there")},
		"new ready, there completed try 1",
	},
	"a predecessor that was aborted": {
		stint.StatusAborted,
		[]stint.Task{after("there"), after("new", "there")},
		`new aborted/dependency, there aborted/returned try 1`,
	},
	"and the new one runs anyway": {
		stint.StatusAborted,
		[]stint.Task{after("there"), anyway("new", "there")},
		`new ready, there aborted/returned try 1`,
	},
	"a dependent": {
		stint.StatusPending,
		[]stint.Task{after("new"), after("there", "new")},
		"new ready, there blocked",
	},
	"a dependent, named by the new one": {
		stint.StatusPending, []stint.Task{
			{ID: "new", Action: "act", ToSignalAfter: []stint.TaskID{"there"}}, after("there"),
		}, "new ready, there blocked",
	},
	"a join between both": {
		stint.StatusCompleted, []stint.Task{
			after("there"), join("join", "there", "new"), after("new"), after("last", "join"),
		}, "join blocked as stint.Spontaneous, last blocked, new ready, there completed try 1",
	},
	"one that comes twice": {
		stint.StatusPending,
		[]stint.Task{after("new"), after("first"), after("new", "there", "first")},
		"first ready, new ready, there ready",
	},
}

// A dependency of which one end is left out leads to the task that is there, whichever end names
// it.
// Proves R1, R2, R3.
func TestEnsureTasks_LeadsDependenciesToWhatIsThere(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	for name, c := range ensuredBesideOne {
		for _, more := range []int{0, 100} {
			insert(t, store, after("there"))
			if c.code != stint.StatusPending {
				finish(t, store, "there", c.code)
			}
			existing, err := store.EnsureTasks(t.Context(), append(numbered("~", more), c.tasks...))
			if err != nil || !slices.Contains(existing, "there") &&
				!slices.Contains(existing, "new") {
				t.Fatalf("%s: EnsureTasks = %q, %v", name, existing, err)
			}
			if got := describeAll(t, store); got != c.want {
				t.Errorf("%s, with %d more:\ngot  %s\nwant %s", name, more, got, c.want)
			}
			deleteChecked(t, store)
		}
	}
}

// describeAll describes all tasks but those whose IDs begin with ~.
func describeAll(t *testing.T, store *stint.Store) string {
	t.Helper()
	var all []string
	for _, task := range listAll(t, store) {
		if task.ID[0] != '~' {
			all = append(all, describe(task))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// listAll lists up to a thousand tasks.
func listAll(t *testing.T, store *stint.Store) []stint.TaskInfo {
	t.Helper()
	list, err := listTasks(t.Context(), store, stint.Filter{Limit: 1000})
	wantErr(t, "ListTasks", err, nil)
	return list
}

// What InsertTasks refuses of a dependency on a stored task is refused, and nothing is added.
// Proves G1, R1, R3, R4.
func TestEnsureTasks_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("done"))
	finish(t, store, "done", stint.StatusCompleted)
	insert(t, store, after("owned"))
	own(t, store, 1)
	insert(t, store, after("a"), after("b", "a"))
	for name, c := range map[string]struct {
		tasks []stint.Task
		want  error
		about []stint.TaskID
	}{
		"dependents that have started": {
			[]stint.Task{after("new"), after("done", "new"), after("owned", "new")},
			stint.ErrTaskStarted,
			[]stint.TaskID{"done", "owned"},
		},
		"no such predecessor": {
			[]stint.Task{after("a"), after("new", "none")},
			stint.ErrTaskNotFound,
			[]stint.TaskID{"none"},
		},
		"a cycle through what is there": {
			[]stint.Task{after("a", "new"), after("new", "b")}, stint.ErrCycle, nil,
		},
		"a cycle through new ones": {
			[]stint.Task{after("a"), after("m", "n"), after("n", "m")}, stint.ErrCycle, nil,
		},
		"a task for itself": {[]stint.Task{after("new", "new")}, stint.ErrCycle, nil},
		"no action, of one that is there": {
			[]stint.Task{after("new"), {ID: "a"}}, stint.ErrInvalidArgument, nil,
		},
	} {
		for _, more := range []int{0, 100} {
			tasks := append(numbered("more", more), c.tasks...)
			existing, err := store.EnsureTasks(t.Context(), tasks)
			if !errors.Is(err, c.want) || existing != nil {
				t.Errorf("%s: EnsureTasks = %q, %v, want %v", name, existing, err, c.want)
			}
			if c.about != nil {
				wantTasks(t, name, err, c.want, c.about...)
			}
		}
	}
	if list := listAll(t, store); len(list) != 4 {
		t.Errorf("there are %d tasks, want those 4 of before", len(list))
	}
}

// A network may be ensured again whatever has become of it: between tasks that are there nothing
// changes.
// Proves R1.
func TestEnsureTasks_LeavesANetworkThatIsThereAlone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	network := func() []stint.Task {
		return []stint.Task{after("a"), after("b", "a"), anyway("c", "b"), join("end", "b", "c")}
	}
	ensure(t, store, network())
	edges := "SELECT count(*) FROM stint.edges"
	for range 4 {
		was := yields[int](t, pool, edges)
		ensure(t, store, network(), "a", "b", "c", "end")
		// Neither predecessors that are nowhere, nor cycles, are looked at.
		odd := network()
		odd[0].After, odd[0].ToSignalAfter = []stint.TaskID{"end", "none"}, []stint.TaskID{"c"}
		ensure(t, store, odd, "a", "b", "c", "end")
		if is := yields[int](t, pool, edges); is != was {
			t.Errorf("there are %d dependencies, want %d", is, was)
		}
		complete(t, store, own(t, store, 1)...)
	}
	wantState(t, store, stint.StateCompleted, "a", "b", "c", "end")
}

// Whoever ensures what somebody's transaction has just inserted waits for it, and then leaves it
// out, or adds it if it has come to nothing.
// Proves G229.
func TestEnsureTasks_WaitsForWhoeverInsertsTheSame(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	for _, commits := range []bool{true, false} {
		for name, more := range ensuredWith("more") {
			taken := stint.TaskID(fmt.Sprint(name, commits))
			tasks := append(more, after(taken))
			tx := begin(t, pool)
			insert(t, store.WithTx(tx), after(taken))
			waits := start(func() ([]stint.TaskID, error) {
				return store.EnsureTasks(t.Context(), tasks)
			})
			waitForLocks(t, pool, 1)
			wantGoingOn(t, "EnsureTasks", waits)
			end, want := tx.Rollback, []stint.TaskID(nil)
			if commits {
				end, want = tx.Commit, []stint.TaskID{taken}
			}
			wantErr(t, "the end of the transaction", end(t.Context()), nil)
			existing, err := ends(t, "EnsureTasks", waits)
			if err != nil || !slices.Equal(existing, want) {
				t.Errorf("%s: EnsureTasks = %q, %v, want %q", name, existing, err, want)
			}
			wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), named(tasks))), nil)
		}
	}
}

// Callers who ensure tasks of which they share some, in whatever orders, add each task once, all
// learn the truth, and none waits for the others in a circle, also in transactions of their own.
// Proves G229, R1.
func TestEnsureTasks_AtOnceAddsEachTaskOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	other := openStore(t, pool, stint.Options{})
	for round := range testrun.Rounds(50) {
		prefix := fmt.Sprint("r", round, "/")
		id := func(i int) stint.TaskID { return stint.TaskID(fmt.Sprint(prefix, i)) }
		const callers, span = 24, 150
		var group sync.WaitGroup
		var mutex sync.Mutex
		added := map[stint.TaskID]int{}
		for n := range callers {
			group.Go(func() {
				var tasks []stint.Task
				from, size := n*10, []int{span, 30, span, 1}[n%4]
				for i := range size {
					task := after(id(from + i))
					task.Priority = int16(i % 3)
					if n%4 == 2 && i > 0 && i%5 == 0 { // those with less wait for those with more
						task.ToSignalAfter = []stint.TaskID{id(from + i - 1)}
					}
					tasks = append(tasks, task)
				}
				if n%2 == 1 {
					slices.Reverse(tasks)
				}
				by := []*stint.Store{store, other}[n/4%2]
				var existing []stint.TaskID
				ensure := func(by *stint.Store) (err error) {
					existing, err = by.EnsureTasks(t.Context(), tasks)
					return err
				}
				var err error
				if n%3 == 0 {
					err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
						return ensure(by.WithTx(tx))
					})
				} else {
					err = ensure(by)
				}
				if err != nil {
					t.Errorf("EnsureTasks = %v", err)
				}
				mutex.Lock()
				defer mutex.Unlock()
				for _, task := range tasks {
					if !slices.Contains(existing, task.ID) {
						added[task.ID]++
					}
				}
			})
		}
		group.Wait()
		there := yields[int](t, pool, "SELECT count(*) FROM stint.tasks WHERE starts_with(id, $1)",
			prefix)
		if there != len(added) {
			t.Errorf("%d tasks are said to have been added, %d are there", len(added), there)
		}
		for id, n := range added {
			if n != 1 {
				t.Errorf("%q is said to have been added %d times", id, n)
			}
		}
	}
	wantNoDeadlocks(t, pool)
}

// A task that is left out, and gone before the dependencies on it are added, is added after all.
// Proves G229.
func TestEnsureTasks_AddsATaskThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("there"))
	tx := begin(t, pool)
	wantErr(t, "DeleteTasks",
		errOf(store.WithTx(tx).DeleteTasks(t.Context(), []stint.TaskID{"there"})), nil)
	waits := start(func() ([]stint.TaskID, error) {
		return store.EnsureTasks(t.Context(), []stint.Task{after("there"), after("new", "there")})
	})
	waitForLocks(t, pool, 1)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	existing, err := ends(t, "EnsureTasks", waits)
	if err != nil || existing != nil {
		t.Errorf("EnsureTasks = %q, %v, want all added", existing, err)
	}
	wantState(t, store, stint.StateReady, "there")
	wantState(t, store, stint.StateBlocked, "new")
}

// In a transaction, the tasks are there with its rows or not at all, and a refused call leaves it
// usable. It sees what it has inserted itself.
// Proves G76, R1, R21.
func TestEnsureTasks_TakesPartInATransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	for _, more := range ensuredWith("more") {
		tasks := append(more, after("task"))
		for _, keep := range []bool{false, true} {
			undo := errors.New("undo")
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				inside := store.WithTx(tx)
				_, err := inside.EnsureTasks(t.Context(), []stint.Task{{ID: "a"}})
				wantErr(t, "EnsureTasks", err, stint.ErrInvalidArgument)
				_, err = inside.EnsureTasks(t.Context(), []stint.Task{after("x", "none")})
				wantErr(t, "EnsureTasks", err, stint.ErrTaskNotFound)
				ensure(t, inside, tasks)
				ensure(t, inside, tasks, named(tasks)...)
				if keep {
					return nil
				}
				return undo
			})
			if !keep {
				wantErr(t, "BeginFunc", err, undo)
				continue
			}
			wantErr(t, "BeginFunc", err, nil)
			ensure(t, store, tasks, named(tasks)...)
			wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), named(tasks))), nil)
		}
	}
}

// Debounce and EnsureTasks share the IDs, and not each other's tasks.
func TestEnsureTasks_LeavesDebouncedTasksAlone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	debounced := func() {
		t.Helper()
		err := store.Debounce(t.Context(), after("a"), time.Hour, 2*time.Hour)
		wantErr(t, "Debounce", err, nil)
	}
	debounced()
	ensure(t, store, []stint.Task{after("a")}, "a")
	wantState(t, store, stint.StateScheduled, "a")
	ensure(t, store, []stint.Task{after("b")})
	own(t, store, 1)
	err := store.Debounce(t.Context(), after("b"), time.Hour, 2*time.Hour)
	wantErr(t, "Debounce", err, nil)
	ensure(t, store, []stint.Task{after("b"), after("b+"), after("c", "b+")}, "b", "b+")
	wantState(t, store, stint.StateBlocked, "b+", "c")
}

// Those who wait are woken by what is added.
func TestEnsureTasks_WakesWhoeverWaits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{})
	there := stint.Task{ID: "there", Action: "other"}
	insert(t, h.Store, there)
	for name, more := range ensuredWith("more") {
		for i := range more {
			more[i].Action = "other"
		}
		awaiting := h.await(t.Context(), t, 1)
		wanted := stint.TaskID("woken " + name)
		ensure(t, h.Store, append(more, after(wanted), there), "there")
		wantOwned(t, awaiting, wanted)
	}
}

// Single tasks that many callers ensure at once share statements; each task is added for one
// caller, and there for all others. Proves G229.
func TestEnsureTasks_TogetherTellsEachCallerWhatBecameOfItsTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const callers, ids = 50, 20
	store, pool := newStoreAndPool(t, stint.Options{})
	var added [ids]atomic.Int32
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() {
			for i := range ids {
				i = (i + n) % ids
				id := stint.TaskID(fmt.Sprint("t", i))
				existing, err := store.EnsureTasks(t.Context(), []stint.Task{after(id)})
				if err != nil || len(existing) > 0 && existing[0] != id {
					t.Errorf("EnsureTasks(%q) = %q, %v", id, existing, err)
				}
				added[i].Add(1 - int32(len(existing)))
			}
		})
	}
	group.Wait()
	for i := range added {
		if n := added[i].Load(); n != 1 {
			t.Errorf("%d is said to have been added %d times", i, n)
		}
	}
	if owned := own(t, store, 2*ids); len(owned) != ids {
		t.Errorf("%d can be owned, want %d", len(owned), ids)
	}
	wantNoDeadlocks(t, pool)
}
