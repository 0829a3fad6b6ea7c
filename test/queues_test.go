package stint_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A task of a transaction that takes long becomes ready behind others in time, but ahead of them in
// the queue. It is found, whether there are others or not.
// Proves G35.
func TestOwnTasks_FindsWhatASlowTransactionInserted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insertSlowly := func(id stint.TaskID) (commit func()) {
		tx, err := pool.Begin(t.Context())
		wantErr(t, "Begin", err, nil)
		insert(t, store.WithTx(tx), after(id))
		return func() { wantErr(t, "Commit", tx.Commit(t.Context()), nil) }
	}
	commit := insertSlowly("slow")
	insert(t, store, numbered("quick", 2)...)
	ownOne(t, store)
	ownOne(t, store)
	commit()
	if got := ownOne(t, store).ID; got != "slow" {
		t.Errorf("OwnTasks gave %q", got)
	}

	commit = insertSlowly("slow again")
	insert(t, store, numbered("many", 10_000)...)
	ownOne(t, store)
	commit()
	eventually(t, soon, "the slow one is fetched ahead of the others", func() bool {
		return ownOne(t, store).ID == "slow again"
	})
}

// A task of a higher priority is fetched next, however far the queue has got.
// Proves R7.
func TestOwnTasks_SeesAHigherPriorityAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, numbered("many", 1000)...)
	for i := range 50 {
		ownOne(t, store)
		id := stint.TaskID(fmt.Sprint("urgent", i))
		insert(t, store, stint.Task{ID: id, Action: "act", Priority: int16(i%3 + 1)})
		if got := ownOne(t, store).ID; got != id {
			t.Fatalf("OwnTasks gave %q, want %q", got, id)
		}
	}
}

// A fetch learns where the queue begins from all that it sees, also from what it does not take.
func TestOwnTasks_LearnsAFloorBelowAllThatItSees(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insertSingly(t, store, after("a"), after("b"), after("c"))
	first := yields[int64](t, pool, "SELECT min(rank) FROM stint.ready")
	taking := begin(t, pool)
	own(t, store.WithTx(taking), 1)
	for _, name := range []string{"own_tasks", "own_few", "own_singly"} {
		tx := begin(t, pool)
		rows, err := tx.Query(t.Context(), statements(t)[name], 1<<20, "actor", 3,
			[]string{"act"}, nil, nil, []int64{0}, []int64{math.MaxInt64}, false, false,
			1<<20, 1<<20, 1<<10)
		wantErr(t, name, err, nil)
		found, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil || len(found) != 2 {
			t.Fatalf("%s = %v, %v, want two tasks", name, found, err)
		}
		for _, task := range found {
			if task["floor"] != first {
				t.Errorf("%s gives %s with the floor %v, want %d", name, task["id"], task["floor"],
					first)
			}
		}
		wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	}
	wantErr(t, "Rollback", taking.Rollback(t.Context()), nil)
}

// As long as a transaction is open that is older than them, rows that were deleted stay in the
// index. They are not walked at each call.
// Proves G35.
func TestOwnTasks_DoesNotWalkWhatWasTakenLongAgo(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	pinned, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	wantErr(t, "Begin", err, nil)
	defer func() { _ = pinned.Rollback(t.Context()) }()
	_, err = pinned.Exec(t.Context(), "SELECT 1 FROM stint.tasks") // takes its snapshot
	wantErr(t, "SELECT", err, nil)

	one := poolOf(t, pool, func(config *pgxpool.Config) { config.MaxConns = 1 })
	store := openStore(t, one, stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true,
	})
	const rounds, dead = 100, 6400
	for i := range rounds {
		insert(t, store, numbered(fmt.Sprintf("r%d ", i), dead/rounds)...)
		complete(t, store, own(t, store, dead/rounds)...)
	}
	read := func() int {
		exec(t, one, "SELECT pg_stat_force_next_flush()")
		return yields[int](t, one, "SELECT idx_tup_read FROM pg_stat_user_indexes "+
			"WHERE indexrelname = 'ready_order'")
	}
	insert(t, store, numbered("new ", dead)...)
	walked := func() int {
		before := read()
		ownOne(t, store)
		return read() - before
	}
	const few = 200
	eventually(t, soon, "a call walks little", func() bool { return walked() < few })
	const calls = 20
	little := 0
	for range calls { // between two looks at the whole
		if walked() < few {
			little++
		}
	}
	if little < calls/2 {
		t.Errorf("%d of %d calls walked little", little, calls)
	}
}

