package stintsql_test

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stintsql"
	"github.com/stint-tasks/stint/worker"
)

// Proves G77.
func TestPgxTx_CommitsAllOrNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newService(t, stint.Options{})
	_, err := s.db.ExecContext(t.Context(), "CREATE TABLE mine (id text)")
	wantErr(t, "CREATE TABLE", err, nil)
	insert(t, s.Store, stint.Task{ID: "first", Action: "begin"})
	task := own(t, s.Store, 1, "begin")[0]
	for _, commit := range []bool{false, true} {
		tx, inside := s.begin(t)
		_, err := tx.ExecContext(t.Context(), "INSERT INTO mine VALUES ($1)", "row")
		wantErr(t, "INSERT", err, nil)
		insert(t, inside, stint.Task{ID: "second", Action: "act"})
		insert(t, inside, numbered("copied", 100)...)
		err = inside.ReturnTask(t.Context(), "first", task.Token, "", stint.StatusCompleted)
		wantErr(t, "ReturnTask", err, nil)
		if got := stateOf(t, inside, "first"); got != stint.StateCompleted {
			t.Errorf("inside the transaction the task is %s", got)
		}
		if got := stateOf(t, s.Store, "first"); got != stint.StateInProgress {
			t.Errorf("outside the transaction the task is %s", got)
		}
		rows, tasks, state := 0, 0, stint.StateInProgress
		if commit {
			wantErr(t, "Commit", tx.Commit(), nil)
			rows, tasks, state = 1, 101, stint.StateCompleted
		} else {
			wantErr(t, "Rollback", tx.Rollback(), nil)
		}
		if got := count(t, s.db, "SELECT count(*) FROM mine"); got != rows {
			t.Errorf("committed %t: %d rows, want %d", commit, got, rows)
		}
		got := count(t, s.db, "SELECT count(*) FROM stint.tasks WHERE action = 'act'")
		if got != tasks || stateOf(t, s.Store, "first") != state {
			t.Errorf("committed %t: %d tasks, want %d", commit, got, tasks)
		}
	}
}

// Proves G77.
func TestPgxTx_ARefusedVerbLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	s := newService(t, stint.Options{})
	ctx := t.Context()
	insert(t, s.Store, numbered("t", 2)...)
	task := own(t, s.Store, 1, "act")[0]
	stale := task
	_, err := s.AbortTasks(ctx, []stint.TaskID{stale.ID}, "")
	wantErr(t, "AbortTasks", err, nil)
	tx, inside := s.begin(t)
	insert(t, inside, stint.Task{ID: "before", Action: "act"})
	for name, refused := range map[string]struct {
		verb func() error
		want error
	}{
		"InsertTasks": {func() error {
			return inside.InsertTasks(ctx, numbered("t", 1))
		}, stint.ErrTaskExists},
		"InsertTasks by COPY": {func() error {
			return inside.InsertTasks(ctx, append(numbered("n", 100), numbered("t", 1)...))
		}, stint.ErrTaskExists},
		"InsertTasksFrom": {func() error {
			_, err := inside.InsertTasksFrom(ctx, stream(numbered("t", 1)))
			return err
		}, stint.ErrTaskExists},
		"ReturnTask": {func() error {
			return inside.ReturnTask(ctx, stale.ID, stale.Token, "", stint.StatusCompleted)
		}, stint.ErrInvalidToken},
		"AddDependencies": {func() error {
			return inside.AddDependencies(ctx, []stint.Dependency{{
				Predecessor: "nobody", Dependent: "t/1",
			}})
		}, stint.ErrTaskNotFound},
		"an ended context": {func() error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return inside.InsertTasks(ctx, numbered("late", 1))
		}, context.Canceled},
	} {
		wantErr(t, name, refused.verb(), refused.want)
		if got := count(t, tx, "SELECT count(*) FROM stint.tasks WHERE id = 'before'"); got != 1 {
			t.Fatalf("after %s the transaction is undone", name)
		}
	}
	insert(t, inside, stint.Task{ID: "after", Action: "act"})
	wantErr(t, "Commit", tx.Commit(), nil)
	if got := stateOf(t, s.Store, "after"); got != stint.StateReady {
		t.Errorf("after the commit the task is %s", got)
	}
}

