package orm_test

import (
	"context"
	"errors"
	"testing"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stintsql"
)

func payByGORM(ctx context.Context, s *shop, invoice string) error {
	return payWith(ctx, s, invoice, &gorm.Config{})
}

func payWith(ctx context.Context, s *shop, invoice string, config *gorm.Config) error {
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: s.db}), config) // once in a service
	if err != nil {
		return err
	}
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&Payment{Invoice: invoice}).Error; err != nil {
			return err
		}
		bound, err := stintsql.PgxTx(ctx, tx.Statement.ConnPool)
		if err != nil {
			return err
		}
		return s.store.WithTx(bound).InsertTasks(ctx, receiptFor(invoice))
	})
}

func Example_gorm() {
	ctx := context.Background()
	s := openShop(ctx)
	defer s.close(ctx)
	s.payTwice(ctx, payByGORM)
	// Output:
	// the first time: <nil>
	// the second time: insert tasks: task exists: "receipt/7"
	// 1 payment, and receipt/7 is ready
}

// With PrepareStmt, GORM prepares all queries that pass through a transaction.
func TestGORM_MayPrepareStatements(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openShop(ctx)
	defer s.close(context.WithoutCancel(ctx))
	config := &gorm.Config{PrepareStmt: true, Logger: logger.Discard}
	if err := payWith(ctx, s, "7", config); err != nil {
		t.Fatal(err)
	}
	if err := payWith(ctx, s, "7", config); !errors.Is(err, stint.ErrTaskExists) {
		t.Errorf("the second payment = %v, want ErrTaskExists", err)
	}
}

// A transaction within a transaction is a savepoint of GORM's, and undoes the tasks with the rows.
func TestGORM_UndoesTasksWithASavepoint(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openShop(ctx)
	defer s.close(context.WithoutCancel(ctx))
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: s.db}), &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	undone := errors.New("undone")
	err = db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		bound, err := stintsql.PgxTx(ctx, tx.Statement.ConnPool)
		if err != nil {
			return err
		}
		inside := s.store.WithTx(bound)
		err = tx.Transaction(func(*gorm.DB) error {
			return errors.Join(undone, inside.InsertTasks(ctx, receiptFor("7")))
		})
		if !errors.Is(err, undone) || errors.Is(err, stint.ErrTaskExists) {
			return err
		}
		return inside.InsertTasks(ctx, receiptFor("7"))
	})
	if err != nil {
		t.Error(err)
	}
}
