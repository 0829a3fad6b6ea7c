package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// inTx is a verb in a transaction of its own, which the caller commits.
func inTx(
	ctx context.Context, store *stint.Store, pool *pgxpool.Pool, verb func(*stint.Store) error,
) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	if err := verb(store.WithTx(tx)); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

// Of two calls that only together close a cycle, exactly one is refused, with the whole path.
// Proves R4.
func TestAddDependencies_RefusesOneOfTwoThatCloseACycle(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, within := range []string{"directly", "WithTx"} {
		t.Run(within, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			for round := range testrun.Rounds(60) {
				id := func(name string) stint.TaskID {
					return stint.TaskID(fmt.Sprintf("%s%d", name, round))
				}
				// There is a way from a to b and one from c to d; with d to a and b to c, a circle.
				insert(t, store, after(id("a")), join(id("m"), id("a")), after(id("b"), id("m")),
					after(id("c")), after(id("d"), id("c")))
				add := func(after, run stint.TaskID) func() error {
					verb := func(store *stint.Store) error {
						return addDependency(t, store, after, run)
					}
					if within == "directly" {
						return func() error { return verb(store) }
					}
					return func() error { return inTx(t.Context(), store, pool, verb) }
				}
				errs := atOnce(add(id("d"), id("a")), add(id("b"), id("c")))
				refused := errs[0]
				if refused == nil {
					refused = errs[1]
				} else {
					wantErr(t, "the other call", errs[1], nil)
				}
				wantErr(t, "one call", refused, stint.ErrCycle)
				var cycle *stint.CycleError
				if !errors.As(refused, &cycle) || len(cycle.Path) != 6 {
					t.Fatalf("the path is %v", refused)
				}
			}
		})
	}
}

// An ending is a way in which a task x ends.
type ending struct {
	name string
	// tasks are x and what has to be there for it.
	tasks func(x stint.TaskID) []stint.Task
	// owned says that somebody owns x, or the task that x waits for.
	owned bool
	// end lets x end, or tries to.
	end     func(ctx context.Context, store *stint.Store, x stint.TaskID, o stint.OwnedTask) error
	aborted bool
}

func single(x stint.TaskID) []stint.Task { return []stint.Task{after(x)} }

func returning(code stint.StatusCode) func(
	context.Context, *stint.Store, stint.TaskID, stint.OwnedTask,
) error {
	return func(ctx context.Context, store *stint.Store, _ stint.TaskID, o stint.OwnedTask) error {
		return store.ReturnTask(ctx, o.ID, o.Token, "", code)
	}
}

func maintaining(ctx context.Context, store *stint.Store, _ stint.TaskID, _ stint.OwnedTask) error {
	return store.Maintain(ctx)
}

var endings = []ending{
	{"it is completed", single, true, returning(stint.StatusCompleted), false},
	{"it is aborted", single, true, returning(stint.StatusAborted), true},
	{"it is cancelled", single, false, func(
		ctx context.Context, store *stint.Store, x stint.TaskID, _ stint.OwnedTask,
	) error {
		return errOf(store.AbortTasks(ctx, []stint.TaskID{x}, ""))
	}, true},
	{"its last lease expires", func(x stint.TaskID) []stint.Task {
		return []stint.Task{{ID: x, Action: "act", MaxTries: 1}}
	}, true, maintaining, true},
	{"its deadline passes", func(x stint.TaskID) []stint.Task {
		return []stint.Task{
			{ID: x, Action: "act", Deadline: time.Now().Add(-time.Hour)},
		}
	}, false, maintaining, true},
	{"its predecessor is aborted", func(x stint.TaskID) []stint.Task {
		return []stint.Task{after("p" + x), after(x, "p"+x)}
	}, true, returning(stint.StatusAborted), true},
	{"it joins, and its predecessor is completed", func(x stint.TaskID) []stint.Task {
		return []stint.Task{after("p" + x), join(x, "p"+x)}
	}, true, returning(stint.StatusCompleted), false},
}

// A race is a task y that is made to wait for x while x ends.
type race struct {
	ending

	store *stint.Store
	pool  *pgxpool.Pool
	owner stint.OwnedTask
	x, y  stint.Task
}

