package anylanguage

import (
	"context"
	"errors"
	"fmt"
	"os"
	process "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

func TestMain(m *testing.M) { stinttest.Main(m) }

// newShop returns a store on a database that has orders, and the function add_task.
func newShop(t *testing.T) *stinttest.Store {
	t.Helper()
	store := stinttest.New(t, stint.Options{})
	text, err := migrations.Functions(migrations.DefaultSchema)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, store, text)
	exec(t, store, "CREATE TABLE orders (number bigint, item text NOT NULL)")
	return store
}

func exec(t *testing.T, store *stinttest.Store, sql string) {
	t.Helper()
	if _, err := store.Pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// wantReceipts checks that a worker in Go sends these receipts and no others, and how many orders
// there are.
func wantReceipts(t *testing.T, store *stinttest.Store, orders int, want ...string) {
	t.Helper()
	var sent []string
	w, err := worker.New(store.Store, worker.Options{}, worker.Handle("send-receipt",
		func(_ context.Context, task *worker.Task) (worker.Result, error) {
			sent = append(sent, fmt.Sprintf("%s: %s", task.ID, task.Body))
			return worker.Result{}, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	stinttest.Drain(t, store, w, stinttest.WithScheduled())
	slices.Sort(sent)
	if !slices.Equal(sent, want) {
		t.Errorf("the receipts are %q, want %q", sent, want)
	}
	var n int
	err = store.Pool.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n)
	if err != nil || n != orders {
		t.Errorf("there are %d orders, want %d, %v", n, orders, err)
	}
}

// run runs a program that knows by its environment which database is meant.
func run(t *testing.T, store *stinttest.Store, program string, args ...string) (string, error) {
	t.Helper()
	config := store.Pool.Config().ConnConfig
	cmd := process.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "PGHOST="+config.Host, "PGDATABASE="+config.Database,
		"PGPORT="+strconv.Itoa(int(config.Port)), "PGUSER="+config.User,
		"PGPASSWORD="+config.Password)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// psql is PostgreSQL's psql. Where all tests have to run, it has to be there.
func psql(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
	if err != nil {
		t.Fatal(err)
	}
	found = append(found, "psql", filepath.Join(os.Getenv("STINT_PG_BIN"), "psql"))
	for _, program := range found {
		if path, err := process.LookPath(program); err == nil {
			return path
		}
	}
	testrun.Missing(t, "there is no psql here: apt-get install postgresql-client")
	return ""
}

func TestPsql_PlacesAnOrderWithItsTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newShop(t)
	program := psql(t)
	for _, again := range []bool{false, true} { // the second time the ID is taken
		output, err := run(t, store, program, "-X", "-v", "ON_ERROR_STOP=1", "-f", "order.sql")
		if (err != nil) != again || strings.Contains(output, `task exists: "receipt/7"`) != again {
			t.Errorf("psql = %v\n%s", err, output)
		}
	}
	wantReceipts(t, store, 1, "receipt/7: tea")
}

// python is a Python with psycopg2.
func python(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"python3", "/usr/bin/python3"} {
		err := process.CommandContext(t.Context(), program, "-c", "import psycopg2").Run()
		if err == nil {
			return program
		}
	}
	t.Skip("there is no Python with psycopg2 here: apt-get install python3-psycopg2")
	return ""
}

func TestPython_PlacesAnOrderWithItsTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	program := python(t)
	store := newShop(t)
	database := "dbname=" + store.Pool.Config().ConnConfig.Database
	for _, again := range []bool{false, true} {
		output, err := run(t, store, program, "order.py", database, "8", "coffee")
		if (err != nil) != again || strings.Contains(output, "has its task already") != again ||
			!strings.Contains(output, "receipt/8") {
			t.Errorf("%s = %v\n%s", program, err, output)
		}
	}
	wantReceipts(t, store, 1, "receipt/8: coffee")
}

func TestTrigger_InsertsTheTaskOfAnOrder(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newShop(t)
	text, err := os.ReadFile("trigger.sql")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, store, string(text))
	exec(t, store, "INSERT INTO orders VALUES (9, 'milk'), (10, 'bread')")
	_, err = store.Pool.Exec(t.Context(), "INSERT INTO orders VALUES (11, 'salt'), (9, 'rice')")
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "STI01" {
		t.Errorf("INSERT = %v, want that the task exists", err)
	}
	wantReceipts(t, store, 2, "receipt/10: bread", "receipt/9: milk")
}

// What the page shows is in these files, word for word.
func TestPage_ShowsTheseFiles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guides/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	for language, files := range map[string][]string{
		"sql": {"order.sql", "trigger.sql"}, "python": {"order.py"},
	} {
		var source strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
		fence := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
		blocks := fence.FindAllStringSubmatch(string(page), -1)
		if len(blocks) < len(files) {
			t.Errorf("the page has %d blocks of %s", len(blocks), language)
		}
		for _, block := range blocks {
			if !strings.Contains(source.String(), block[1]) {
				t.Errorf("no file has this block:\n%s", block[1])
			}
		}
	}
}
