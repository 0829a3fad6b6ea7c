package stint_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// noteCommits has the database note with which durability the transactions commit that write a row
// of a table.
const noteCommits = `
	CREATE TABLE public.commits (relation text, setting text);
	CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN
		INSERT INTO public.commits
		VALUES (TG_TABLE_NAME, pg_catalog.current_setting('synchronous_commit'));
		RETURN NULL;
	END$$;
	CREATE CONSTRAINT TRIGGER note AFTER INSERT ON stint.tasks DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION public.note();
	CREATE CONSTRAINT TRIGGER note AFTER INSERT ON stint.leases DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION public.note();
	CREATE CONSTRAINT TRIGGER note AFTER INSERT ON stint.finished DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION public.note()`

// wantCommits checks with which durability transactions committed since the last call.
func wantCommits(t *testing.T, pool *pgxpool.Pool, when string, want ...string) {
	t.Helper()
	got := yields[[]string](t, pool, `SELECT coalesce(array_agg(DISTINCT
		relation || ' ' || setting ORDER BY relation || ' ' || setting), '{}') FROM public.commits`)
	if !slices.Equal(got, want) {
		t.Errorf("%s, transactions committed with %q, want %q", when, got, want)
	}
	exec(t, pool, "TRUNCATE public.commits")
}

// The durability is that of the store's own transactions, and no other.
// Proves G158.
func TestDurability_IsThatOfTheStoresOwnTransactions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, test := range []struct {
		name       string
		durability stint.Durability
		set, early string
	}{
		{"strict", stint.Strict, "on", "on"},
		{"strict on a server that is not", stint.Strict, "off", "off"},
		{"strict with local commits", stint.Strict, "local", "local"},
		{"opportunistic", stint.Opportunistic, "on", "off"},
		{"opportunistic with local commits", stint.Opportunistic, "local", "off"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			clean := testdb.New(t)
			exec(t, clean, noteCommits)
			pool := poolOf(t, clean, func(config *pgxpool.Config) {
				config.MaxConns = 1
				config.ConnConfig.RuntimeParams["synchronous_commit"] = test.set
			})
			store := openStore(t, pool, stint.Options{
				Durability: test.durability, Maintenance: stint.MaintainNever, PollOnly: true,
			})
			t.Cleanup(func() { checkStore(t, clean) })
			wantDurability(t, store, pool, clean, test.set, test.early)
		})
	}
}

// wantDurability checks that transactions commit as the connection is set up to, or early.
func wantDurability(
	t *testing.T, store *stint.Store, pool, clean *pgxpool.Pool, set, early string,
) {
	t.Helper()
	insert(t, store, stint.Task{ID: "first", Action: "act"}) // allocates keys
	insert(t, store, numbered("few", 2)...)
	complete(t, store, own(t, store, 3)...)
	wantCommits(t, clean, "after few tasks",
		"finished "+early, "leases "+early, "tasks "+early)
	insert(t, store, numbered("many", 100)...)
	_, err := store.InsertTasksFrom(t.Context(), stream(numbered("stream", 2), nil))
	wantErr(t, "InsertTasksFrom", err, nil)
	// Keys that were allocated are on disk: the store remembers tasks by them.
	wantCommits(t, clean, "after many tasks", "tasks "+set)
	tx := begin(t, pool)
	insert(t, store.WithTx(tx), numbered("inside", 2)...)
	own, err := store.WithTx(tx).OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
	if err != nil || len(own) != 1 {
		t.Errorf("OwnTasks = %v, %v", own, err)
	}
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantCommits(t, clean, "after a transaction of the caller", "leases "+set, "tasks "+set)
	if left := yields[string](t, pool, "SHOW synchronous_commit"); left != set {
		t.Errorf("the setting is %s afterwards, want %s", left, set)
	}
}

func TestNew_RefusesADurabilityThatThereIsNot(t *testing.T) {
	t.Parallel()
	_, err := stint.New(testdb.NewEmpty(t), stint.Options{Durability: 2})
	wantErr(t, "New", err, stint.ErrInvalidArgument)
}
