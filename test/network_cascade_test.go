package stint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// cascades are the ways in which tasks end others behind them. What is called with the first of a
// row ends it, with all of the row if its tasks have the action.
var cascades = map[string]struct {
	action string
	end    func(t *testing.T, store *stint.Store, first stint.TaskID)
	state  stint.State // of the others afterwards
}{
	"abort": {"act", func(t *testing.T, store *stint.Store, first stint.TaskID) {
		t.Helper()
		wantErr(t, "AbortTasks",
			errOf(store.AbortTasks(t.Context(), []stint.TaskID{first}, "")), nil)
	}, stint.StateAborted},
	"complete": {stint.Spontaneous, func(t *testing.T, store *stint.Store, first stint.TaskID) {
		t.Helper()
		owned := ownOne(t, store)
		err := store.ReturnTask(t.Context(), first, owned.Token, "", stint.StatusCompleted)
		wantErr(t, "ReturnTask", err, nil)
	}, stint.StateCompleted},
	"delete": {"act", func(t *testing.T, store *stint.Store, first stint.TaskID) {
		t.Helper()
		wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), []stint.TaskID{first})), nil)
	}, ""},
}

// wantRow checks what became of the tasks behind the first of a row; "" says that they are gone.
func wantRow(t *testing.T, store *stint.Store, tasks []stint.Task, want stint.State) {
	t.Helper()
	var there []stint.Task
	infos, err := listTasks(t.Context(), store, stint.Filter{Limit: 10 * len(tasks)})
	wantErr(t, "ListTasks", err, nil)
	for _, task := range tasks[1:] {
		i := slices.IndexFunc(infos, func(info stint.TaskInfo) bool { return info.ID == task.ID })
		if i < 0 {
			continue
		}
		there = append(there, task)
		if infos[i].State != want {
			t.Fatalf("%q is %s, want %s", task.ID, infos[i].State, want)
		}
	}
	if want == "" && len(there) > 0 || want != "" && len(there) != len(tasks)-1 {
		t.Fatalf("%d of %d tasks are there", len(there), len(tasks)-1)
	}
}

// However deep it goes, a cascade costs one statement, in the round trip of the verb: its locks are
// held no longer than that.
// Proves G65.
func TestCascades_TakeOneStatementHoweverDeep(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const depth = 500
	for name, cascade := range cascades {
		for reach := 1; reach <= 8; reach += 7 {
			t.Run(fmt.Sprintf("%s/reach=%d", name, reach), func(t *testing.T) {
				t.Parallel()
				h := newHeardStore(t, stint.Options{PollOnly: true})
				tasks := row("deep", depth, reach, cascade.action)
				insert(t, h.Store, tasks...)
				before := h.spy.count("settle_tasks")
				cascade.end(t, h.Store, tasks[0].ID)
				if got := h.spy.count("settle_tasks") - before; got != 1 {
					t.Errorf("settle_tasks is executed %d times for %d levels", got, depth)
				}
				wantRow(t, h.Store, tasks, cascade.state)
			})
		}
	}
}

// A level costs the same wherever it is, and so a cascade as much as it is deep: counted are the
// blocks that the two statements touch.
// Proves G65.
func TestCost_BlocksPerLevelOfACascade(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, cascade := range cascades {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			few := settledBlocks(t, cascade.action, name, 100)
			many := settledBlocks(t, cascade.action, name, 2000)
			perLevel := float64(many-few) / 1900
			t.Logf("%d blocks for 100 levels, %d for 2000: %.1f a level", few, many, perLevel)
			const most = 40
			if perLevel > most {
				t.Errorf("a level costs %.1f blocks, want at most %d", perLevel, most)
			}
		})
	}
}

// settledBlocks is how many blocks settling touches that a row ends.
func settledBlocks(t *testing.T, action, how string, depth int) (blocks int) {
	t.Helper()
	store, pool := newUncheckedStore(t, stint.Options{})
	tasks := row("deep", depth, 1, action)
	insert(t, store, tasks...)
	tx := begin(t, pool)
	ctx := t.Context()
	cause := map[string]int{"complete": 0, "abort": 4, "delete": 7}[how]
	_, err := tx.Exec(ctx, `INSERT INTO stint.settling (batch, round, key, cause, tries)
		SELECT 1, 1, key, $2, 0 FROM stint.tasks WHERE id = $1`, tasks[0].ID, cause)
	wantErr(t, "INSERT", err, nil)
	_, err = tx.Exec(ctx, statements(t)["set_planner"])
	wantErr(t, "set_planner", err, nil)
	for _, call := range []string{"lock_dependents(1, 1)", "settle_tasks(1, 1, NULL)"} {
		name, _, _ := strings.Cut(call, "(")
		_, err := tx.Exec(ctx, "PREPARE "+name+" AS "+statements(t)[name])
		wantErr(t, "PREPARE", err, nil)
		var plan []struct {
			Plan map[string]any `json:"Plan"`
		}
		explain := "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON) EXECUTE " + call
		err = tx.QueryRow(ctx, explain, pgx.QueryExecModeSimpleProtocol).Scan(&plan)
		wantErr(t, explain, err, nil)
		for _, kind := range []string{"Shared Hit Blocks", "Shared Read Blocks"} {
			n, ok := plan[0].Plan[kind].(float64)
			if !ok {
				t.Fatalf("no %s in %v", kind, plan)
			}
			blocks += int(n)
		}
	}
	return blocks
}

