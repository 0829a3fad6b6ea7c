package taskstore_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
)

// The durability of each transaction is its own. IDs are reserved on disk in any case.
// Proves G131.
func TestDurability_IsThatOfTheTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, test := range []struct {
		durability      stint.Durability
		server          string
		change, reserve string
	}{
		{stint.Strict, "on", "on", "on"},
		{stint.Strict, "off", "off", "on"},
		{stint.Strict, "local", "local", "local"},
		{stint.Opportunistic, "on", "off", "on"},
		{stint.Opportunistic, "off", "off", "on"},
		{stint.Opportunistic, "local", "off", "local"},
	} {
		t.Run(test.server, func(t *testing.T) {
			t.Parallel()
			clean := testdb.New(t)
			exec(t, clean, `
				CREATE TABLE public.seen (relation text, setting text);
				CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS
				$$BEGIN
					INSERT INTO public.seen
					VALUES (TG_TABLE_NAME, pg_catalog.current_setting('synchronous_commit'));
					RETURN NEW;
				END$$;
				CREATE TRIGGER see BEFORE INSERT ON stint.taskstore_tasks
					FOR EACH ROW EXECUTE FUNCTION public.see();
				CREATE TRIGGER see BEFORE UPDATE ON stint.taskstore_reserved
					FOR EACH ROW EXECUTE FUNCTION public.see()`)
			pool := poolOf(t, clean, func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams["synchronous_commit"] = test.server
			})
			store := openStore(t, pool, taskstore.Options{Durability: test.durability})
			add(t, store, "g", "a")
			mustClaim(t, store, ann, "g")
			want := []string{
				"taskstore_reserved " + test.reserve, "taskstore_tasks " + test.change,
			}
			got := yields[[]string](t, clean, `SELECT array_agg(DISTINCT
				relation || ' ' || setting ORDER BY relation || ' ' || setting) FROM public.seen`)
			if !slices.Equal(got, want) {
				t.Errorf("the settings are %q, want %q", got, want)
			}
			if left := yields[string](t, pool, "SHOW synchronous_commit"); left != test.server {
				t.Errorf("the setting is %s afterwards, want %s", left, test.server)
			}
		})
	}
}
