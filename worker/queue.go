package worker

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// A Queue is what a worker needs of a store. [*stint.Store] is one. A client of a service that has
// a store is another: its methods do what those of the store do, and return the same errors.
type Queue interface {
	OwnTasks(
		ctx context.Context, actor stint.ActorID, maxTasks int, actions []string,
		lease time.Duration,
	) ([]stint.OwnedTask, error)
	WaitToOwnTasks(
		ctx context.Context, actor stint.ActorID, maxTasks int, actions []string,
		lease time.Duration,
	) ([]stint.OwnedTask, error)
	ExtendTasksOwnership(
		ctx context.Context, actor stint.ActorID, owned []stint.OwnedTask, lease time.Duration,
	) ([]bool, error)
	ReturnTasks(ctx context.Context, returns []stint.Return) ([]error, error)
	ReturnAndOwnTasks(
		ctx context.Context, returns []stint.Return, want stint.Want,
	) (verdicts []error, owned []stint.OwnedTask, err error)
	SetStatus(ctx context.Context, owned stint.OwnedTask, status string, progress float64) error
	Fence(ctx context.Context, owned stint.OwnedTask) (int64, error)
	Inputs(ctx context.Context, owned stint.OwnedTask) ([]stint.Input, error)
	RecordStep(
		ctx context.Context, owned stint.OwnedTask, name string, result []byte,
	) ([]byte, error)
	Steps(ctx context.Context, owned stint.OwnedTask) ([]stint.RecordedStep, error)
	RegisterActor(ctx context.Context, actor stint.ActorID, actions []string) error
	UnregisterActor(ctx context.Context, actor stint.ActorID) error
	WatchOwnership(
		owned func() []stint.OwnedTask, lost func(stint.OwnedTask, error),
	) (stop func())
}

var _ Queue = (*stint.Store)(nil)

// A txQueue is a Queue whose verbs can take part in a transaction: a store.
type txQueue interface {
	WithTx(tx pgx.Tx) *stint.Store
	PoolSize() int
}
