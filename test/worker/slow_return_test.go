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

// A narrowQueue takes its time for results, and gives up as a store does.
type narrowQueue struct {
	worker.Queue

	perSecond int
}

func (q narrowQueue) ReturnAndOwnTasks(
	ctx context.Context, returns []stint.Return, want stint.Want,
) ([]error, []stint.OwnedTask, error) {
	if until, limited := ctx.Deadline(); limited {
		bytes := 0
		for i := range returns {
			bytes += len(returns[i].Result)
		}
		if time.Duration(bytes/q.perSecond)*time.Second > time.Until(until) {
			return nil, nil, context.DeadlineExceeded
		}
	}
	return q.Queue.ReturnAndOwnTasks(ctx, returns, want)
}

// A large result is returned however slow the line.
// Proves G26.
func TestWorker_ReturnsALargeResultOverASlowLine(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, testdb.New(t))
	insert(t, store, stint.Task{ID: "a", Action: "a", MaxTries: 1})
	w, err := worker.New(narrowQueue{store, 300 << 10}, worker.Options{
		Lease: 3 * time.Second, StopGrace: time.Second, Logger: slog.New(slog.DiscardHandler),
	}, worker.Handle("a", func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{Bytes: make([]byte, 4<<20)}, nil
	}))
	wantErr(t, "New", err, nil)
	run(t, w)
	if got := finished(t, store, "a")[0]; got.State != stint.StateCompleted {
		t.Errorf("a: %s, %q", got.State, got.Status)
	}
}
