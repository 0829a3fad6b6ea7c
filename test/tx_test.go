package stint_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A worker completes a task, inserts its successors and writes its own rows in one commit, or none
// of it.
// Proves R21.
func TestWithTx_CommitsAllOrNothing(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	exec(t, pool, "CREATE TABLE mine (id text)")
	insert(t, store, stint.Task{ID: "first", Action: "act"})
	task := ownOne(t, store)
	for _, commit := range []bool{false, true} {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		inside := store.WithTx(tx)
		insert(t, inside, stint.Task{ID: "second", Action: "act"})
		insert(t, inside, numbered("more", 100)...)
		if _, err := tx.Exec(t.Context(), "INSERT INTO mine VALUES ('row')"); err != nil {
			t.Fatal(err)
		}
		err = inside.ReturnTask(t.Context(), "first", task.Token, "", stint.StatusCompleted)
		if err != nil {
			t.Fatal(err)
		}
		if got := info(t, inside, "first").State; got != stint.StateCompleted {
			t.Errorf("inside the transaction the task is %s", got)
		}
		if got := info(t, store, "first").State; got != stint.StateInProgress {
			t.Errorf("outside the transaction the task is %s", got)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err := listTasks(t.Context(), store, stint.Filter{
			States: []stint.State{stint.StateReady}, Limit: 1000,
		})
		want := map[bool]int{true: 101}[commit]
		if err != nil || len(list) != want {
			t.Errorf("committed %t: %d tasks are ready, want %d, %v", commit, len(list), want, err)
		}
	}
}

// An owner that lost its task commits none of it.
// Proves G73.
func TestWithTx_TellsAnOwnerThatLostItsTask(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "first", Action: "act"})
	late := ownOne(t, store)
	expireLeases(t, pool)
	ownOne(t, store)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		inside := store.WithTx(tx)
		insert(t, inside, stint.Task{ID: "second", Action: "act"})
		return inside.ReturnTask(t.Context(), "first", late.Token, "", stint.StatusCompleted)
	})
	wantErr(t, "the transaction", err, stint.ErrInvalidToken)
	_, err = store.GetTasks(t.Context(), []stint.TaskID{"second"})
	wantErr(t, "GetTasks", err, stint.ErrTaskNotFound)
}

// Every verb that fails leaves the caller's transaction fit for use, and every verb leaves the
// caller's planner settings alone.
// Proves G76, G159.
func TestWithTx_SparesTheCallersTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	ctx := t.Context()
	insert(t, store, numbered("t", 3)...)
	owned := ownOne(t, store)
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "SET LOCAL enable_hashjoin = off"); err != nil {
		t.Fatal(err)
	}
	inside := store.WithTx(tx)
	settings := func() (text string) {
		t.Helper()
		err := tx.QueryRow(ctx, "SELECT string_agg(name || setting, ' ' ORDER BY name) "+
			"FROM pg_settings WHERE name LIKE 'enable%' OR name IN ('jit', 'plan_cache_mode')").
			Scan(&text)
		if err != nil {
			t.Fatalf("the transaction is unusable: %v", err)
		}
		return text
	}
	want := settings()
	for name, verb := range refusedVerbs(ctx, inside, owned) {
		if err := verb(); err == nil {
			t.Errorf("%s succeeded", name)
		}
		if got := settings(); got != want {
			t.Errorf("after %s the settings are %s, want %s", name, got, want)
		}
	}
	for name, verb := range acceptedVerbs(ctx, inside, owned) {
		if err := verb(); err != nil {
			t.Errorf("%s = %v", name, err)
		}
		if got := settings(); got != want {
			t.Errorf("after %s the settings are %s, want %s", name, got, want)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Errorf("Commit = %v", err)
	}
}