func stream(tasks []stint.Task) iter.Seq2[stint.Task, error] {
	return func(yield func(stint.Task, error) bool) {
		for _, task := range tasks {
			if !yield(task, nil) {
				return
			}
		}
	}
}

func TestPgxTx_TakesAStream(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newService(t, stint.Options{})
	tx, inside := s.begin(t)
	const n = 3000
	got, err := inside.InsertTasksFrom(t.Context(), stream(numbered("t", n)))
	if err != nil || got != n {
		t.Fatalf("InsertTasksFrom = %d, %v", got, err)
	}
	wantErr(t, "Commit", tx.Commit(), nil)
	if got := count(t, s.db, "SELECT count(*) FROM stint.tasks"); got != n {
		t.Errorf("%d tasks are stored, want %d", got, n)
	}
}

// The verbs that may be called in a transaction work in one of database/sql.
// Proves G77.
func TestPgxTx_AllVerbsWork(t *testing.T) {
	t.Parallel()
	s := newService(t, stint.Options{})
	ctx := t.Context()
	tx, inside := s.begin(t)
	insert(t, inside, append(numbered("t", 5),
		stint.Task{ID: "join", Action: stint.Spontaneous, After: []stint.TaskID{"t/0", "t/1"}},
		stint.Task{ID: "last", Action: "last", After: []stint.TaskID{"join"}})...)
	wantErr(t, "AddDependencies", inside.AddDependencies(ctx, []stint.Dependency{{
		Predecessor: "t/2", Dependent: "last",
	}}), nil)
	wantErr(t, "ReplaceTasks", inside.ReplaceTasks(ctx, []stint.Task{{
		ID: "t/3", Action: "act", Body: []byte("new"),
	}}), nil)
	owned := own(t, inside, 3, "act")
	kept, err := inside.ExtendTasksOwnership(ctx, "actor", owned, 2*time.Hour)
	if err != nil || len(kept) != 3 || !kept[0] {
		t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	wantErr(t, "SetStatus", inside.SetStatus(ctx, owned[0], "half", 0.5), nil)
	wantErr(t, "HoldOwnership", inside.HoldOwnership(ctx, owned), nil)
	returns := make([]stint.Return, len(owned))
	for i, task := range owned {
		returns[i] = stint.Return{
			ID: task.ID, Token: task.Token, Code: stint.StatusCompleted, Result: []byte(task.ID),
		}
	}
	verdicts, err := inside.ReturnTasks(ctx, returns)
	if err != nil || verdicts[0] != nil || verdicts[2] != nil {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
	last := own(t, inside, 1, "last")[0]
	inputs, err := inside.Inputs(ctx, last)
	if err != nil || len(inputs) != 3 {
		t.Errorf("Inputs = %v, %v", inputs, err)
	}
	_, err = inside.AbortTasks(ctx, []stint.TaskID{"last"}, "no")
	wantErr(t, "AbortTasks", err, nil)
	_, err = inside.RetryTasks(ctx, []stint.TaskID{"last"})
	wantErr(t, "RetryTasks", err, nil)
	_, err = inside.DeleteTasks(ctx, []stint.TaskID{"t/4"})
	wantErr(t, "DeleteTasks", err, nil)
	page, err := inside.ListTasks(ctx, stint.Filter{})
	if err != nil || len(page.Tasks) != 6 {
		t.Errorf("ListTasks = %v, %v", page, err)
	}
	_, err = inside.Explain(ctx, "last")
	wantErr(t, "Explain", err, nil)
	_, err = inside.Graph(ctx, "last")
	wantErr(t, "Graph", err, nil)
	_, err = inside.Stats(ctx)
	wantErr(t, "Stats", err, nil)
	wantErr(t, "Maintain", inside.Maintain(ctx), nil)
	_, err = inside.Prune(ctx)
	wantErr(t, "Prune", err, nil)
	found, err := inside.Check(ctx)
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
	wantErr(t, "Commit", tx.Commit(), nil)
	if got := stateOf(t, s.Store, "last"); got != stint.StateReady {
		t.Errorf("after the commit the task is %s", got)
	}
}

// A handler of the package worker completes its task together with its own rows.
// Proves G77.
func TestPgxTx_ServesAHandler(t *testing.T) {
	t.Parallel()
	s := newService(t, stint.Options{})
	act := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		result := worker.Result{Status: "in the transaction"}
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return result, err
		}
		defer func() { _ = tx.Rollback() }()
		bound, err := stintsql.PgxTx(ctx, tx)
		if err != nil {
			return result, err
		}
		if err := task.ReturnIn(ctx, bound, result); err != nil {
			return result, err
		}
		return result, tx.Commit()
	}
	w, err := worker.New(s.Store, worker.Options{}, worker.Handle("act", act))
	wantErr(t, "New", err, nil)
	insert(t, s.Store, numbered("t", 1)...)
	performed, ok, err := w.PerformNext(t.Context())
	if err != nil || !ok || performed.Err != nil {
		t.Fatalf("PerformNext = %+v, %t, %v", performed, ok, err)
	}
	infos, err := s.GetTasks(t.Context(), []stint.TaskID{"t/0"})
	if err != nil || infos[0].State != stint.StateCompleted ||
		infos[0].Status != "in the transaction" {
		t.Errorf("GetTasks = %+v, %v", infos, err)
	}
}

