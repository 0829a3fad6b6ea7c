package worker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// A slowQueue takes its time to fetch tasks: for a connection, or for large bodies.
type slowQueue struct {
	worker.Queue

	takes time.Duration
}

func (q slowQueue) OwnTasks(
	ctx context.Context, actor stint.ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	select {
	case <-time.After(q.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return q.Queue.OwnTasks(ctx, actor, maxTasks, actions, lease)
}

// A fetch that comes late is performed: its leases begin when the database hands it out, however
// long the call took.
// Proves G26.
func TestWorker_PerformsWhatComesLate(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const lease = time.Second
	store := newStore(t, testdb.New(t))
	tasks := several(3, "a")
	for i := range tasks {
		tasks[i].MaxTries = 1
	}
	insert(t, store, tasks...)
	slow := slowQueue{store, lease * 5 / 4}
	w, err := worker.New(slow, worker.Options{
		Concurrency: 1, Lease: lease, Logger: slog.New(slog.DiscardHandler),
	}, worker.Handle("a", func(ctx context.Context, _ *worker.Task) (worker.Result, error) {
		select {
		case <-ctx.Done():
			return worker.Result{}, context.Cause(ctx)
		case <-time.After(lease / 4):
			return worker.Result{}, nil
		}
	}))
	wantErr(t, "New", err, nil)
	run(t, w)
	for _, task := range tasks {
		if got := finished(t, store, task.ID)[0]; got.State != stint.StateCompleted {
			t.Errorf("%s: %s, %q", got.ID, got.State, got.Status)
		}
	}
}
