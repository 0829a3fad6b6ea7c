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
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

func TestMain(m *testing.M) { stinttest.Main(m) }

// newShop returns a store on a database that has orders, and the functions add_task and
// finish_task.
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
	return runFor(t, store, stint.OwnedTask{}, program, args...)
}

// runFor runs a program as stint worker does for a task.
func runFor(
	t *testing.T, store *stinttest.Store, task stint.OwnedTask, program string, args ...string,
) (string, error) {
	t.Helper()
	config := store.Pool.Config().ConnConfig
	cmd := process.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "PGHOST="+config.Host, "PGDATABASE="+config.Database,
		"PGPORT="+strconv.Itoa(int(config.Port)), "PGUSER="+config.User,
		"PGPASSWORD="+config.Password,
		"STINT_TASK_ID="+string(task.ID), "STINT_TASK_TOKEN="+task.Token.String())
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// A program ends its task with its rows, once, and a late one does neither.
// Proves G333.
func TestPrograms_EndTheirTasksWithTheirRows(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, of := range map[string]func(*testing.T) []string{
		"psql": func(t *testing.T) []string {
			t.Helper()
			return []string{psql(t), "-X", "-v", "ON_ERROR_STOP=1", "-f", "receipt.sql"}
		},
		"Python": func(t *testing.T) []string {
			t.Helper()
			return []string{python(t), "receipt.py"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := of(t)
			store := newShop(t)
			exec(t, store, "CREATE TABLE receipts (task text, item text)")
			late, order := ownReceipt(t, store, "late"), ownReceipt(t, store, "order")
			_, err := store.AbortTasks(t.Context(), []stint.TaskID{late.ID}, "")
			if err != nil {
				t.Fatal(err)
			}
			output, err := runFor(t, store, late, program[0], program[1:]...)
			if err == nil {
				t.Errorf("the late program has written %s", output)
			}
			output, err = runFor(t, store, order, program[0], program[1:]...)
			if err != nil {
				t.Errorf("%v\n%s", err, output)
			}
			_, _ = runFor(t, store, order, program[0], program[1:]...) // changes nothing any more
			infos, err := store.GetTasks(t.Context(), []stint.TaskID{"order"})
			var receipts string
			if err == nil {
				err = store.Pool.QueryRow(t.Context(),
					"SELECT string_agg(task, ', ') FROM receipts").Scan(&receipts)
			}
			if err != nil || receipts != "order" || infos[0].State != stint.StateCompleted {
				t.Errorf("the receipts are of %s, the tasks %v, %v", receipts, infos, err)
			}
		})
	}
}

// ownReceipt inserts a task and owns it.
func ownReceipt(t *testing.T, store *stinttest.Store, id stint.TaskID) stint.OwnedTask {
	t.Helper()
	err := store.InsertTasks(t.Context(), []stint.Task{{ID: id, Action: "receive"}})
	if err != nil {
		t.Fatal(err)
	}
	owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"receive"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	return owned[0]
}

// A worker whose program, or handler, has ended its task finds that its return is made.
// Proves G333.
func TestWorker_AcceptsThatTheTaskHasEndedAlready(t *testing.T) {
	t.Parallel()
	store := newShop(t)
	err := store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "receive"}, {ID: "b", Action: "receive", After: []stint.TaskID{"a"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	performed := 0
	w, err := worker.New(store.Store, worker.Options{}, worker.Handle("receive",
		func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			performed++
			_, err := store.Pool.Exec(ctx, "SELECT stint.finish_task($1, $2::text::uuid, "+
				"result => 'mine')", string(task.ID), task.Token.String())
			return worker.Result{Bytes: []byte("another")}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	stinttest.Drain(t, store, w)
	infos, err := store.GetTasks(t.Context(), []stint.TaskID{"a", "b"})
	for _, info := range infos {
		if info.State != stint.StateCompleted || string(info.Result) != "mine" || info.Tries != 1 {
			t.Errorf("%s is %s after %d tries, with the result %q", info.ID, info.State, info.Tries,
				info.Result)
		}
	}
	if err != nil || performed != 2 {
		t.Errorf("%d tasks were performed, %v", performed, err)
	}
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
		"sql":    {"order.sql", "trigger.sql", "receipt.sql"},
		"python": {"order.py", "receipt.py"},
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