// With a poll interval of an hour, only a notification can wake the waiter.
// Proves G77.
func TestPgxTx_TheCommitWakesWhoWaits(t *testing.T) {
	t.Parallel()
	s := newService(t, stint.Options{PollInterval: time.Hour})
	waited := make(chan error, 1)
	go func() {
		owned, err := s.WaitToOwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
		if err == nil && len(owned) != 1 {
			t.Errorf("WaitToOwnTasks = %v", owned)
		}
		waited <- err
	}()
	eventually(t, "somebody waits", func() bool {
		return count(t, s.db, "SELECT count(*) FROM stint.sessions WHERE topics <> '{}'") == 1
	})
	tx, inside := s.begin(t)
	insert(t, inside, numbered("t", 1)...)
	select {
	case err := <-waited:
		t.Errorf("WaitToOwnTasks = %v before the commit", err)
	default:
	}
	wantErr(t, "Commit", tx.Commit(), nil)
	select {
	case err := <-waited:
		wantErr(t, "WaitToOwnTasks", err, nil)
	case <-time.After(time.Minute):
		t.Error("the commit woke nobody")
	}
}

// The server finds nothing to remark, such as a transaction within a transaction.
func TestPgxTx_CausesNoWarning(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	config := testdb.New(t).Config()
	var mutex sync.Mutex
	var notices []string
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		mutex.Lock()
		defer mutex.Unlock()
		notices = append(notices, notice.Message)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	wantErr(t, "NewWithConfig", err, nil)
	t.Cleanup(pool.Close)
	s := newServiceOn(t, pool, stint.Options{})
	_, err = s.db.ExecContext(t.Context(), "DO $$BEGIN RAISE WARNING 'heard'; END$$")
	wantErr(t, "RAISE", err, nil)
	tx, inside := s.begin(t)
	insert(t, inside, numbered("t", 1)...)
	insert(t, inside, numbered("n", 100)...)
	wantErr(t, "InsertTasks", inside.InsertTasks(t.Context(), numbered("t", 1)),
		stint.ErrTaskExists)
	wantErr(t, "Commit", tx.Commit(), nil)
	mutex.Lock()
	defer mutex.Unlock()
	if len(notices) != 1 || notices[0] != "heard" {
		t.Errorf("the server said %q", notices)
	}
}

// database/sql rolls back when the context of BeginTx ends. A verb under way comes to its end
// before, and whoever has the connection next finds it in order.
// Proves G78.
func TestPgxTx_ACallEndsBeforeItsTransactionIsRolledBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newService(t, stint.Options{})
	held, first := s.begin(t)
	insert(t, first, numbered("t", 1)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	wantErr(t, "BeginTx", err, nil)
	defer func() { _ = tx.Rollback() }()
	inside := s.WithTx(bind(t, tx))
	insert(t, inside, stint.Task{ID: "before", Action: "act"})
	inserted := make(chan error, 1)
	go func() { inserted <- inside.InsertTasks(t.Context(), numbered("t", 1)) }()
	eventually(t, "the verb waits for the first transaction", func() bool {
		return count(t, s.db, "SELECT count(*) FROM pg_locks WHERE NOT granted AND "+
			"pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())") == 1
	})
	cancel()
	wantErr(t, "Rollback", held.Rollback(), nil)
	wantErr(t, "InsertTasks", <-inserted, nil)
	eventually(t, "the transaction is closed", func() bool {
		return errors.Is(inside.InsertTasks(t.Context(), numbered("n", 1)), pgx.ErrTxClosed)
	})
	if got := count(t, s.db, "SELECT count(*) FROM stint.tasks"); got != 0 {
		t.Errorf("%d tasks of transactions that were rolled back are stored", got)
	}
	insert(t, s.Store, numbered("t", 1)...)
}

