package recipes

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

const expireMost = 1000

// expire deletes rows whose time has passed, some in each transaction. While there may be more, the
// next task is inserted in the same commit.
func expire(pool *pgxpool.Pool, store *stint.Store) worker.Handler {
	return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		return worker.Result{}, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			gone, err := tx.Exec(ctx, `
				DELETE FROM uploads WHERE id IN (
					SELECT id FROM uploads WHERE expires_at <= now()
					ORDER BY expires_at LIMIT $1)`, expireMost)
			if err != nil {
				return err
			}
			if gone.RowsAffected() == expireMost {
				next := []stint.Task{{Action: task.Action}}
				if err := store.WithTx(tx).InsertTasks(ctx, next); err != nil {
					return err
				}
			}
			status := fmt.Sprintf("%d rows deleted", gone.RowsAffected())
			return task.ReturnIn(ctx, tx, worker.Result{Status: status})
		})
	}
}

// All that has expired is deleted, in as many tasks as it takes, and nothing else.
func TestExpire_DeletesWhatHasExpired(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	exec(t, store, "CREATE TABLE uploads (id bigint PRIMARY KEY, expires_at timestamptz NOT NULL)")
	exec(t, store, `INSERT INTO uploads SELECT n, now() - interval '1 s'
		FROM generate_series(1, 2500) AS n`)
	exec(t, store, "INSERT INTO uploads VALUES (0, now() + interval '1 h')")
	insert(t, store, stint.Task{Action: "expire"})
	w, err := worker.New(store.Store, worker.Options{},
		worker.Handle("expire", expire(store.Pool, store.Store)))
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	performed := stinttest.Drain(t, store, w)
	left, err := pgx.CollectOneRow(rowsOf(t, store, "SELECT array_agg(id) FROM uploads"),
		pgx.RowTo[[]int64])
	if err != nil || len(performed) != 3 || !slices.Equal(left, []int64{0}) {
		t.Errorf("after %d tasks, the uploads %v are left, %v", len(performed), left, err)
	}
}

// No crash leaves anything behind.
func TestExpire_SurvivesEveryCrash(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	exec(t, store, "CREATE TABLE uploads (id bigint PRIMARY KEY, expires_at timestamptz NOT NULL)")
	fill := func() {
		exec(t, store, `INSERT INTO uploads SELECT n, now() - interval '1 s'
			FROM generate_series(1, 300) AS n`)
	}
	fill()
	stinttest.TryEveryCrash(t, store, stint.Task{Action: "expire"},
		func(p *stinttest.Process) worker.Registration {
			return worker.Handle("expire", expire(p.Pool, p.Store))
		},
		func(context.Context, stint.TaskInfo) error {
			n, err := pgx.CollectOneRow(rowsOf(t, store, "SELECT count(*) FROM uploads"),
				pgx.RowTo[int])
			if err == nil && n != 0 {
				err = fmt.Errorf("%d uploads are left", n)
			}
			exec(t, store, "TRUNCATE uploads")
			fill()
			return err
		})
}

func rowsOf(t *testing.T, store *stinttest.Store, sql string) pgx.Rows {
	t.Helper()
	rows, err := store.Pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}
