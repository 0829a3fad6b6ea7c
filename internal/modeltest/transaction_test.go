package modeltest_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
)

// A comparison has a store and the model of it, both of which may be in a transaction.
type comparison[M interface{ clone() M }] struct {
	pool   *pgxpool.Pool
	direct *stint.Store

	// These go through the transaction, while there is one; saved is the model before it.
	store *stint.Store
	db    interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
	tx    pgx.Tx
	model M
	saved M
}

func compare[M interface{ clone() M }](
	pool *pgxpool.Pool, store *stint.Store, model M,
) comparison[M] {
	return comparison[M]{pool: pool, direct: store, store: store, db: pool, model: model}
}

// begin opens a transaction that the verbs then take part in, end commits it or rolls it back.
func (c *comparison[M]) begin(t *rapid.T) {
	if c.tx != nil {
		t.Skip("there is a transaction")
	}
	tx, err := c.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.tx, c.db, c.store, c.saved = tx, tx, c.direct.WithTx(tx), c.model.clone()
}

func (c *comparison[M]) end(t *rapid.T) {
	if c.tx == nil {
		t.Skip("there is no transaction")
	}
	end := c.tx.Commit
	if rapid.Bool().Draw(t, "rollback") {
		end, c.model = c.tx.Rollback, c.saved
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.tx, c.db, c.store = nil, c.pool, c.direct
}

func (c *comparison[M]) finish(t *rapid.T) {
	if c.tx != nil {
		if err := c.tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}
