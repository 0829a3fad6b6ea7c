package stint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/structures"
)

// failFast is a task with FailFast that waits for others.
func failFast(id stint.TaskID, predecessors ...stint.TaskID) stint.Task {
	task := after(id, predecessors...)
	task.FailFast = true
	return task
}

// insertFastThree inserts "end", which waits for "bad", to be owned, and for "other".
func insertFastThree(t *testing.T, store *stint.Store) {
	t.Helper()
	insert(t, store, stint.Task{ID: "bad", Action: "act"}, stint.Task{ID: "other", Action: "other"},
		failFast("end", "bad", "other"))
}

// One of several tasks fails. What the others would have been for is aborted, so they are, too, in
// whatever state they are, and their owners are told.
// Proves G68.
func TestFailFast_AbortsWhatOnlyTheAbortedNeed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	posted := after("posted", "first")
	posted.PostResult = true
	later := stint.Task{ID: "later", Action: "later", NotBefore: time.Now().Add(time.Hour)}
	insert(t, store,
		stint.Task{ID: "bad", Action: "act", Priority: 9}, stint.Task{ID: "owned", Action: "act"},
		stint.Task{ID: "ready", Action: "other"}, later,
		stint.Task{ID: "first", Action: "other"}, after("behind", "first", "later"), posted,
		stint.Task{ID: "shared", Action: "other"}, after("else", "shared"),
		after("middle", "bad", "owned", "ready", "behind", "shared", "posted"),
		failFast("end", "middle"), anyway("report", "end"))
	owned := own(t, store, 2)
	lost, done := store.OwnershipContext(t.Context(), owned[1])
	defer done()
	returnWith(t, store, owned[0], stint.Return{Code: stint.StatusAborted, Status: "no"})
	maintain(t, store)
	wantLoss(lost, t, "owned")

	wantState(t, store, stint.StateAborted, "bad", "middle", "end", "owned", "ready", "behind",
		"later")
	wantState(t, store, stint.StateReady, "first", "shared", "report")
	wantState(t, store, stint.StateBlocked, "posted", "else")
	for _, id := range []stint.TaskID{"owned", "ready", "behind", "later"} {
		got := info(t, store, id)
		const want = `only "end" needed it, which was aborted because of "bad"`
		if got.AbortCause != stint.CauseCancelled || got.Status != want {
			t.Errorf("%s was aborted by %s: %s, want %s", id, got.AbortCause, got.Status, want)
		}
		why, err := store.Explain(t.Context(), id)
		if err != nil || !strings.HasSuffix(why.String(), "it was cancelled: "+want) {
			t.Errorf("Explain = %v, %v", why, err)
		}
	}
	verdicts, err := store.ReturnTasks(t.Context(), completed(owned[1:]))
	wantErr(t, "ReturnTasks", err, nil)
	wantTasks(t, "ReturnTasks", verdicts[0], stint.ErrInvalidToken, "owned")

	// It is looked at again, since others needed some of it, which may be aborted, too.
	spied, spy := spyOn(t, pool, 4)
	again := openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever})
	maintain(t, again)
	if n := spy.count("needed_tasks"); n != 1 {
		t.Errorf("the tasks that an aborted one needed were looked at %d times more, want 1", n)
	}
}

// A store that maintains does it at once, also if so many tasks with FailFast wait that it does not
// look at all of them each second.
func TestFailFast_FindsWhatWasAbortedLately(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insertFastThree(t, store)
	aborts("bad")(t, store)
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '1 hour'")
	wantErr(t, "FailFastLook", failFastLook(t.Context(), store), nil)
	wantState(t, store, stint.StateReady, "other")
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at + interval '1 hour'")
	wantErr(t, "FailFastLook", failFastLook(t.Context(), store), nil)
	wantState(t, store, stint.StateAborted, "other")
	spied, spy := spyOn(t, pool, 4)
	again := openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "FailFastLook", failFastLook(t.Context(), again), nil)
	spy.sees(t, "lately_failed", 1)
	if n := spy.count("needed_tasks"); n != 0 {
		t.Errorf("the tasks that an aborted one needed were looked at %d times more", n)
	}
	retry(t, store, "bad", "other")
	aborts("bad")(t, store)
	wantErr(t, "FailFastLook behind a retry", failFastLook(t.Context(), store), nil)
	wantState(t, store, stint.StateAborted, "other")
}

// Without the option the others go on.
func TestFailFast_IsOffByDefault(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, stint.Task{ID: "bad", Action: "act"}, stint.Task{ID: "other", Action: "other"},
		after("end", "bad", "other"))
	finish(t, store, "bad", stint.StatusAborted)
	maintain(t, store)
	wantState(t, store, stint.StateReady, "other")
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.fail_fast"); n != 0 {
		t.Errorf("%d tasks are noted, want none", n)
	}
}

