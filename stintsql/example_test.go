package stintsql_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/stintsql"
)

// pay writes a row, and inserts a task that is there if and only if the row is.
func pay(ctx context.Context, db *sql.DB, store *stint.Store, invoice string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	_, err = tx.ExecContext(ctx, "INSERT INTO payments (invoice) VALUES ($1)", invoice)
	if err != nil {
		return err
	}
	bound, err := stintsql.PgxTx(ctx, tx)
	if err != nil {
		return err
	}
	receipt := stint.Task{ID: stint.TaskID("receipt/" + invoice), Action: "send-receipt"}
	if err := store.WithTx(bound).InsertTasks(ctx, []stint.Task{receipt}); err != nil {
		return err
	}
	return tx.Commit()
}

func ExamplePgxTx() {
	ctx := context.Background()
	pool, drop := examplePool() // of a service: pgxpool.New(ctx, url)
	defer drop()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)
	db := stdlib.OpenDBFromPool(pool) // on the same connections
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE payments (invoice text)"); err != nil {
		panic(err)
	}

	if err := pay(ctx, db, store, "7"); err != nil {
		panic(err)
	}

	info, err := store.GetTasks(ctx, []stint.TaskID{"receipt/7"})
	if err != nil {
		panic(err)
	}
	fmt.Println(info[0].ID, "is", info[0].State)
	// Output: receipt/7 is ready
}

func examplePool() (pool *pgxpool.Pool, drop func() error) {
	pool, drop, err := testdb.Open(context.Background())
	if err != nil {
		panic(err)
	}
	return pool, drop
}
