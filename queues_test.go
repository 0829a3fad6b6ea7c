package stint_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// A task of a transaction that takes long becomes ready behind others in time, but ahead of them in
// the queue. It is found, whether there are others or not.
func TestOwnTasks_FindsWhatASlowTransactionInserted(t *testing.T) {
	t.Parallel()
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
	eventually(t, soon, "the slow one is handed out ahead of the others", func() bool {
		return ownOne(t, store).ID == "slow again"
	})
}

// R7, priorities: a task of a higher priority is handed out next, however far the queue has got.
func TestOwnTasks_SeesAHigherPriorityAtOnce(t *testing.T) {
	t.Parallel()
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

// As long as a transaction is open that is older than them, rows that were deleted stay in the
// index. They are not walked at each call.
func TestOwnTasks_DoesNotWalkWhatWasTakenLongAgo(t *testing.T) {
	t.Parallel()
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
