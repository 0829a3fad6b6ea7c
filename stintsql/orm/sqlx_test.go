package orm_test

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/stint-tasks/stint/stintsql"
)

func payBySqlx(ctx context.Context, s *shop, invoice string) error {
	db := sqlx.NewDb(s.db, "pgx") // a service makes it once
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	_, err = tx.NamedExecContext(ctx, "INSERT INTO payments (invoice) VALUES (:invoice)",
		Payment{Invoice: invoice})
	if err != nil {
		return err
	}
	bound, err := stintsql.PgxTx(ctx, tx)
	if err != nil {
		return err
	}
	if err := s.store.WithTx(bound).InsertTasks(ctx, receiptFor(invoice)); err != nil {
		return err
	}
	return tx.Commit()
}

func Example_sqlx() {
	ctx := context.Background()
	s := openShop(ctx)
	defer s.close(ctx)
	s.payTwice(ctx, payBySqlx)
	// Output:
	// the first time: <nil>
	// the second time: insert tasks: task exists: "receipt/7"
	// 1 payment, and receipt/7 is ready
}