// newRace inserts x and what belongs to it. y has an action of its own, and runs anyway in every
// other round.
func newRace(t *testing.T, store *stint.Store, pool *pgxpool.Pool, e ending, round int) *race {
	t.Helper()
	r := &race{ending: e, store: store, pool: pool}
	tasks := e.tasks(stint.TaskID(fmt.Sprintf("x%d", round)))
	insert(t, store, tasks...)
	r.x = tasks[len(tasks)-1]
	r.y = stint.Task{
		ID: stint.TaskID(fmt.Sprintf("y%d", round)), Action: "next",
		OnAbort: stint.OnAbort(round % 2),
	}
	if e.owned {
		r.owner = ownOne(t, store)
		if r.x.MaxTries > 0 {
			expireLeases(t, pool)
		}
	}
	return r
}

// run lets x end while a verb, in every third round in a transaction, makes y wait for it. It
// returns what the verb answers.
func (r *race) run(t *testing.T, round int, verb func(*stint.Store) error) error {
	t.Helper()
	end := func() error { return r.end(t.Context(), r.store, r.x.ID, r.owner) }
	errs := atOnce(end, func() error {
		if round%3 == 0 {
			return inTx(t.Context(), r.store, r.pool, verb)
		}
		return verb(r.store)
	})
	wantErr(t, "the verb that ends it", errs[0], nil)
	// Maintenance passes over what others are busy with.
	const attempts = 100
	for range attempts {
		if !info(t, r.store, r.x.ID).FinishedAt.IsZero() {
			break
		}
		maintain(t, r.store)
	}
	return errs[1]
}

// checkSignalled checks that y has got what signal x left, if it waits for x at all.
func (r *race) checkSignalled(t *testing.T, waits bool) {
	t.Helper()
	x, y := info(t, r.store, r.x.ID), info(t, r.store, r.y.ID)
	if aborted := x.State == stint.StateAborted; x.FinishedAt.IsZero() || aborted != r.aborted {
		t.Fatalf("%q is %s", x.ID, x.State)
	}
	if waits && r.aborted && r.y.OnAbort == stint.AbortToo {
		if y.AbortCause != stint.CauseDependency {
			t.Fatalf("%q is %s behind %q, which was aborted", y.ID, y.State, x.ID)
		}
		return
	}
	owned, err := r.store.OwnTasks(t.Context(), "actor", 2, []string{"next"}, time.Hour)
	if err != nil || len(owned) != 1 || owned[0].ID != y.ID {
		t.Fatalf("OwnTasks = %v, %v, but %q is %s and %q is %s", owned, err,
			x.ID, x.State, y.ID, y.State)
	}
	var want [2]int
	switch {
	case waits && r.aborted:
		want[1] = 1
	case waits:
		want[0] = 1
	}
	if got := [2]int{owned[0].Completed, owned[0].Aborted}; got != want {
		t.Fatalf("the owner of %q is told of %v, want %v", y.ID, got, want)
	}
	err = r.store.ReturnTask(t.Context(), y.ID, owned[0].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, nil)
}

// Either the dependency is there before x ends, and y gets its signal, or it is refused.
// Proves R16.
func TestAddDependencies_IsRefusedOrSignalled(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, e := range endings {
		t.Run("while "+e.name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			refused := 0
			for round := range testrun.Rounds(40) {
				r := newRace(t, store, pool, e, round)
				insert(t, store, r.y)
				err := r.run(t, round, func(store *stint.Store) error {
					return addDependency(t, store, r.x.ID, r.y.ID)
				})
				if err != nil {
					wantErr(t, "AddDependencies", err, stint.ErrTaskFinished)
					refused++
				}
				r.checkSignalled(t, err == nil)
			}
			t.Logf("%d of %d were refused", refused, testrun.Rounds(40))
		})
	}
}

// A task that is inserted behind another gets its signal, whether that one ends before or after.
// Proves R3.
func TestInsertTasks_IsSignalledByWhatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, e := range endings {
		t.Run("while "+e.name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			for round := range testrun.Rounds(40) {
				r := newRace(t, store, pool, e, round)
				r.y.After = []stint.TaskID{r.x.ID}
				err := r.run(t, round, func(store *stint.Store) error {
					return store.InsertTasks(t.Context(), []stint.Task{r.y})
				})
				wantErr(t, "InsertTasks", err, nil)
				r.checkSignalled(t, true)
			}
		})
	}
}

