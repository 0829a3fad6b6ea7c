package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stintsql"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/structures"
	"github.com/stint-tasks/stint/worker"
)

// bill writes an invoice once, however often it is called: the row and the end of the task are one
// commit, which fails if the task has passed to another owner.
func bill(pool *pgxpool.Pool) worker.Handler {
	return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		return worker.Result{}, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO invoices (customer) VALUES ($1)", string(task.Body))
			if err != nil {
				return err
			}
			return task.ReturnIn(ctx, tx, worker.Result{Status: "billed"})
		})
	}
}

// pay asks a payment provider, which performs requests with the same key once.
func pay(url string) worker.Handler {
	return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url,
			strings.NewReader(string(task.Body)))
		if err != nil {
			return worker.Result{}, worker.Abort(err) // another try would find the same
		}
		request.Header.Set("Idempotency-Key", string(task.ID)) // the same at every try
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return worker.Result{}, err // it may have been performed: another try asks again
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return worker.Result{}, fmt.Errorf("payment: %s", response.Status)
		}
		return worker.Result{Status: "paid"}, nil
	}
}

// signUp adds a customer, and the task that sends a mail: both or neither.
func signUp(ctx context.Context, pool *pgxpool.Pool, store *stint.Store, name string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO customers (name) VALUES ($1)", name)
		if err != nil {
			return err
		}
		return store.WithTx(tx).InsertTasks(ctx, []stint.Task{
			{ID: stint.TaskID("welcome/" + name), Action: "mail", Body: []byte(name)},
		})
	})
}

// report has every region counted side by side, then the report written, and returns it.
func report(
	ctx context.Context, store *stint.Store, name string, regions []string,
) (string, error) {
	plan, err := structures.Build("report/"+name, structures.Chord(
		structures.Task{Action: "write-report"}, // its handler gets the counts from task.Inputs
		structures.Map(regions, func(region string) structures.Task {
			return structures.Task{Action: "count", Body: []byte(region)}
		}),
	))
	if err != nil {
		return "", err
	}
	err = store.InsertTasks(ctx, plan.Tasks)
	if err != nil && !errors.Is(err, stint.ErrTaskExists) { // exists: join who asked before
		return "", err
	}
	end, err := store.WaitForTask(ctx, plan.End) // as long as ctx allows
	switch {
	case err != nil:
		return "", err
	case end.StatusCode == stint.StatusAborted:
		return "", fmt.Errorf("report %s: %s %s", name, end.AbortCause, end.Status)
	}
	return string(end.Result), nil
}

// billSQL is bill with database/sql. GORM, bun, ent and sqlx have such a transaction too.
func billSQL(db *sql.DB) worker.Handler {
	return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return worker.Result{}, err
		}
		defer tx.Rollback() // does nothing after the commit
		_, err = tx.ExecContext(ctx, "INSERT INTO invoices (customer) VALUES ($1)",
			string(task.Body))
		if err != nil {
			return worker.Result{}, err
		}
		bound, err := stintsql.PgxTx(ctx, tx)
		if err != nil {
			return worker.Result{}, err
		}
		result := worker.Result{Status: "billed", Bytes: []byte("for the tasks that wait for it")}
		if err := task.ReturnIn(ctx, bound, result); err != nil {
			return worker.Result{}, err
		}
		return worker.Result{}, tx.Commit()
	}
}

// An owner whose task was handed on writes nothing.
func TestBill_WritesOneInvoice(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := stinttest.New(t, stint.Options{})
	db := stdlib.OpenDBFromPool(store.Pool)
	t.Cleanup(func() { _ = db.Close() })
	exec(t, store, "CREATE TABLE invoices (customer text)")
	insert(t, store, stint.Task{ID: "bill", Action: "bill", Body: []byte("ann")},
		stint.Task{ID: "billSQL", Action: "billSQL", Body: []byte("bob"), PostResult: true})

	late := func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			if task.Try > 1 {
				return next(ctx, task)
			}
			stinttest.ExpireLeases(t, store, task.ID)
			w := newWorker(t, store, worker.Handle(task.Action, next))
			if _, ok, err := w.PerformNext(t.Context()); !ok || err != nil {
				t.Errorf("PerformNext = %v, %v", ok, err)
			}
			result, err := next(context.WithoutCancel(ctx), task)
			if !errors.Is(err, stint.ErrInvalidToken) {
				t.Errorf("the late owner of %s gets %v", task.ID, err)
			}
			return result, err
		}
	}
	stinttest.Drain(t, store, newWorker(t, store, worker.Handle("bill", late(bill(store.Pool))),
		worker.Handle("billSQL", late(billSQL(db)))))
	var invoices string
	err := store.Pool.QueryRow(t.Context(),
		"SELECT string_agg(customer, ' ' ORDER BY customer) FROM invoices").Scan(&invoices)
	if invoices != "ann bob" || err != nil {
		t.Errorf("invoices of %s, %v, want one each of ann and bob", invoices, err)
	}
	info, err := store.WaitForTask(t.Context(), "billSQL")
	if string(info.Result) != "for the tasks that wait for it" || err != nil {
		t.Errorf("the result is %q, %v", info.Result, err)
	}
}

func TestPay_RepeatsItsKey(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	var keys []string
	provider := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			if len(keys) == 1 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}))
	t.Cleanup(provider.Close)
	insert(t, store, stint.Task{ID: "pay/7", Action: "pay"})
	stinttest.Drain(t, store, newWorker(t, store, worker.Handle("pay", pay(provider.URL))),
		stinttest.WithScheduled())
	if got := strings.Join(keys, " "); got != "pay/7 pay/7" {
		t.Errorf("the keys are %q", got)
	}
}

func TestSignUp_AddsBothOrNeither(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	exec(t, store, "CREATE TABLE customers (name text PRIMARY KEY)")
	if err := signUp(t.Context(), store.Pool, store.Store, "ann"); err != nil {
		t.Errorf("signUp = %v", err)
	}
	stinttest.RequireInserted(t, store, stint.Task{ID: "welcome/ann", Body: []byte("ann")})
	exec(t, store, "INSERT INTO customers VALUES ('bob')")
	if err := signUp(t.Context(), store.Pool, store.Store, "bob"); err == nil {
		t.Error("signUp succeeds for a customer who is there")
	}
	stinttest.RequireNotInserted(t, store, stint.Task{Action: "mail", Body: []byte("bob")})
}

func TestReport_IsSharedByThoseWhoAsk(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := stinttest.New(t, stint.Options{})
	count := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		return worker.Result{Bytes: task.Body}, nil
	}
	write := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		inputs, err := task.Inputs(ctx)
		var all []string
		for _, input := range inputs {
			all = append(all, string(input.Result))
		}
		return worker.Result{Bytes: []byte(strings.Join(all, "+"))}, err
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := newWorker(t, store, worker.Handle("count", count), worker.Handle("write-report", write))
	go func() { ended <- w.Run(ctx) }()
	for range 2 {
		text, err := report(t.Context(), store.Store, "2026", []string{"north", "south"})
		if text != "north+south" && text != "south+north" || err != nil {
			t.Errorf("report = %q, %v", text, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func newWorker(
	t *testing.T, store *stinttest.Store, handlers ...worker.Registration,
) *worker.Worker {
	t.Helper()
	w, err := worker.New(store.Store, worker.Options{}, handlers...)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return w
}

func insert(t *testing.T, store *stinttest.Store, tasks ...stint.Task) {
	t.Helper()
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatalf("InsertTasks = %v", err)
	}
}

func exec(t *testing.T, store *stinttest.Store, sql string) {
	t.Helper()
	if _, err := store.Pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
