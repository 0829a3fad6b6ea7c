package stint_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A tracedTx is a transaction with something around it, as for traces.
type tracedTx struct{ pgx.Tx }

// missingTxs are what a caller has who has forgotten to begin a transaction.
func missingTxs() map[string]pgx.Tx {
	var pooled *pgxpool.Tx
	return map[string]pgx.Tx{
		"nil":                          nil,
		"a nil pointer":                pooled,
		"an empty struct":              &pgxpool.Tx{},
		"a wrapper around nothing":     tracedTx{},
		"a pointer to such a wrapper":  &tracedTx{},
		"a wrapper around nil":         tracedTx{pooled},
		"a nil wrapper":                (*tracedTx)(nil),
		"Quiet of nil":                 stint.Quiet(nil),
		"Quiet of a nil pointer":       stint.Quiet(pooled),
		"Quiet of Quiet of nil":        stint.Quiet(stint.Quiet(nil)),
		"a wrapper around Quiet of it": tracedTx{stint.Quiet(nil)},
	}
}

// notVerbs do nothing in the database.
var notVerbs = map[string]bool{
	"WithTx": true, "Schema": true, "PoolSize": true, "Close": true, "DryRun": true, "Remote": true,
	"OwnUp": true, "Drops": true,
}

// everyMethod calls all methods of a store, of its dry run and of its verbs for services, as they
// would succeed, and passes on what comes of each.
func everyMethod(t *testing.T, store *stint.Store, owned stint.OwnedTask) map[string]error {
	t.Helper()
	errs := map[string]error{}
	for _, of := range []any{store, store.DryRun(), store.Remote()} {
		value := reflect.ValueOf(of)
		for i := range value.NumMethod() {
			name := value.Type().Method(i).Name
			if notVerbs[name] {
				continue
			}
			errs[fmt.Sprintf("%T.%s", of, name)] = callMethod(t, name, value.Method(i), owned)
		}
	}
	return errs
}

// callMethod calls a method with what its parameters take.
func callMethod(t *testing.T, name string, method reflect.Value, owned stint.OwnedTask) error {
	t.Helper()
	lost := make(chan error, 1)
	given := map[reflect.Type]any{}
	for _, value := range []any{
		stint.ActorID("actor"),
		[]string{"act"},
		"act", time.Hour, 1, 0.5, int64(1), owned,
		owned.ID, owned.Token,
		[]stint.TaskID{owned.ID},
		[]stint.OwnedTask{owned},
		[]byte("1"),
		stint.Task{ID: "new", Action: "act"},
		[]stint.Task{{ID: "new", Action: "act"}},
		stint.TaskChanges{StartNow: true},
		stint.Limits{Concurrency: 3},
		map[string]int{"k": 2},
		stint.Filter{},
		stint.ChangeFilter{},
		stint.StatusCompleted,
		[]stint.Return{{ID: owned.ID, Token: owned.Token, Code: stint.StatusCompleted}},
		[]stint.Answer{{ID: "external", Code: stint.StatusCompleted}},
		stint.Want{Actor: "actor", MaxTasks: 1, Actions: []string{"act"}, Lease: time.Hour},
		[]stint.Dependency{{Predecessor: owned.ID, Dependent: "waits"}},
		[]stint.Schedule{{Name: "daily", Spec: "@daily", Tasks: []stint.Task{{Action: "act"}}}},
		stint.Claim{Number: 7, Session: 1},
		stint.RemoteActor{Actor: "actor", Session: 1, Epoch: 1},
		stint.Cursor(""), func(*stint.Store) error { return nil },
		func() []stint.OwnedTask { return []stint.OwnedTask{owned} },
		func(_ stint.OwnedTask, err error) { lost <- err },
		iter.Seq2[stint.Task, error](func(yield func(stint.Task, error) bool) {
			yield(stint.Task{ID: "streamed", Action: "act"}, nil)
		}),
	} {
		given[reflect.TypeOf(value)] = value
	}
	args := []reflect.Value{}
	for i := range method.Type().NumIn() {
		parameter := method.Type().In(i)
		switch value, ok := given[parameter]; {
		case parameter == reflect.TypeFor[context.Context]():
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			args = append(args, reflect.ValueOf(ctx))
		case ok:
			args = append(args, reflect.ValueOf(value))
		default:
			t.Fatalf("the test does not know what to give %s as a %s", name, parameter)
		}
	}
	call := method.Call
	if method.Type().IsVariadic() {
		call = method.CallSlice
	}
	for _, result := range call(args) {
		switch result := result.Interface().(type) {
		case error:
			return result
		case context.Context:
			return context.Cause(result)
		}
	}
	if name == "WatchOwnership" {
		return <-lost
	}
	return nil
}

// wholeTables is what all tables of the schema hold.
func wholeTables(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return yields[string](t, pool, `SELECT string_agg(relname || query_to_xml(
			format('SELECT * FROM stint.%I AS t ORDER BY t::text', relname), true, true, '')::text,
			'' ORDER BY relname)
		FROM pg_catalog.pg_class WHERE relnamespace = 'stint'::regnamespace AND relkind = 'r'`)
}

// A transaction that was forgotten never means that there is to be none.
// Proves G295.
func TestWithTx_RefusesEveryVerbWithoutATransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "owned", Action: "act", PostResult: true})
	owned := ownOne(t, store)
	insert(t, store, stint.Task{ID: "ready", Action: "act"},
		stint.Task{ID: "external", Action: stint.External},
		stint.Task{ID: "waits", Action: "act", After: []stint.TaskID{"external"}})
	before := wholeTables(t, pool)
	for name, tx := range missingTxs() {
		calls := everyMethod(t, store.WithTx(tx), owned)
		if len(calls) < 70 {
			t.Errorf("with %s only %d methods were called", name, len(calls))
		}
		for verb, err := range calls {
			var refused *stint.ArgumentError
			if !errors.As(err, &refused) || refused.Argument != "tx" ||
				!errors.Is(err, stint.ErrInvalidArgument) {
				t.Errorf("%s with %s = %v, want an ArgumentError about tx", verb, name, err)
			}
		}
		for what, err := range map[string]error{
			"InsertTasks": store.WithTx(tx).InsertTasks(t.Context(), nil),
			"AbortTasks":  errOf(store.WithTx(tx).AbortTasks(t.Context(), nil, "")),
			"ReturnTasks": errOf(store.WithTx(tx).ReturnTasks(t.Context(), nil)),
		} {
			wantErr(t, what+" of nothing with "+name, err, stint.ErrInvalidArgument)
		}
	}
	if after := wholeTables(t, pool); after != before {
		t.Errorf("the tables have changed from\n%s\nto\n%s", before, after)
	}
}

// What is around a transaction does not make it look like none, and a store that was refused leads
// to one that works.
func TestWithTx_TakesATransactionWithAnythingAroundIt(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	for i, in := range []pgx.Tx{
		tx, stint.Quiet(tx),
		tracedTx{tx},
		&tracedTx{tx},
		tracedTx{stint.Quiet(tracedTx{tx})},
		stint.Quiet(stint.Quiet(tx)),
	} {
		insert(t, store.WithTx(nil).WithTx(in), numbered(fmt.Sprint(i, "/"), 2)...)
	}
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.tasks"); n != 0 {
		t.Errorf("%d tasks are left behind the rollback", n)
	}
}