// An abort comes upon z through an edge that is added while it waits for y and q, and so without
// having locked z ahead. Whoever is ending z at that moment goes first.
func TestReturnTask_PassesOverWhatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("x"), after("w"), after("y", "x"), after("q", "x"), after("z", "w"))
	x := ownOne(t, store)
	adding, holding, cancelling := begin(t, pool), begin(t, pool), begin(t, pool)
	wantErr(t, "AddDependencies", addDependency(t, store.WithTx(adding), "y", "z"), nil)
	lockBlocked(t, holding, "q")
	aborted := make(chan error, 1)
	go func() {
		aborted <- store.ReturnTask(t.Context(), x.ID, x.Token, "", stint.StatusAborted)
	}()
	awaitWaiting(t, pool, 1, aborted)
	wantErr(t, "Commit", adding.Commit(t.Context()), nil)
	err := errOf(store.WithTx(cancelling).AbortTasks(t.Context(), []stint.TaskID{"z"}, ""))
	wantErr(t, "AbortTasks", err, nil)
	wantErr(t, "Commit", holding.Commit(t.Context()), nil)
	awaitWaiting(t, pool, 1, aborted)
	wantErr(t, "Commit", cancelling.Commit(t.Context()), nil)
	wantErr(t, "ReturnTask", <-aborted, nil)
	if got := info(t, store, "z").AbortCause; got != stint.CauseCancelled {
		t.Errorf("%q was aborted by %s", "z", got)
	}
	wantState(t, store, stint.StateAborted, "y", "q")
}

// The tasks that a return signals are locked in one order, whatever the order and the size of the
// returns, and also behind joins.
// Proves G69.
func TestReturnTasks_WithOverlappingDependentsDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, second := range map[string]string{
		"dependents": "act", "dependents behind joins": stint.Spontaneous,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			tasks := layers(testrun.Rounds(1000), second)
			insert(t, store, tasks...)
			performed := 0
			for _, task := range tasks {
				if task.Action != stint.Spontaneous {
					performed++
				}
			}
			drainAtOnce(t, store, 16, performed, func(_ int, random *rand.Rand) int {
				return 1 + random.IntN(2)*random.IntN(30)
			}, func([]stint.OwnedTask) {})
			if n := testdb.Deadlocks(t, pool); n > 0 {
				t.Errorf("%d deadlocks", n)
			}
		})
	}
}

// layers are n tasks, n/10 that wait for some of these, and n/20 that wait for some of those. The
// tasks of each layer share those that they signal, in all orders.
func layers(n int, second string) []stint.Task {
	random := rand.New(rand.NewPCG(1, 2))
	var tasks []stint.Task
	layer := func(name, action string, size int, before []stint.Task) []stint.Task {
		from := len(tasks)
		for i := range size {
			task := stint.Task{
				ID: stint.TaskID(fmt.Sprintf("%s%04d", name, i)), Action: action,
				OnAbort: stint.RunAnyway,
			}
			for range min(30, len(before)) {
				task.After = append(task.After, before[random.IntN(len(before))].ID)
			}
			tasks = append(tasks, task)
		}
		return tasks[from:]
	}
	first := layer("first", "act", n, nil)
	middle := layer("second", second, n/10, first)
	layer("third", "act", n/20, append(middle[:len(middle):len(middle)], first[:n/10]...))
	return tasks
}

// drainAtOnce lets workers own and complete tasks, as many at a time as batch says, until so many
// are completed. They show what they own to see before they return it, in an order of their own.
func drainAtOnce(
	t *testing.T, store *stint.Store, workers, tasks int,
	batch func(worker int, random *rand.Rand) int, see func([]stint.OwnedTask),
) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(tasks))
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(worker)))
			for left.Load() > 0 && !t.Failed() {
				owned, err := store.OwnTasks(t.Context(), "worker", batch(worker, random),
					[]string{"act"}, time.Hour)
				if err != nil {
					t.Errorf("OwnTasks = %v", err)
					return
				}
				see(owned)
				returns := make([]stint.Return, len(owned))
				for place, i := range random.Perm(len(owned)) {
					returns[place] = stint.Return{
						ID: owned[i].ID, Token: owned[i].Token, Code: stint.StatusCompleted,
					}
				}
				verdicts, err := store.ReturnTasks(t.Context(), returns)
				if err := errors.Join(append(verdicts, err)...); err != nil {
					t.Errorf("ReturnTasks = %v", err)
				}
				left.Add(-int64(len(returns)))
			}
		})
	}
	group.Wait()
}