// A task that was retried, and is aborted again, is settled again; and what is noted of a task goes
// with it.
func TestFailFast_BeginsAnewAfterARetry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, failFast("done"))
	finish(t, store, "done", stint.StatusCompleted)
	insertFastThree(t, store)
	for range 2 {
		finish(t, store, "bad", stint.StatusAborted)
		maintain(t, store)
		wantState(t, store, stint.StateAborted, "bad", "other", "end")
		retry(t, store, "bad", "other")
		wantState(t, store, stint.StateBlocked, "end")
		maintain(t, store)
		wantState(t, store, stint.StateReady, "bad", "other")
	}
	ids := []stint.TaskID{"bad", "other", "end", "done"}
	wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), ids)), nil)
	maintain(t, store)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.fail_fast"); n != 0 {
		t.Errorf("%d tasks are noted, want none", n)
	}
}

// A task that has completed, and is retried, fails fast as before.
func TestFailFast_OutlivesACompletion(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, stint.Task{ID: "bad", Action: "act"}, stint.Task{ID: "other", Action: "act"},
		failFast("end", "bad", "other"))
	for range 3 {
		complete(t, store, ownOne(t, store))
	}
	maintain(t, store)
	retry(t, store, "bad", "other", "end")
	aborts("bad")(t, store)
	maintain(t, store)
	wantState(t, store, stint.StateAborted, "other")
}

// An aborted task is pruned only when what only it needed has been aborted.
func TestFailFast_ComesBeforePruning(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{
		Maintenance: stint.MaintainNever, Retention: stint.Retention{Aborted: stint.KeepNone},
	})
	insertFastThree(t, store)
	finish(t, store, "bad", stint.StatusAborted)
	_, err := store.Prune(t.Context())
	wantErr(t, "Prune", err, nil)
	maintain(t, store)
	eventually(t, soon, "all are aborted, and pruned", func() bool {
		maintain(t, store)
		return yields[int](t, pool, "SELECT count(*) FROM stint.tasks") == 0
	})
}

// Several maintainers find an aborted task at once, while tasks of its network are returned.
func TestFailFast_OfManyMaintainersDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	const n = 200
	wide := numbered("w", n)
	var tasks []stint.Task
	var last []stint.TaskID
	for i := range n - 1 {
		last = append(last, stint.TaskID(fmt.Sprint("z", i)))
		tasks = append(tasks, after(last[i], wide[i].ID, wide[i+1].ID))
	}
	insert(t, store, append(append(wide, stint.Task{ID: "bad", Action: "bad"}),
		append(tasks, failFast("end", append(last, "bad")...))...)...)
	owned := own(t, store, n/2)
	aborts("bad")(t, store)
	calls := []func() error{func() error { return failFastWalk(t.Context(), store) }}
	for range 3 {
		calls = append(calls, func() error { return failFastLook(t.Context(), store) })
	}
	for part := range slices.Chunk(owned, 20) {
		calls = append(calls, func() error {
			return errOf(store.ReturnTasks(t.Context(), completed(part)))
		})
	}
	for _, err := range atOnce(calls...) {
		wantErr(t, "a call", err, nil)
	}
	wantNoDeadlocks(t, pool)
	maintain(t, store)
	stats, err := store.Stats(t.Context())
	wantErr(t, "Stats", err, nil)
	for _, action := range stats.Actions {
		if unfinished := action.Blocked + action.Ready + action.InProgress; unfinished > 0 {
			t.Errorf("%d tasks of %s have not ended", unfinished, action.Action)
		}
	}
}

// A dependent that is added at the last moment saves a task.
// Proves G68.
func TestFailFast_SparesWhatSomebodyComesToNeed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, stint.Task{ID: "bad", Action: "act"}, stint.Task{ID: "other", Action: "other"},
		failFast("end", "bad", "other"),
		stint.Task{ID: "late", Action: "other", NotBefore: time.Now().Add(time.Hour)})
	finish(t, store, "bad", stint.StatusAborted)
	tx := begin(t, pool)
	wantErr(t, "AddDependencies", addDependency(t, store.WithTx(tx), "other", "late"), nil)
	maintaining := start(func() (struct{}, error) {
		return struct{}{}, store.Maintain(t.Context())
	})
	waitForLocks(t, pool, 1)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err := ends(t, "Maintain", maintaining)
	wantErr(t, "Maintain", err, nil)
	wantState(t, store, stint.StateReady, "other")
	wantState(t, store, stint.StateBlocked, "late")
}

