// Package importtest tests the command import with the tables that other queues make themselves. It
// is a module of its own, so that Stint does not depend on them.
package importtest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/command"
	"github.com/stint-tasks/stint/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A database has the tables of Stint, and is about to get those of another queue.
type database struct {
	*pgxpool.Pool
	store *stint.Store
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	config := testdb.New(t).Config()
	// The account has the name of the schema of Stint, which would come first.
	config.ConnConfig.RuntimeParams["search_path"] = "public"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return &database{pool, store}
}

func (db *database) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// stint runs the command on the database.
func (db *database) stint(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return db.stintUntil(t.Context(), args...)
}

// stintUntil runs the command, and interrupts it when ctx ends. There is no terminal, so an import
// is not to ask.
func (db *database) stintUntil(
	ctx context.Context, args ...string,
) (stdout, stderr string, code int) {
	var out, said bytes.Buffer
	args = append([]string{"--database-url", testdb.URL(db.Pool)}, args...)
	if slices.Contains(args, "import") && !slices.Contains(args, "--dry-run") {
		args = append(args, "--yes")
	}
	code = command.Run(ctx, args, strings.NewReader(""), &out, &said)
	return out.String(), said.String(), code
}

// imported is what import --json prints.
type imported struct {
	Imported, WouldImport []struct {
		Kind, Action     string
		Ready, Scheduled int
	}
	Left    map[string]int64
	Refused []struct{ Job, Kind, Problem string }
}

func (db *database) imports(t *testing.T, args ...string) (printed imported) {
	t.Helper()
	stdout, stderr, code := db.stint(t, append([]string{"import", "--json"}, args...)...)
	if code != 0 {
		t.Fatalf("import exited with %d: %s", code, stderr)
	}
	stdout = strings.Replace(stdout, "would_import", "wouldImport", 1)
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil {
		t.Fatalf("import printed %q: %v", stdout, err)
	}
	return printed
}

// tasks are those that were imported, by their IDs.
func (db *database) tasks(t *testing.T) map[stint.TaskID]stint.TaskInfo {
	t.Helper()
	all := map[stint.TaskID]stint.TaskInfo{}
	page, err := db.store.ListTasks(t.Context(), stint.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range page.Tasks { // without bodies
		task, err := db.store.GetTasks(t.Context(), []stint.TaskID{listed.ID})
		if err != nil {
			t.Fatal(err)
		}
		all[listed.ID] = task[0]
	}
	return all
}

// agrees checks that the tables of the store agree with one another.
func (db *database) agrees(t *testing.T) {
	t.Helper()
	found, err := db.store.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, inconsistency := range found {
		t.Error(inconsistency)
	}
}