// Each number waits for all of its divisors, which makes some wait for dozens of others, and some
// signal thousands.
func TestOwnTasks_HandsOutNumbersBehindTheirDivisors(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	last := testrun.Rounds(5000)
	store := newStore(t)
	id := func(n int) stint.TaskID { return stint.TaskID(fmt.Sprintf("number%d", n)) }
	numbers := map[stint.TaskID]int{}
	divisors := make([][]int, last+1)
	var tasks []stint.Task
	for n := 2; n <= last; n++ {
		task := stint.Task{ID: id(n), Action: "act"}
		for _, divisor := range divisors[n] {
			task.After = append(task.After, id(divisor))
		}
		for multiple := 2 * n; multiple <= last; multiple += n {
			divisors[multiple] = append(divisors[multiple], n)
		}
		tasks = append(tasks, task)
		numbers[task.ID] = n
	}
	insert(t, store, tasks...)
	completed := make([]atomic.Bool, last+1) // or about to be
	drainAtOnce(t, store, 4, last-1, func(int, *rand.Rand) int { return 200 },
		func(owned []stint.OwnedTask) {
			for _, task := range owned {
				n := numbers[task.ID]
				for _, divisor := range divisors[n] {
					if !completed[divisor].Load() {
						t.Errorf("%d was fetched before %d was completed", n, divisor)
					}
				}
				if task.Completed != len(divisors[n]) {
					t.Errorf("the owner of %d is told of %d completed, want %d", n, task.Completed,
						len(divisors[n]))
				}
			}
			for _, task := range owned {
				completed[numbers[task.ID]].Store(true)
			}
		})
}

// Aborts that bring down the same tasks lock them in the order of their keys, however they reach
// them: otherwise these two, which both wait for z here, would then wait for each other.
func TestAborts_OfSharedDependentsDeadlockWithNobody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, abort := range map[string]func(*stint.Store, stint.OwnedTask) error{
		"AbortTasks": func(store *stint.Store, task stint.OwnedTask) error {
			return errOf(store.AbortTasks(t.Context(), []stint.TaskID{task.ID}, ""))
		},
		"ReturnTask": func(store *stint.Store, task stint.OwnedTask) error {
			return store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusAborted)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newUncheckedStore(t, stint.Options{})
			insert(t, store, after("z"), after("x"), after("y"))
			insert(t, store, after("a"), after("b"))
			var edges []stint.Dependency
			for _, edge := range []string{"az", "ay", "yx", "bx", "xz"} {
				edges = append(edges, stint.Dependency{
					Predecessor: stint.TaskID(edge[:1]), Dependent: stint.TaskID(edge[1:]),
				})
			}
			wantErr(t, "AddDependencies", store.AddDependencies(t.Context(), edges), nil)
			roots := make([]stint.OwnedTask, 2)
			if name == "ReturnTask" {
				roots = own(t, store, 2)
			}
			tx := begin(t, pool)
			lockBlocked(t, tx, "z")
			done := make(chan error, 2)
			for i, root := range []stint.TaskID{"a", "b"} {
				roots[i].ID = root
				go func() { done <- abort(store, roots[i]) }()
				waitForLocks(t, pool, i+1)
			}
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			for range roots {
				wantErr(t, name, <-done, nil)
			}
			wantState(t, store, stint.StateAborted, "x", "y", "z")
			wantNoDeadlocks(t, pool)
		})
	}
}

// An abort of a blocked task locks what it brings down together with that. x is older than y here:
// an abort of b, which brings down both, would otherwise lock x and wait for y, and this one for x.
func TestAbortTasks_LocksABlockedTaskTogetherWithItsDependents(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("x"))
	insert(t, store, after("y"), after("b"))
	for _, edge := range []string{"yx", "bx", "by"} {
		err := addDependency(t, store, stint.TaskID(edge[:1]), stint.TaskID(edge[1:]))
		wantErr(t, "AddDependencies", err, nil)
	}
	aborting := interpose(t, pool, "lock_dependents", func() {
		free := yields[int](t, pool, `SELECT count(*) FROM (
			SELECT FROM stint.blocked JOIN stint.tasks USING (key)
			WHERE id = 'x' FOR UPDATE OF blocked SKIP LOCKED) AS free`)
		if free > 0 {
			t.Error("y is withdrawn, and x is not locked")
		}
	})
	aborts("y")(t, aborting)
	wantState(t, store, stint.StateAborted, "x", "y")
}
