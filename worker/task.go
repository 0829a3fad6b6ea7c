package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/safely"
)

// A Task is a task that a handler performs. Its LeaseUntil is as of the fetch; the worker
// extends the lease.
type Task struct {
	stint.OwnedTask

	queue     Queue
	logger    *slog.Logger // of the worker
	telemetry *telemetry
	// returned says that the handler returned the task in a transaction. From then on only the
	// handler knows whether the task is still owned.
	returned atomic.Bool
	steps    taskSteps
	log      taskLog
	spent    atomic.Pointer[int]
	// inBatch is the task as one of a batch, if it is.
	inBatch atomic.Pointer[BatchTask]
	// callBegins begins the time-out where the call begins later than the performance.
	callBegins func()
}

// A BatchTask is one of the tasks that a [BatchHandler] performs in one call.
type BatchTask struct {
	*Task

	ctx  context.Context //nolint:containedctx // the performance is the call
	over chan struct{}   // closed when the call has ended, with result and err set

	mutex  sync.Mutex // guards the fields below until over is closed
	ended  bool
	closed bool
	result Result
	err    error
	// said is the ending that the handler has said.
	said ending
}

// Inputs returns the results of the tasks that this one waited for. It is [stint.Store.Inputs].
func (t *Task) Inputs(ctx context.Context) ([]stint.Input, error) {
	return t.queue.Inputs(ctx, t.OwnedTask)
}

// SetStatus records a status text for people, and the progress of the task, from 0 to 1. It is
// [stint.Store.SetStatus].
func (t *Task) SetStatus(ctx context.Context, status string, progress float64) error {
	return t.queue.SetStatus(ctx, t.OwnedTask, status, progress)
}

// Fence draws a number by which other systems can refuse what a late owner of the task writes. It
// is [stint.Store.Fence].
func (t *Task) Fence(ctx context.Context) (int64, error) {
	return t.queue.Fence(ctx, t.OwnedTask)
}

// SetSpent says what the try has really cost, in the place of what it said before:
// [stint.Return.Spent], 0 to 10⁹; another value counts as the nearest of these. It counts however
// the try ends, but for a task that is lost.
func (t *Task) SetSpent(cost int) {
	const most = 1_000_000_000
	cost = min(max(cost, 0), most)
	t.spent.Store(&cost)
}

// ReturnIn completes the task in a transaction of the handler. The handler's other changes in tx
// are committed if and only if this performance completes the task. The package stintsql makes a
// pgx.Tx from a database/sql transaction.
//
// The handler commits tx and then returns. If it returns no error, the worker does nothing else for
// the task; if it returns an error, such as that of a failed commit, the worker gives the task back
// as after any other error, unless the commit succeeded after all.
//
// If the task was lost, the error is [stint.ErrInvalidToken], and the handler should roll back.
// From this call on, the handler's context no longer ends when the task is lost, since only tx can
// tell. If the handler returns no error without a commit, the task stays in progress until its
// lease expires. A second call after the first commit is refused with [stint.ErrAlreadyReturned],
// so a handler that repeats its transaction, since the reply to the commit was lost, does not
// commit twice.
//
// If tx is nil, the error is [stint.ErrInvalidArgument], and the task is not returned. A worker
// whose [Queue] is not a store has no transactions, and gets [ErrNotStore].
func (t *Task) ReturnIn(ctx context.Context, tx pgx.Tx, result Result) error {
	store, ok := t.queue.(txQueue)
	if !ok {
		return fmt.Errorf("return in transaction: %w", ErrNotStore)
	}
	// This comes first: the commit ends the ownership, which must not look like a loss.
	t.returned.Store(true)
	err := returnOne(ctx, store.WithTx(tx), t.completion(result))
	switch {
	case errors.Is(err, stint.ErrAlreadyReturned):
		return fmt.Errorf("return in transaction: %w", err) // tx must not be committed as well
	case err != nil:
		t.returned.Store(false)
		return fmt.Errorf("return in transaction: %w", err)
	}
	return nil
}

func (t *Task) completion(result Result) stint.Return {
	return stint.Return{
		ID: t.ID, Token: t.Token, Code: stint.StatusCompleted,
		Status: result.Status, Result: result.Bytes, Log: t.log.text(), Spent: t.spent.Load(),
	}
}

// Logger returns a logger for the handler. What it logs, from the level Info on, goes into the
// history of the task ([stint.Store.History]), its last 16 KiB, if the store keeps that:
// [stint.Options]. It also goes to [Options.Logger], with the ID of the task, its action, and the
// number of the try. A handler that never calls Logger costs nothing.
func (t *Task) Logger() *slog.Logger {
	t.log.once.Do(func() {
		logger := safely.LoggerOr(t.logger).With(slog.String("task", string(t.ID)),
			slog.String("action", t.Action), slog.Int("try", t.Try))
		t.log.logger = slog.New(slog.NewMultiHandler(logger.Handler(),
			slog.NewTextHandler(&t.log, &slog.HandlerOptions{ReplaceAttr: finite})))
	})
	return t.log.logger
}

func returnOne(ctx context.Context, queue Queue, r stint.Return) error {
	verdicts, err := queue.ReturnTasks(ctx, []stint.Return{r})
	if err != nil {
		return err
	}
	return verdicts[0]
}

// finite replaces a value of which the text has no end: other handlers may write it, such as that
// for JSON.
func finite(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindAny && safely.IsEndless(a.Value.Any()) {
		a.Value = slog.StringValue(fmt.Sprintf("a %T, which is endless", a.Value.Any()))
	}
	return a
}
