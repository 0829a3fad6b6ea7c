package orm_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A shop is a service on database/sql, with a store on the same connections.
type shop struct {
	pool  *pgxpool.Pool
	db    *sql.DB
	store *stint.Store
	drop  func() error
}

// openShop opens a database with a table of payments. A service calls pgxpool.New, and
// migrations.MigratePool.
func openShop(ctx context.Context) *shop {
	pool, drop, err := testdb.Open(ctx)
	if err != nil {
		panic(err)
	}
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	s := &shop{pool: pool, db: stdlib.OpenDBFromPool(pool), store: store, drop: drop}
	if _, err := s.db.ExecContext(ctx, "CREATE TABLE payments (invoice text)"); err != nil {
		panic(err)
	}
	return s
}

func (s *shop) close(ctx context.Context) {
	if err := errors.Join(s.store.Close(ctx), s.db.Close(), s.drop()); err != nil {
		panic(err)
	}
}

// A Payment is a row of the table payments.
type Payment struct {
	Invoice string
}

// receiptFor is the task that sends the receipt of a payment.
func receiptFor(invoice string) []stint.Task {
	return []stint.Task{{ID: stint.TaskID("receipt/" + invoice), Action: "send-receipt"}}
}

// payTwice pays an invoice twice, and says what is stored then. The task of the second payment is
// refused, since its ID is taken, and so the payment is undone.
func (s *shop) payTwice(
	ctx context.Context, pay func(ctx context.Context, s *shop, invoice string) error,
) {
	fmt.Println("the first time:", pay(ctx, s, "7"))
	fmt.Println("the second time:", pay(ctx, s, "7"))
	var payments int
	err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM payments").Scan(&payments)
	if err != nil {
		panic(err)
	}
	tasks, err := s.store.GetTasks(ctx, []stint.TaskID{"receipt/7"})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d payment, and %s is %s\n", payments, tasks[0].ID, tasks[0].State)
}
