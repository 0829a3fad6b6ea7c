package orm_test

import (
	"context"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/stint-tasks/stint/stintsql"
)

// payByEnt works at the level of ent's driver, since a generated client takes thousands of lines.
// With a client that was generated with the feature sql/execquery, the *ent.Tx itself is what
// PgxTx takes:
//
//	client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, db)))
//	tx, err := client.Tx(ctx)
//	...
//	err = tx.Payment.Create().SetInvoice(invoice).Exec(ctx)
//	...
//	bound, err := stintsql.PgxTx(ctx, tx)
func payByEnt(ctx context.Context, s *shop, invoice string) error {
	driver := entsql.OpenDB(dialect.Postgres, s.db) // once in a service
	tx, err := driver.Tx(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	query, args := entsql.Dialect(dialect.Postgres).
		Insert("payments").Columns("invoice").Values(invoice).Query()
	if err := tx.Exec(ctx, query, args, nil); err != nil {
		return err
	}
	bound, err := stintsql.PgxTx(ctx, tx.(stintsql.Execer)) // as a generated ent.Tx does
	if err != nil {
		return err
	}
	if err := s.store.WithTx(bound).InsertTasks(ctx, receiptFor(invoice)); err != nil {
		return err
	}
	return tx.Commit()
}

func Example_ent() {
	ctx := context.Background()
	s := openShop(ctx)
	defer s.close(ctx)
	s.payTwice(ctx, payByEnt)
	// Output:
	// the first time: <nil>
	// the second time: insert tasks: task exists: "receipt/7"
	// 1 payment, and receipt/7 is ready
}
