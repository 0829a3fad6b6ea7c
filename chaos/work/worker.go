package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// FirstWorker is the worker that performs tasks with limits.
const FirstWorker = "worker-1"

const (
	workerConns       = 10
	workerConcurrency = 24
	workerLease       = 2 * time.Second
	hangsFor          = workerLease + time.Second
	stopGrace         = 3 * time.Second
)

// work performs tasks with a worker: its cycle is one commit, and it owns tasks ahead.
func (p *process) work(ctx context.Context) error {
	store, pool, err := p.open(ctx, workerConns, stint.Options{
		History: stint.HistoryOptions{Tries: 3},
	})
	if err != nil {
		return err
	}
	queue := storeRecorder{recorder{store, p.journal, &p.tally}, store}
	h := &handler{process: p, pool: pool, store: store}
	performed := actions()
	if p.Name != FirstWorker {
		performed = free()
	}
	err = p.run(ctx, queue, h, performed)
	return errors.Join(err, closing(ctx, store, pool))
}

// run runs a worker on a queue for some actions.
func (p *process) run(
	ctx context.Context, queue worker.Queue, h *handler, performed []string,
) error {
	retry := worker.Retry{Base: 50 * time.Millisecond, Max: time.Second}
	var handled []worker.Registration
	for _, action := range performed {
		options := []worker.HandlerOption{worker.WithRetry(retry)}
		switch action {
		case slowAction:
			options = append(options, worker.WithConcurrency(workerConcurrency/3))
		case otherAction:
			handled = append(handled, worker.HandleBatch(action,
				worker.Batch{Size: 8, Wait: 5 * time.Millisecond}, h.performBatch, options...))
			continue
		}
		handled = append(handled, worker.Handle(action, h.perform, options...))
	}
	w, err := worker.New(queue, worker.Options{
		Actor:       stint.ActorID(fmt.Sprintf("%s.%d", p.Name, p.Number)),
		Concurrency: workerConcurrency, Lease: workerLease, StopGrace: stopGrace, Logger: p.logger,
	}, handled...)
	if err != nil {
		return err
	}
	err = w.Run(ctx)
	if errors.Is(err, worker.ErrStillRunning) {
		return nil // some handlers hang
	}
	return err
}

// A handler performs tasks by their fates.
type handler struct {
	*process
	pool  *pgxpool.Pool // nil: there is none
	store *stint.Store
}

var errFailed = errors.New("the task fails, as it shall")

// perform performs a task.
func (h *handler) perform(ctx context.Context, task *worker.Task) (worker.Result, error) {
	if !Pause(ctx, takes(task.ID, task.Action)) {
		return worker.Result{}, context.Cause(ctx)
	}
	if isFenced(task.ID) {
		if _, err := task.Fence(ctx); err != nil {
			return worker.Result{}, err
		}
	}
	if spent := spentOn(&task.OwnedTask); spent != nil {
		task.SetSpent(*spent)
	}
	switch f := fateOf(h.Seed, task.ID, task.Try); f {
	case inTx:
		if h.pool != nil {
			return worker.Result{}, h.returnIn(ctx, task)
		}
	case steps:
		return h.takeSteps(ctx, task)
	case reports:
		return worker.Result{}, task.SetStatus(ctx, "half of it", 1.0/2)
	case fails:
		return worker.Result{}, errFailed
	case retries:
		return worker.Result{}, worker.RetryAfter(100 * time.Millisecond)
	case aborts:
		return worker.Result{}, worker.Abort(errFailed)
	case panics:
		//nolint:forbidigo // a worker survives it
		panic("the handler panics, as it shall")
	case snoozes:
		// The try does not count, so it would snooze for ever.
		if hash(string(task.Token[:]))%2 == 0 {
			return worker.Result{}, worker.Snooze(50 * time.Millisecond)
		}
	case hangs:
		Pause(context.WithoutCancel(ctx), hangsFor) // whatever becomes of the task
	case tells:
		return worker.Result{Bytes: resultOf(task.ID)}, nil
	default:
	}
	return worker.Result{}, nil
}

// resultOf is the result of a task, of which there are three.
func resultOf(id stint.TaskID) []byte {
	const results = 3
	return fmt.Appendf(nil, "result %d", hash(string(id))%results)
}

// performBatch performs tasks in one call.
func (h *handler) performBatch(ctx context.Context, tasks []*worker.BatchTask) error {
	for _, task := range tasks {
		switch fateOf(h.Seed, task.ID, task.Try) {
		case fails, panics:
			task.End(worker.Result{}, errFailed)
		case aborts:
			task.End(worker.Result{}, worker.Abort(errFailed))
		case retries:
			task.End(worker.Result{}, worker.RetryAfter(100*time.Millisecond))
		case tells:
			task.End(worker.Result{Bytes: resultOf(task.ID)}, nil)
		default:
		}
	}
	Pause(ctx, time.Millisecond)
	return nil
}

// takeSteps completes a task after two steps; between them it may fail once.
func (h *handler) takeSteps(ctx context.Context, task *worker.Task) (worker.Result, error) {
	for i := range 2 {
		_, err := worker.Step(ctx, task, fmt.Sprintf("step %d", i),
			func(context.Context) (int, error) { return i, nil })
		if err != nil {
			return worker.Result{}, err
		}
	}
	return worker.Result{}, nil
}

// returnIn completes a task in a transaction, and writes that down.
func (h *handler) returnIn(ctx context.Context, task *worker.Task) (err error) {
	begin := Instant()
	committing := false
	defer func() {
		call := Call{Verb: "ReturnIn", Begin: begin, Items: []Item{{
			ID: task.ID, Token: &task.Token, Said: string(stint.StatusCompleted),
		}}}
		call.Outcome, call.Error = Judge(err)
		if call.Outcome == Unknown && !committing {
			call.Outcome = Refused // the transaction was not committed
		}
		if err == nil {
			h.tally.add(1)
		}
		h.journal.Write(call)
	}()
	tx, err := h.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // or it is done
	if err := task.ReturnIn(ctx, tx, worker.Result{Status: "in a transaction"}); err != nil {
		return err
	}
	committing = true
	return tx.Commit(ctx)
}
