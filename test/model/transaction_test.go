package model_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
)

// verbs are what the models have of those that a store and a client of a service have in common.
type verbs interface {
	InsertTasks(ctx context.Context, tasks []stint.Task) error
	EnsureTasks(ctx context.Context, tasks []stint.Task) (existing []stint.TaskID, err error)
	ReplaceTasks(ctx context.Context, tasks []stint.Task) error
	AddDependencies(ctx context.Context, dependencies []stint.Dependency) error
	AbortTasks(
		ctx context.Context, ids []stint.TaskID, status string,
	) (aborted stint.Affected, err error)
	RetryTasks(ctx context.Context, ids []stint.TaskID) (retried stint.Affected, err error)
	DeleteTasks(ctx context.Context, ids []stint.TaskID) (deleted stint.Affected, err error)
	ChangeTasks(
		ctx context.Context, ids []stint.TaskID, to stint.TaskChanges,
	) (changed stint.Affected, err error)
	GetTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error)
	ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
	OwnTasks(
		ctx context.Context, actor stint.ActorID, maxTasks int, actions []string,
		lease time.Duration,
	) ([]stint.OwnedTask, error)
	ExtendTasksOwnership(
		ctx context.Context, actor stint.ActorID, owned []stint.OwnedTask, lease time.Duration,
	) (kept []bool, err error)
	ReturnTask(
		ctx context.Context, id stint.TaskID, token stint.Token, status string,
		code stint.StatusCode,
	) error
	ReturnTasks(ctx context.Context, returns []stint.Return) ([]error, error)
	SetStatus(
		ctx context.Context, owned stint.OwnedTask, status string, progress float64,
	) error
	Inputs(ctx context.Context, owned stint.OwnedTask) ([]stint.Input, error)
}

// A comparison has a store and the model of it, both of which may be in a transaction.
type comparison[M interface{ clone() M }] struct {
	pool   *pgxpool.Pool
	direct *stint.Store

	// queue takes the verbs: it is the store, or a client of a service that has it. There are no
	// transactions over a service.
	queue verbs
	// unsure, if set, says whether an answer to the last verb was lost.
	unsure func() bool

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
	return comparison[M]{
		pool: pool, direct: store, queue: store, store: store, db: pool, model: model,
	}
}

// isUnsure reports whether an answer to the last verb was lost, so that it may have said less.
func (c *comparison[M]) isUnsure() bool { return c.unsure != nil && c.unsure() }

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
	c.queue = c.store
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
	c.tx, c.db, c.store, c.queue = nil, c.pool, c.direct, c.direct
}

func (c *comparison[M]) finish(t *rapid.T) {
	if c.tx != nil {
		if err := c.tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}
