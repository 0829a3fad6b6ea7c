package orm_test

import (
	"context"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/stint-tasks/stint/stintsql"
)

func payByBun(ctx context.Context, s *shop, invoice string) error {
	db := bun.NewDB(s.db, pgdialect.New()) // a service makes it once
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(&Payment{Invoice: invoice}).Exec(ctx)
		if err != nil {
			return err
		}
		bound, err := stintsql.PgxTx(ctx, tx.Tx) // the *sql.Tx within
		if err != nil {
			return err
		}
		return s.store.WithTx(bound).InsertTasks(ctx, receiptFor(invoice))
	})
}

func Example_bun() {
	ctx := context.Background()
	s := openShop(ctx)
	defer s.close(ctx)
	s.payTwice(ctx, payByBun)
	// Output:
	// the first time: <nil>
	// the second time: insert tasks: task exists: "receipt/7"
	// 1 payment, and receipt/7 is ready
}

// A bun.Tx writes arguments into the text of the query, so it leads to no connection.
func TestBun_TellsWhoGivesTheBunTx(t *testing.T) {
	t.Parallel()
	s := openShop(t.Context())
	defer s.close(context.WithoutCancel(t.Context()))
	tx, err := bun.NewDB(s.db, pgdialect.New()).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, err = stintsql.PgxTx(t.Context(), tx)
	wantErr(t, err, stintsql.ErrNotPgx, "of a bun.Tx give the field Tx")
}
