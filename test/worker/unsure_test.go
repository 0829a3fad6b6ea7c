package worker_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// A forgetful queue loses the answers to the first calls that return tasks, which are gone then.
type forgetful struct {
	*stint.Store
	loses atomic.Int32
}

func (f *forgetful) ReturnAndOwnTasks(
	ctx context.Context, returns []stint.Return, want stint.Want,
) ([]error, []stint.OwnedTask, error) {
	if len(returns) == 0 || f.loses.Add(-1) < 0 {
		return f.Store.ReturnAndOwnTasks(ctx, returns, want)
	}
	if _, _, err := f.Store.ReturnAndOwnTasks(ctx, returns, stint.Want{}); err != nil {
		return nil, nil, err
	}
	if _, err := f.DeleteTasks(ctx, []stint.TaskID{returns[0].ID}); err != nil {
		return nil, nil, err
	}
	return nil, nil, io.ErrUnexpectedEOF
}

// A task that was returned by an attempt whose answer was lost is not lost, though it is not kept.
// Proves G286.
func TestWorker_CompletesWhatIsNotKeptAndNotAnswered(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newStore(t, pool)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	queue := &forgetful{Store: store}
	queue.loses.Store(1)
	ends := make(outcomesOf, 1)
	w, err := worker.New(queue, worker.Options{Metrics: ends}, worker.Handle("a", done))
	wantErr(t, "New", err, nil)
	end := run(t, w)
	if got := receive(t, "the outcome", ends); got != worker.OutcomeCompleted {
		t.Errorf("the outcome is %v, want %v", got, worker.OutcomeCompleted)
	}
	wantErr(t, "Run", end(), nil)
}

// outcomesOf pass on how performances end.
type outcomesOf chan worker.Outcome

func (outcomesOf) Begin(*stint.OwnedTask) {}

func (o outcomesOf) End(_ *stint.OwnedTask, ended worker.Outcome, _ time.Duration) { o <- ended }