// Signals that a join gets over a distance are not lost between the rounds, and each counts once:
// every task of the row waits for the one before it and for one far back. Beside each stands one
// that waits for the same and for somebody else.
// Proves G65.
func TestCascades_CountSignalsFromFarApart(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const depth, far = 300, 40
	for name, cascade := range cascades {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			insert(t, store, after("outside"))
			outside := ownOne(t, store)
			tasks := row("deep", depth, 1, cascade.action)
			var beside []stint.Task
			told := map[stint.TaskID]int{tasks[0].ID: 1} // by completed tasks of the row
			want := map[stint.TaskID][2]int{}
			for i := range tasks[1:] {
				task := &tasks[i+1]
				if i >= far {
					task.After = append(task.After, tasks[i-far].ID)
				}
				waiting := anyway(task.ID+"-beside", append(task.After, "outside")...)
				for _, id := range task.After {
					told[task.ID] += told[id]
				}
				want[waiting.ID] = map[string][2]int{
					"abort":    {1, len(task.After)},
					"complete": {1 + told[task.ID], 0},
					"delete":   {1, 0},
				}[name]
				beside = append(beside, waiting)
			}
			insert(t, store, tasks...)
			insert(t, store, beside...)
			cascade.end(t, store, tasks[0].ID)
			wantRow(t, store, tasks, cascade.state)
			_, err := store.ReturnTasks(t.Context(), completed([]stint.OwnedTask{outside}))
			wantErr(t, "ReturnTasks", err, nil)
			for _, task := range own(t, store, depth) {
				if got := [2]int{task.Completed, task.Aborted}; got != want[task.ID] {
					t.Errorf("%q is told of %v, want %v", task.ID, got, want[task.ID])
				}
				delete(want, task.ID)
			}
			if len(want) > 0 {
				t.Errorf("%d tasks are not ready", len(want))
			}
		})
	}
}

// A task that ends in a cascade may be given a dependent at that moment. Here e is, while the
// return of a waits for it: it was not locked ahead, since d counts signals from two sides.
// Proves G65.
func TestCascades_SeeDependentsAddedMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	a := ownOne(t, store)
	insert(t, store, join("b", "a"), join("c", "a"), join("d", "b", "c"), join("e", "d"),
		stint.Task{ID: "new", Action: "act"})
	tx := begin(t, pool)
	wantErr(t, "AddDependencies", addDependency(t, store.WithTx(tx), "e", "new"), nil)
	done := make(chan error, 1)
	go func() {
		done <- store.ReturnTask(t.Context(), "a", a.Token, "", stint.StatusCompleted)
	}()
	awaitWaiting(t, pool, 1, done)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantErr(t, "ReturnTask", <-done, nil)
	wantState(t, store, stint.StateCompleted, "e")
	wantState(t, store, stint.StateReady, "new")
}

// The same of a task that an abort brings down: z is made to wait while the return of x waits for
// y, so that z is not locked ahead, and gets a dependent of its own while the return waits for z.
// The lock on v, which comes behind y, keeps the return from taking z before it is renewed.
// Proves G65.
func TestCascades_BringDownWhatIsAddedMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("x"))
	x := ownOne(t, store)
	insert(t, store, after("q"))
	insert(t, store, after("y", "x"), after("v", "x"), after("z", "q"), after("w", "q"))
	keys := map[stint.TaskID]int64{}
	for _, id := range []stint.TaskID{"z", "w"} {
		keys[id] = yields[int64](t, pool, "SELECT key FROM stint.tasks WHERE id = $1", id)
	}
	first, second, third := begin(t, pool), begin(t, pool), begin(t, pool)
	wantErr(t, "AddDependencies", addDependency(t, store.WithTx(first), "y", "z"), nil)
	lockBlocked(t, third, "v")
	renewed := make(chan error, 1)
	go func() { // what AddDependencies does, which would wait for the first one
		_, err := second.Exec(t.Context(),
			"UPDATE stint.blocked SET missing = missing WHERE key = $1", keys["z"])
		renewed <- err
	}()
	awaitWaiting(t, pool, 1, renewed)
	done := make(chan error, 1)
	go func() {
		done <- store.ReturnTask(t.Context(), "x", x.Token, "", stint.StatusAborted)
	}()
	awaitWaiting(t, pool, 2, done)
	wantErr(t, "Commit", first.Commit(t.Context()), nil)
	wantErr(t, "UPDATE", <-renewed, nil)
	_, err := second.Exec(t.Context(), statements(t)["add_edges"],
		[]int64{keys["z"]}, []int64{keys["w"]}, nil, nil)
	wantErr(t, "add_edges", err, nil)
	wantErr(t, "Rollback", third.Rollback(t.Context()), nil)
	eventually(t, soon, "the return waits for z", func() bool {
		return yields[int](t, pool, `SELECT count(*) FROM pg_stat_activity
			WHERE $1 = ANY (pg_blocking_pids(pid))`, second.Conn().PgConn().PID()) == 1
	})
	wantErr(t, "Commit", second.Commit(t.Context()), nil)
	wantErr(t, "ReturnTask", <-done, nil)
	wantState(t, store, stint.StateAborted, "y", "v", "z", "w")
}
