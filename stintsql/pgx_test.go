package stintsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stintsql"
)

// questions are what code may ask of a pgx.Tx.
func questions(ctx context.Context) map[string]func(tx pgx.Tx) (any, error) {
	answers := map[string]func(tx pgx.Tx) (any, error){
		"rows": func(tx pgx.Tx) (any, error) {
			rows, err := tx.Query(ctx, "SELECT g AS n, 'text ' || g AS t, NULL AS nothing, "+
				"ARRAY[g, 2] AS list FROM generate_series(1, $1::integer) AS g", 3)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowToMap)
		},
		"structs": func(tx pgx.Tx) (any, error) {
			rows, err := tx.Query(ctx, "SELECT 1 AS n, 'x' AS t UNION ALL SELECT 2, 'y'")
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowToStructByName[struct {
				N int
				T string
			}])
		},
		"a row": func(tx pgx.Tx) (n any, err error) {
			return n, tx.QueryRow(ctx, "SELECT 7").Scan(&n)
		},
		"no row": func(tx pgx.Tx) (n any, err error) {
			return n, tx.QueryRow(ctx, "SELECT 7 WHERE false").Scan(&n)
		},
		"a target that does not fit": func(tx pgx.Tx) (any, error) {
			var n int
			return n, tx.QueryRow(ctx, "SELECT 'seven'").Scan(&n)
		},
		"a command": func(tx pgx.Tx) (any, error) {
			return tx.Exec(ctx, "CREATE TEMPORARY TABLE mine ON COMMIT DROP AS "+
				"SELECT generate_series(1, 10) AS id")
		},
		"a batch": func(tx pgx.Tx) (any, error) {
			var n int
			var tag pgconn.CommandTag
			batch := &pgx.Batch{}
			batch.Queue("SELECT 9").QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
			batch.Queue("SELECT generate_series(1, 4)").Exec(func(got pgconn.CommandTag) error {
				tag = got
				return nil
			})
			err := tx.SendBatch(ctx, batch).Close()
			return fmt.Sprint(n, tag), err
		},
		"a prepared statement": func(tx pgx.Tx) (n any, err error) {
			if _, err := tx.Prepare(ctx, "ten", "SELECT 10"); err != nil {
				return nil, err
			}
			return n, tx.QueryRow(ctx, "ten").Scan(&n)
		},
	}
	maps.Copy(answers, savepointQuestions(ctx))
	return answers
}

func savepointQuestions(ctx context.Context) map[string]func(tx pgx.Tx) (any, error) {
	return map[string]func(tx pgx.Tx) (any, error){
		"a savepoint": func(tx pgx.Tx) (n any, err error) {
			undone := errors.New("undone")
			err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT 1/0")
				return errors.Join(undone, err)
			})
			if !errors.Is(err, undone) {
				return nil, err
			}
			err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				return tx.QueryRow(ctx, "SELECT 8").Scan(&n)
			})
			return n, err
		},
		"an ended savepoint": func(tx pgx.Tx) (any, error) {
			inner, err := tx.Begin(ctx)
			if err != nil {
				return nil, err
			}
			err = inner.Commit(ctx)
			_, later := inner.Exec(ctx, "SELECT 1")
			return errors.Is(later, pgx.ErrTxClosed), errors.Join(err, inner.Commit(ctx))
		},
	}
}

// Code for pgx finds in a transaction of database/sql what it finds in one of pgx.
func TestPgxTx_AnswersAsPgxDoes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newService(t, stint.Options{})
	ctx := t.Context()
	tx, _ := s.begin(t)
	ours := bind(t, tx)
	theirs, err := s.pool.Begin(ctx)
	wantErr(t, "Begin", err, nil)
	defer func() { _ = theirs.Rollback(ctx) }()
	for name, ask := range questions(ctx) {
		want, refused := ask(theirs)
		got, err := ask(ours)
		if fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(err) != fmt.Sprint(refused) {
			t.Errorf("%s: %v, %v, but pgx says %v, %v", name, got, err, want, refused)
		}
	}
	// An error of the server comes as pgx has it.
	_, err = ours.Exec(ctx, "SELECT 1/0")
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "22012" {
		t.Errorf("Exec = %v", err)
	}
}

// What database/sql costs a verb is pinned, like what the verbs cost.
func TestPgxTx_ACallTakesARoundTripMore(t *testing.T) {
	t.Parallel()
	traffic := testdb.NewTraffic(t)
	s := newServiceOn(t, traffic.Pool, stint.Options{PollOnly: true})
	ctx := t.Context()
	theirs, err := s.pool.Begin(ctx)
	wantErr(t, "Begin", err, nil)
	defer func() { _ = theirs.Rollback(ctx) }()
	_, ours := s.begin(t)
	trips := func(inside *stint.Store, prefix string) int64 {
		insert(t, inside, numbered(prefix+"warm", 2)...) // prepares statements, and takes keys
		since := traffic.Measure(t)
		insert(t, inside, numbered(prefix, 2)...)
		got, _ := since()
		return got
	}
	want := trips(s.WithTx(theirs), "theirs") + 1
	if got := trips(ours, "ours"); got != want {
		t.Errorf("InsertTasks takes %d round trips, want %d", got, want)
	}
}

func TestPgxTx_RefusesToReadABatchTwice(t *testing.T) {
	t.Parallel()
	s := newService(t, stint.Options{})
	tx, _ := s.begin(t)
	batch := &pgx.Batch{}
	batch.Queue("SELECT 1")
	results := bind(t, tx).SendBatch(t.Context(), batch)
	var n int
	if err := results.QueryRow().Scan(&n); err == nil {
		t.Error("QueryRow is not refused")
	}
	if _, err := results.Query(); err == nil { //nolint:sqlclosecheck // it is refused
		t.Error("Query is not refused")
	}
	if _, err := results.Exec(); err == nil {
		t.Error("Exec is not refused")
	}
	wantErr(t, "Close", results.Close(), nil)
}