// refusedVerbs are calls that fail, by their arguments or by the state of the tasks.
func refusedVerbs(
	ctx context.Context, inside *stint.Store, owned stint.OwnedTask,
) map[string]func() error {
	existing := []stint.Task{{ID: "t000000", Action: "act"}}
	return map[string]func() error{
		"InsertTasks": func() error { return inside.InsertTasks(ctx, existing) },
		"InsertTasks by COPY": func() error {
			return inside.InsertTasks(ctx, append(numbered("n", 100), existing...))
		},
		"InsertTasksFrom": func() error {
			_, err := inside.InsertTasksFrom(ctx, stream(existing, nil))
			return err
		},
		"ReplaceTasks": func() error { return inside.ReplaceTasks(ctx, existing) },
		"ReturnTask": func() error {
			return inside.ReturnTask(ctx, "t000001", owned.Token, "", stint.StatusCompleted)
		},
		"SetStatus": func() error {
			return inside.SetStatus(ctx, stint.OwnedTask{ID: "t000001"}, "", 0)
		},
		"RecordStep": func() error {
			return errOf(inside.RecordStep(ctx, stint.OwnedTask{ID: "t000001"}, "step", nil))
		},
		"AbortTasks": func() error {
			return errOf(inside.AbortTasks(ctx, []stint.TaskID{"nobody"}, ""))
		},
		"DeleteTasks": func() error {
			return errOf(inside.DeleteTasks(ctx, []stint.TaskID{"t000000"}))
		},
		"GetTasks": func() error {
			_, err := inside.GetTasks(ctx, []stint.TaskID{"nobody"})
			return err
		},
	}
}

func acceptedVerbs(
	ctx context.Context, inside *stint.Store, owned stint.OwnedTask,
) map[string]func() error {
	return map[string]func() error{
		"OwnTasks": func() error {
			_, err := inside.OwnTasks(ctx, "actor", 5, []string{"act"}, time.Hour)
			return err
		},
		"ExtendTasksOwnership": func() error {
			_, err := inside.ExtendTasksOwnership(ctx, "actor", []stint.OwnedTask{owned}, time.Hour)
			return err
		},
		"ListTasks": func() error {
			_, err := inside.ListTasks(ctx, stint.Filter{})
			return err
		},
		"Maintain": func() error { return inside.Maintain(ctx) },
	}
}

// A lease is measured from the statement, not from the start of the transaction.
// Proves R10.
func TestWithTx_MeasuresLeasesFromTheCall(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT pg_sleep(0.2)"); err != nil {
		t.Fatal(err)
	}
	inside := store.WithTx(tx)
	task := ownOne(t, inside)
	var left time.Duration
	err = tx.QueryRow(t.Context(), "SELECT $1::timestamptz - now()", task.LeaseUntil).Scan(&left)
	if err != nil || left < time.Hour+200*time.Millisecond {
		t.Errorf("the lease of an hour ends %v after the start of the transaction, %v", left, err)
	}
	if kept := info(t, inside, "a").LeaseUntil; !kept.Equal(task.LeaseUntil) {
		t.Errorf("the lease is kept until %v, and said to be until %v", kept, task.LeaseUntil)
	}
}

// A return in a transaction that stays open holds up neither the heartbeat nor the returns of the
// tasks that were fetched with it.
// Proves G79.
func TestWithTx_ReturnDoesNotHoldUpTheOthersOfItsFetch(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 100)...)
	for _, n := range []int{1, 99} {
		owned := own(t, store, n)
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		inside := store.WithTx(tx)
		err = inside.ReturnTask(
			t.Context(), owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := store.ExtendTasksOwnership(t.Context(), "actor", owned, 2*time.Hour)
		if err != nil || !kept[0] {
			t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
		}
		if n > 1 {
			some := owned[:n/2]
			kept, err = store.ExtendTasksOwnership(t.Context(), "actor", some, 3*time.Hour)
			if err != nil || !kept[0] || !kept[1] {
				t.Errorf("ExtendTasksOwnership of some = %v, %v", kept, err)
			}
			err = store.ReturnTask(
				t.Context(), owned[1].ID, owned[1].Token, "", stint.StatusCompleted)
			if err != nil {
				t.Errorf("ReturnTask = %v", err)
			}
		}
		expireLeases(t, pool)
		maintain(t, store) // passes over the task that is being returned
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := info(t, store, owned[0].ID).State; got != stint.StateCompleted {
			t.Errorf("the returned task is %s", got)
		}
	}
}

func TestWithTx_RefusesATransactionThatHasEnded(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	for name, end := range map[string]func(pgx.Tx) error{
		"Commit":   func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		"Rollback": func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
	} {
		insert(t, store, stint.Task{ID: stint.TaskID(name), Action: "act"}) // checks the schema
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
		for verbName, verb := range verbs(store.WithTx(tx)) {
			wantErr(t, verbName+" after "+name, verb(t.Context()), pgx.ErrTxClosed)
		}
	}
}
