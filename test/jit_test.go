package stint_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A jitWatch notes the statements that are sent where they may be compiled: outside a transaction,
// or in one before jit is off.
type jitWatch struct {
	mutex    sync.Mutex
	off      map[*pgx.Conn]bool
	compiled map[string]bool
}

func (w *jitWatch) note(conn *pgx.Conn, sql string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	first, _, _ := strings.Cut(sql, "\n")
	name := strings.TrimPrefix(first, "-- name: ")
	switch {
	case strings.HasPrefix(sql, "begin"):
		w.off[conn] = strings.Contains(sql, "set local jit = off")
	case slices.Contains(uncompiled, name):
		w.off[conn] = w.off[conn] || name != "keep_planner"
	case sql == "commit", sql == "rollback":
		w.off[conn] = false
	case strings.Contains(sql, "savepoint"): // is no statement that is planned
	case !w.off[conn]:
		w.compiled[name] = true
	}
}

func (w *jitWatch) TraceQueryStart(
	ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData,
) context.Context {
	w.note(conn, data.SQL)
	return ctx
}

func (w *jitWatch) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (w *jitWatch) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData,
) context.Context {
	return ctx
}

func (w *jitWatch) TraceBatchQuery(_ context.Context, conn *pgx.Conn, d pgx.TraceBatchQueryData) {
	w.note(conn, d.SQL)
}

func (w *jitWatch) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// want checks that no other statements were sent so.
func (w *jitWatch) want(t *testing.T, names ...string) {
	t.Helper()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for name := range w.compiled {
		if !slices.Contains(names, name) {
			t.Errorf("%s may be compiled", name)
		}
	}
	if len(w.off) == 0 {
		t.Error("nothing was watched")
	}
}

// uncompiled are the statements about settings, of a form that is not compiled.
var uncompiled = []string{"keep_planner", "set_path", "set_planner", "restore_planner"}

// With tiny costs PostgreSQL compiles whatever it plans, which takes longer than any statement
// here. Nothing else is planned before that is off, but the notification behind a commit, which
// nobody waits for.
// Proves G162.
func TestVerbs_AreNotCompiled(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	clean := testdb.New(t)
	watch := &jitWatch{off: map[*pgx.Conn]bool{}, compiled: map[string]bool{}}
	pool := poolOf(t, clean, func(config *pgxpool.Config) {
		config.ConnConfig.Tracer = watch
		for _, cost := range []string{
			"jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost",
		} {
			config.ConnConfig.RuntimeParams[cost] = "0"
		}
	})
	store := openStore(t, pool, stint.Options{})
	everyVerb(t, store, false, "alone ")
	waitingVerbs(t, store, "waited ")
	wantErr(t, "Close", store.Close(t.Context()), nil)
	within := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	tx := begin(t, pool)
	everyVerb(t, within.WithTx(tx), true, "in a transaction ")
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	watch.want(t, "notify")
	checkStore(t, clean)
	tx = begin(t, pool)
	for _, name := range uncompiled {
		rows, err := tx.Query(t.Context(), "EXPLAIN ANALYZE "+statements(t)[name])
		wantErr(t, "EXPLAIN", err, nil)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		wantErr(t, "EXPLAIN", err, nil)
		if strings.Contains(strings.Join(plan, "\n"), "JIT") {
			t.Errorf("%s is compiled:\n%s", name, strings.Join(plan, "\n"))
		}
		_, err = tx.Exec(t.Context(), "SET LOCAL jit = on")
		wantErr(t, "SET", err, nil)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN ANALYZE SELECT set_config('a.b', 'c', true)")
	wantErr(t, "EXPLAIN", err, nil)
	compiled, err := pgx.CollectRows(rows, pgx.RowTo[string])
	wantErr(t, "EXPLAIN", err, nil)
	if !strings.Contains(strings.Join(compiled, "\n"), "JIT") {
		t.Skip("this server compiles nothing")
	}
}
