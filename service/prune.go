package service

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// PruneTasks prunes by a store of its own: that of the service has another retention.
func (t *taskService) PruneTasks(
	ctx context.Context, r *stintv1.PruneTasksRequest,
) (_ *stintv1.PruneTasksResponse, err error) {
	ctx, stop, err := t.untilDrained(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	store, err := stint.New(t.pool, stint.Options{
		Schema: t.store.Schema(), Maintenance: stint.MaintainNever, PollOnly: true,
		Logger: t.logger,
		Retention: stint.Retention{
			Completed: retention(r.GetCompleted()), Aborted: retention(r.GetAborted()),
			Changes: stint.KeepForever, // which nobody has asked to prune
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	if r.GetDryRun() {
		pruned, err := t.pruneDry(ctx, store)
		return &stintv1.PruneTasksResponse{Pruned: pruned, Finished: true}, err
	}
	pruned, err := store.Prune(ctx)
	if err != nil && t.draining.Err() != nil {
		return &stintv1.PruneTasksResponse{Pruned: pruned}, nil
	}
	return &stintv1.PruneTasksResponse{Pruned: pruned, Finished: true}, err
}

func (t *taskService) pruneDry(ctx context.Context, store *stint.Store) (pruned int64, err error) {
	err = pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) (err error) {
		if pruned, err = store.WithTx(tx).Prune(ctx); err != nil {
			return err
		}
		return errUndo
	})
	if errors.Is(err, errUndo) {
		err = nil
	}
	return pruned, err
}

// retention is the age of a message as a store has it.
func retention(age *durationpb.Duration) time.Duration {
	switch {
	case age == nil:
		return stint.KeepForever
	case age.AsDuration() == 0:
		return stint.KeepNone
	}
	return age.AsDuration()
}

// untilDrained returns a context for work that may take long: it also ends when the service drains.
// It fails if that has begun.
func (s *Service) untilDrained(
	ctx context.Context,
) (context.Context, context.CancelFunc, error) {
	if s.draining.Err() != nil {
		return nil, nil, stint.ErrClosed // the client asks another service
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.draining, cancel)
	return ctx, func() {
		stop()
		cancel()
	}, nil
}