// What an open transaction has taken from one queue does not keep a caller from the others.
// Proves G51.
func TestOwnTasks_GoesOnToOtherQueuesBehindWhatOthersTake(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	first := stint.Task{ID: "first", Action: "first", Priority: 1}
	insert(t, store, first, stint.Task{ID: "second", Action: "second"})
	tx := begin(t, pool)
	taken, err := store.WithTx(tx).OwnTasks(t.Context(), "other", 1, []string{"first"}, time.Hour)
	if err != nil || len(taken) != 1 {
		t.Fatalf("OwnTasks = %v, %v", taken, err)
	}
	actions := []string{"first", "second"}
	owned, err := store.OwnTasks(t.Context(), "actor", 1, actions, time.Hour)
	if err != nil || len(owned) != 1 || owned[0].ID != "second" {
		t.Errorf("OwnTasks = %v, %v, want the second", owned, err)
	}
}

// However the tasks are spread over the queues, those come first that should.
func TestOwnTasks_KeepsTheOrderAcrossManyQueues(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const queues, wanted = 60, 100
	calls := testrun.Rounds(2000)
	actions := make([]string, queues)
	for i := range actions {
		actions[i] = fmt.Sprint("act", i)
	}
	for name, queueOf := range map[string]func(call int) int{
		"evenly":         func(call int) int { return call % queues },
		"one by one":     func(call int) int { return call * queues / calls },
		"most in one":    func(call int) int { return max(0, call%100-40) },
		"without a rule": func(int) int { return rand.IntN(queues) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			var urgent, other []stint.TaskID // in the order in which they are due
			for call := range calls {
				task := stint.Task{Action: actions[queueOf(call)], Priority: int16(rand.IntN(2))}
				if rand.IntN(2) == 0 {
					task.Deadline = time.Now().Add(time.Hour) // each has a row of its own
				}
				tasks := slices.Repeat([]stint.Task{task}, 1+rand.IntN(10))
				for i := range tasks {
					tasks[i].ID = stint.TaskID(fmt.Sprint(call, "-", i))
				}
				insert(t, store, tasks...)
				if task.Priority > 0 {
					urgent = append(urgent, named(tasks)...)
				} else {
					other = append(other, named(tasks)...)
				}
			}
			want := append(urgent, other...)
			for len(want) > 0 {
				owned, err := store.OwnTasks(t.Context(), "actor", wanted, actions, time.Hour)
				n := min(wanted, len(want))
				if got := idsOf(owned); err != nil || !slices.Equal(got, want[:n]) {
					t.Fatalf("OwnTasks = %v, %v, want %v", got, err, want[:n])
				}
				want = want[n:]
			}
		})
	}
}

// Of many queues no more is held than what is fetched.
func TestOwnTasks_HoldsOfManyQueuesWhatItHandsOut(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	actions := []string{"a", "b", "c", "d"}
	for _, action := range actions {
		insert(t, store, stint.Task{ID: stint.TaskID(action), Action: action})
	}
	ownOf := func(store *stint.Store, n int, actions []string) []stint.OwnedTask {
		t.Helper()
		owned, err := store.OwnTasks(t.Context(), "actor", n, actions, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		return owned
	}
	if got := ownOf(store.WithTx(begin(t, pool)), 1, actions); len(got) != 1 || got[0].ID != "a" {
		t.Fatalf("the first transaction owns %v", idsOf(got))
	}
	if got := ownOf(store.WithTx(begin(t, pool)), 1, actions); len(got) != 1 || got[0].ID != "b" {
		t.Fatalf("the second transaction owns %v", idsOf(got))
	}
	if got := ownOf(store, 4, actions[2:]); len(got) != 2 {
		t.Errorf("others own %v, want c and d", idsOf(got))
	}
}