// A task that somebody locks holds up neither the others nor other work, and goes later.
func TestFailFast_PassesOverWhatSomebodyLocks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	siblings := numbered("t", 20)
	insert(t, store, append(siblings, stint.Task{ID: "bad", Action: "bad"},
		failFast("end", append(named(siblings), "bad")...))...)
	tx := begin(t, pool)
	wantErr(t, "HoldOwnership", store.WithTx(tx).HoldOwnership(t.Context(), own(t, store, 1)), nil)
	aborts("bad")(t, store)
	maintain(t, store)
	wantState(t, store, stint.StateInProgress, siblings[0].ID)
	wantState(t, store, stint.StateAborted, named(siblings[10:])...)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	maintain(t, store)
	wantState(t, store, stint.StateAborted, named(siblings)...)
}

// Nor do many such tasks hold up the networks behind theirs.
func TestFailFast_GoesOnBehindNetworksThatSomebodyLocks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	const n = 10 // more than a look waits for
	held := numbered("t", n)
	insert(t, store, held...)
	var bad []stint.TaskID
	for i, task := range held {
		bad = append(bad, stint.TaskID(fmt.Sprint("bad/", i)))
		insert(t, store, stint.Task{ID: bad[i], Action: "bad"},
			failFast(stint.TaskID(fmt.Sprint("end/", i)), bad[i], task.ID))
	}
	insertFastThree(t, store)
	tx := begin(t, pool)
	wantErr(t, "HoldOwnership", store.WithTx(tx).HoldOwnership(t.Context(), own(t, store, n)), nil)
	_, err := store.AbortTasks(t.Context(), append(bad, "bad"), "")
	wantErr(t, "AbortTasks", err, nil)
	eventually(t, soon, "the other network is aborted", func() bool {
		maintain(t, store)
		return info(t, store, "other").State == stint.StateAborted
	})
	wantState(t, store, stint.StateInProgress, named(held)...)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
}

// More tasks than one transaction aborts, in a chain and side by side.
// Proves G68.
func TestFailFast_ReachesAllOfALargeNetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	const n = 1500
	tasks := append(numbered("wide", n), stint.Task{ID: "bad", Action: "bad"},
		stint.Task{ID: "chain/0", Action: "act"})
	for i := 1; i < n; i++ {
		tasks = append(tasks, after(stint.TaskID(fmt.Sprint("chain/", i)),
			stint.TaskID(fmt.Sprint("chain/", i-1))))
	}
	tasks = append(tasks, failFast("end", append(named(numbered("wide", n)), "bad",
		stint.TaskID(fmt.Sprint("chain/", n-1)))...))
	insert(t, store, tasks...)
	aborts("bad")(t, store)
	maintain(t, store)
	stats, err := store.Stats(t.Context())
	wantErr(t, "Stats", err, nil)
	for _, action := range stats.Actions {
		if unfinished := action.Blocked + action.Ready; unfinished > 0 {
			t.Errorf("%d tasks of %s have not ended", unfinished, action.Action)
		}
	}
}

// A part of a network fails fast, and what runs anyway behind it begins at once.
func TestFailFast_OfAStructure(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	part := func(id stint.TaskID) structures.Task { return structures.Task{ID: id, Action: "act"} }
	report := part("report")
	report.OnAbort = stint.RunAnyway
	plan, err := structures.Build("trip", structures.Chain(
		structures.FailFast(structures.Group(
			structures.Chain(part("flight"), part("seat")),
			structures.Chain(part("hotel"), part("room")),
		)), report))
	wantErr(t, "Build", err, nil)
	insert(t, store, plan.Tasks...)
	finish(t, store, "flight", stint.StatusAborted)
	maintain(t, store)
	wantState(t, store, stint.StateAborted, "flight", "seat", "hotel", "room")
	wantState(t, store, stint.StateReady, "report")
}

// What others need is aborted once these are, too, without FailFast, however much later.
func TestFailFast_ComesBackToWhatOthersNeeded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("bad"), stint.Task{ID: "shared", Action: "other"},
		failFast("end", "bad", "shared"), after("else", "shared"))
	fail(t, store, "bad")
	maintain(t, store)
	wantState(t, store, stint.StateReady, "shared")
	aborts("else")(t, store)
	maintain(t, store)
	wantState(t, store, stint.StateAborted, "shared")
}

// A network of tasks, each with an order to be aborted, or not, by its owner.
type fastNetwork struct {
	tasks  []stint.Task
	failed []int // those that fail, one after the other
}