// A verb that fails while database/sql rolls back leaves the connection alone, which -race watches.
func TestPgxTx_AFailedCallLeavesTheConnectionToTheRollback(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newService(t, stint.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	insert(t, s.Store, numbered("t", 1)...)
	held, _ := s.begin(t)
	_, err := held.ExecContext(t.Context(), "LOCK TABLE stint.tasks IN SHARE MODE")
	wantErr(t, "LOCK", err, nil)
	tx, err := s.db.BeginTx(ctx, nil)
	wantErr(t, "BeginTx", err, nil)
	defer func() { _ = tx.Rollback() }()
	inside := s.WithTx(bind(t, tx))
	inserted := make(chan error, 1)
	go func() { inserted <- inside.InsertTasks(t.Context(), numbered("n", 1)) }()
	eventually(t, "the verb waits for the first transaction", func() bool {
		return count(t, s.db, "SELECT count(*) FROM pg_locks WHERE NOT granted AND "+
			"pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())") == 1
	})
	cancel()
	count(t, s.db, "SELECT count(pg_cancel_backend(pid)) FROM pg_locks WHERE NOT granted AND "+
		"pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())")
	if err := <-inserted; err == nil {
		t.Error("InsertTasks succeeds although its statement was cancelled")
	}
}

// A transaction that has ended is closed to the verbs as well.
// Proves G78.
func TestPgxTx_EndsWithTheTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newService(t, stint.Options{})
	insert(t, s.Store, stint.Task{ID: "outside", Action: "act"})
	for _, commit := range []bool{false, true} {
		tx, inside := s.begin(t)
		bound := bind(t, tx)
		if err := bound.Commit(t.Context()); err == nil {
			t.Error("Commit of the pgx.Tx is not refused")
		}
		if err := bound.Rollback(t.Context()); err == nil {
			t.Error("Rollback of the pgx.Tx is not refused")
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		wantErr(t, "the end", end(), nil)
		err := inside.InsertTasks(t.Context(), numbered("t", 1))
		wantErr(t, "InsertTasks", err, pgx.ErrTxClosed)
		wantErr(t, "InsertTasks", err, sql.ErrTxDone)
		err = inside.InsertTasks(t.Context(), numbered("t", 100))
		wantErr(t, "InsertTasks by COPY", err, pgx.ErrTxClosed)
		_, err = stintsql.PgxTx(t.Context(), tx)
		wantErr(t, "PgxTx", err, sql.ErrTxDone)
	}
	if got := count(t, s.db, "SELECT count(*) FROM stint.tasks"); got != 1 {
		t.Errorf("%d tasks are stored, want 1", got)
	}
}

// A sequence that panics, or whose goroutine ends, leaves the transaction usable, with nothing of
// the sequence in it, and its connection goes back with the transaction.
// Proves G6.
func TestPgxTx_SurvivesASequenceThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newService(t, stint.Options{})
	for how, leave := range map[string]func(){
		"panics": func() { panic("the caller's") }, "exits": runtime.Goexit,
	} {
		tx, inside := s.begin(t)
		left := make(chan struct{})
		go func() {
			defer close(left)
			defer func() { _ = recover() }()
			_, err := inside.InsertTasksFrom(t.Context(), func(yield func(stint.Task, error) bool) {
				for _, task := range numbered("streamed", 20_001) {
					yield(task, nil)
				}
				leave()
			})
			t.Errorf("InsertTasksFrom returned %v", err)
		}()
		<-left
		insert(t, inside, stint.Task{ID: stint.TaskID(how), Action: "act"})
		wantErr(t, "Commit", tx.Commit(), nil)
	}
	if got := count(t, s.db, "SELECT count(*) FROM stint.tasks"); got != 2 {
		t.Errorf("%d tasks, want 2", got)
	}
	eventually(t, "all connections are back", func() bool {
		return s.pool.Stat().AcquiredConns() == 0 && s.db.Stats().InUse == 0
	})
}