func TestPgxTx_RefusesWhatIsNotInATransaction(t *testing.T) {
	t.Parallel()
	s := newService(t, stint.Options{})
	_, err := stintsql.PgxTx(t.Context(), s.db)
	wantErr(t, "PgxTx of a *sql.DB", err, stintsql.ErrNoTransaction)
	conn, err := s.db.Conn(t.Context())
	wantErr(t, "Conn", err, nil)
	defer func() { wantErr(t, "Close", conn.Close(), nil) }()
	_, err = stintsql.PgxTx(t.Context(), conn)
	wantErr(t, "PgxTx of a *sql.Conn", err, stintsql.ErrNoTransaction)
}

// Proves G295.
func TestPgxTx_RefusesAMissingTransaction(t *testing.T) {
	t.Parallel()
	type wrapper struct{ *sql.Tx }
	type around struct{ stintsql.Execer }
	var tx *sql.Tx
	for name, missing := range map[string]stintsql.Execer{
		"nil": nil, "a nil pointer": tx, "an empty one": &sql.Tx{}, "an empty wrapper": wrapper{},
		"a pointer to one": &wrapper{}, "a nil wrapper": (*wrapper)(nil),
		"a wrapper around nil": around{tx}, "a wrapper around nothing": &around{},
	} {
		bound, err := stintsql.PgxTx(t.Context(), missing)
		if wantErr(t, "PgxTx of "+name, err, stintsql.ErrNoTransaction); bound != nil ||
			!strings.Contains(err.Error(), "tx must not be nil") {
			t.Errorf("PgxTx of %s = %v, %v, want an error that names tx", name, bound, err)
		}
	}
}

func TestPgxTx_RefusesAConnectionThatIsLost(t *testing.T) {
	t.Parallel()
	s := newService(t, stint.Options{})
	tx, inside := s.begin(t)
	pid := count(t, tx, "SELECT pg_backend_pid()")
	_, err := s.pool.Exec(t.Context(), "SELECT pg_terminate_backend($1, 60000)", pid)
	wantErr(t, "pg_terminate_backend", err, nil)
	if err := inside.InsertTasks(t.Context(), numbered("t", 1)); err == nil {
		t.Error("InsertTasks succeeded")
	}
	if err := inside.InsertTasks(t.Context(), numbered("t", 1)); err == nil {
		t.Error("InsertTasks succeeded the second time")
	}
	_, err = stintsql.PgxTx(t.Context(), tx)
	wantErr(t, "PgxTx", err, driver.ErrBadConn)
	if err := tx.Commit(); err == nil {
		t.Error("Commit succeeded")
	}
	insert(t, s.Store, numbered("t", 1)...)
}

// An aroundConnector makes connections of pgx with a driver around them, as for traces.
type aroundConnector struct{ driver.Connector }

func (a aroundConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := a.Connector.Connect(ctx)
	return aroundConn{conn}, err
}

type aroundConn struct{ driver.Conn }

func (a aroundConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return a.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (a aroundConn) CheckNamedValue(value *driver.NamedValue) error {
	return a.Conn.(driver.NamedValueChecker).CheckNamedValue(value)
}

func (a aroundConn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	return a.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

// Proves G77.
func TestPgxTx_WorksThroughADriverAroundPgx(t *testing.T) {
	t.Parallel()
	s := newService(t, stint.Options{})
	db := sql.OpenDB(aroundConnector{stdlib.GetPoolConnector(s.pool)})
	db.SetMaxIdleConns(0)
	tx, err := db.BeginTx(t.Context(), nil)
	wantErr(t, "BeginTx", err, nil)
	insert(t, s.WithTx(bind(t, tx)), numbered("t", 100)...)
	wantErr(t, "Commit", tx.Commit(), nil)
	wantErr(t, "Close", db.Close(), nil)
	if got := stateOf(t, s.Store, "t/99"); got != stint.StateReady {
		t.Errorf("the task is %s", got)
	}
}

// A foreignDriver is one that is not pgx.
type foreignDriver struct{ driver.Conn }

func (d foreignDriver) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (d foreignDriver) Driver() driver.Driver                        { return nil }
func (d foreignDriver) Close() error                                 { return nil }
func (d foreignDriver) Begin() (driver.Tx, error)                    { return d, nil }
func (d foreignDriver) Commit() error                                { return nil }
func (d foreignDriver) Rollback() error                              { return nil }
func (d foreignDriver) ExecContext(
	context.Context, string, []driver.NamedValue,
) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

// A curiousDriver takes arguments of all types, and looks at none.
type curiousDriver struct{ foreignDriver }

func (d curiousDriver) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (d curiousDriver) CheckNamedValue(*driver.NamedValue) error     { return nil }

func TestPgxTx_RefusesAnotherDriver(t *testing.T) {
	t.Parallel()
	for _, connector := range []driver.Connector{foreignDriver{}, curiousDriver{}} {
		db := sql.OpenDB(connector)
		tx, err := db.BeginTx(t.Context(), nil)
		wantErr(t, "BeginTx", err, nil)
		_, err = stintsql.PgxTx(t.Context(), tx)
		wantErr(t, "PgxTx", err, stintsql.ErrNotPgx)
		if !strings.Contains(err.Error(), "stdlib.OpenDBFromPool") {
			t.Errorf("PgxTx = %v, which does not say what to do", err)
		}
		wantErr(t, "Rollback", tx.Rollback(), nil)
		wantErr(t, "Close", db.Close(), nil)
	}
}