func drawFastNetwork(t *rapid.T) fastNetwork {
	var drawn fastNetwork
	n := rapid.IntRange(2, 9).Draw(t, "tasks")
	for i := range n {
		task := stint.Task{
			ID: stint.TaskID(fmt.Sprint("t", i)), Action: "act",
			FailFast:   rapid.Bool().Draw(t, "fail fast"),
			PostResult: rapid.IntRange(0, 7).Draw(t, "post") == 0,
		}
		if rapid.IntRange(0, 3).Draw(t, "policy") == 0 {
			task.OnAbort = stint.RunAnyway
		}
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				task.After = append(task.After, drawn.tasks[j].ID)
			}
		}
		drawn.tasks = append(drawn.tasks, task)
	}
	drawn.failed = rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 3).Draw(t, "failed")
	return drawn
}

// doomed are the tasks that are aborted when some are, by a reading of the words: it repeats two
// sentences until nothing changes.
func (n fastNetwork) doomed() []stint.TaskID {
	aborted := map[stint.TaskID]bool{}
	for _, i := range n.failed {
		aborted[n.tasks[i].ID] = true
	}
	// above are the tasks that a task waits for, directly or through aborted and unfinished others.
	var above func(id stint.TaskID, met map[stint.TaskID]bool)
	above = func(id stint.TaskID, met map[stint.TaskID]bool) {
		for _, task := range n.tasks {
			if task.ID != id {
				continue
			}
			for _, before := range task.After {
				if !met[before] {
					met[before] = true
					above(before, met)
				}
			}
		}
	}
	needed := func(id stint.TaskID) bool {
		for _, task := range n.tasks {
			if slices.Contains(task.After, id) && !aborted[task.ID] {
				return true
			}
		}
		return false
	}
	for changed := true; changed; {
		changed = false
		for _, task := range n.tasks {
			// A task that does not run anyway is aborted with one that it waits for.
			if !aborted[task.ID] && task.OnAbort == stint.AbortToo &&
				slices.ContainsFunc(task.After, func(id stint.TaskID) bool { return aborted[id] }) {
				aborted[task.ID], changed = true, true
			}
			if !aborted[task.ID] || !task.FailFast {
				continue
			}
			// What only aborted tasks need goes with an aborted one that fails fast.
			serving := map[stint.TaskID]bool{}
			above(task.ID, serving)
			for _, before := range n.tasks {
				if serving[before.ID] && !aborted[before.ID] && !before.PostResult &&
					!needed(before.ID) {
					aborted[before.ID], changed = true, true
				}
			}
		}
	}
	var ids []stint.TaskID
	for id := range aborted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Whatever the network, what is aborted is what the words say, and nothing else; and if several
// fail, whenever each of them does.
// Proves G68.
func TestFailFast_AbortsWhatTheWordsSay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	ctx := context.WithoutCancel(t.Context())
	rounds, wrong := testrun.Rounds(300), false
	rapid.Check(t, func(t *rapid.T) {
		// What is wrong is tried until its shortest form is found.
		if rounds--; rounds < 0 && !wrong {
			return
		}
		defer func() { wrong = wrong || t.Failed() }()
		for _, table := range []string{
			"tasks", "ready", "blocked", "finished", "edges", "fail_fast", "leases", "leased",
		} {
			if _, err := pool.Exec(ctx, "DELETE FROM stint."+table); err != nil {
				t.Fatalf("DELETE = %v", err)
			}
		}
		network := drawFastNetwork(t)
		if err := store.InsertTasks(ctx, slices.Clone(network.tasks)); err != nil {
			t.Fatalf("InsertTasks = %v", err)
		}
		var failed []stint.TaskID
		for _, i := range network.failed {
			failed = append(failed, network.tasks[i].ID)
			if _, err := store.AbortTasks(ctx, failed[len(failed)-1:], "fails"); err != nil {
				t.Fatalf("AbortTasks = %v", err)
			}
			if rapid.Bool().Draw(t, "at once") {
				if err := failFastLook(ctx, store); err != nil {
					t.Fatalf("look = %v", err)
				}
			}
		}
		if err := store.Maintain(ctx); err != nil {
			t.Fatalf("Maintain = %v", err)
		}
		page, err := store.ListTasks(ctx, stint.Filter{States: []stint.State{stint.StateAborted}})
		if err != nil {
			t.Fatalf("ListTasks = %v", err)
		}
		var got []stint.TaskID
		for _, task := range page.Tasks {
			got = append(got, task.ID)
		}
		slices.Sort(got)
		if want := network.doomed(); !slices.Equal(got, want) {
			var lines []string
			for _, task := range network.tasks {
				lines = append(lines, fmt.Sprintf("%+v", task))
			}
			t.Fatalf("with %s failed, %v are aborted, want %v\n%s", failed, got, want,
				strings.Join(lines, "\n"))
		}
	})
}
