package work

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// A recorder is the queue of a worker that writes into the journal what it tells the worker.
type recorder struct {
	worker.Queue
	journal *Journal
	tally   *tally
}

// A storeRecorder is one of a store, whose handlers may return tasks in transactions.
type storeRecorder struct {
	recorder
	store *stint.Store
}

// WithTx is that of the store: what is done in a transaction its handler writes down.
func (r storeRecorder) WithTx(tx pgx.Tx) *stint.Store { return r.store.WithTx(tx) }

// PoolSize is that of the store.
func (r storeRecorder) PoolSize() int { return r.store.PoolSize() }

// owned writes down a fetch.
func (r recorder) owned(begin int64, verb string, owned []stint.OwnedTask, err error) {
	if len(owned) == 0 && err == nil {
		return // there was nothing, which says nothing
	}
	call := Call{Verb: verb, Begin: begin, Items: ownedItems(owned)}
	call.Outcome, call.Error = Judge(err)
	r.journal.Write(call)
}

func ownedItems(owned []stint.OwnedTask) []Item {
	items := make([]Item, len(owned))
	for i := range owned {
		items[i] = Item{ID: owned[i].ID, Token: &owned[i].Token, Try: owned[i].Try}
	}
	return items
}

// returned writes down returns, and counts those that completed a task.
func (r recorder) returned(
	begin int64, verb string, returns []stint.Return, verdicts []error, err error,
) {
	call := Call{Verb: verb, Begin: begin, Items: make([]Item, len(returns))}
	call.Outcome, call.Error = Judge(err)
	done := 0
	for i := range returns {
		item := Item{
			ID: returns[i].ID, Token: &returns[i].Token, Said: string(returns[i].Code),
		}
		if err == nil {
			item.Outcome, item.Error = Judge(verdicts[i])
			if item.Outcome == OK && item.Error == "" &&
				returns[i].Code == stint.StatusCompleted {
				done++
			}
		}
		call.Items[i] = item
	}
	r.tally.add(done)
	r.journal.Write(call)
}

// OwnTasks implements [worker.Queue].
func (r recorder) OwnTasks(
	ctx context.Context, actor stint.ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	begin := Instant()
	owned, err := r.Queue.OwnTasks(ctx, actor, maxTasks, actions, lease)
	r.owned(begin, "OwnTasks", owned, err)
	return owned, err
}

// WaitToOwnTasks implements [worker.Queue].
func (r recorder) WaitToOwnTasks(
	ctx context.Context, actor stint.ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	begin := Instant()
	owned, err := r.Queue.WaitToOwnTasks(ctx, actor, maxTasks, actions, lease)
	r.owned(begin, "WaitToOwnTasks", owned, err)
	return owned, err
}

// ReturnTasks implements [worker.Queue].
func (r recorder) ReturnTasks(ctx context.Context, returns []stint.Return) ([]error, error) {
	begin := Instant()
	verdicts, err := r.Queue.ReturnTasks(ctx, returns)
	r.returned(begin, "ReturnTasks", returns, verdicts, err)
	return verdicts, err
}

// ReturnAndOwnTasks implements [worker.Queue]. It is two lines of the journal, with one begin.
func (r recorder) ReturnAndOwnTasks(
	ctx context.Context, returns []stint.Return, want stint.Want,
) ([]error, []stint.OwnedTask, error) {
	begin := Instant()
	verdicts, owned, err := r.Queue.ReturnAndOwnTasks(ctx, returns, want)
	if len(returns) > 0 {
		r.returned(begin, "ReturnAndOwnTasks: returns", returns, verdicts, err)
	}
	r.owned(begin, "ReturnAndOwnTasks", owned, err)
	return verdicts, owned, err
}

// ExtendTasksOwnership implements [worker.Queue].
func (r recorder) ExtendTasksOwnership(
	ctx context.Context, actor stint.ActorID, owned []stint.OwnedTask, lease time.Duration,
) ([]bool, error) {
	begin := Instant()
	extended, err := r.Queue.ExtendTasksOwnership(ctx, actor, owned, lease)
	call := Call{Verb: "ExtendTasksOwnership", Begin: begin, Items: ownedItems(owned)}
	call.Outcome, call.Error = Judge(err)
	for i := range extended {
		call.Items[i].Outcome = Refused
		if extended[i] {
			call.Items[i].Outcome = OK
		}
	}
	r.journal.Write(call)
	return extended, err
}

// RecordStep implements [worker.Queue].
func (r recorder) RecordStep(
	ctx context.Context, owned stint.OwnedTask, name string, result []byte,
) ([]byte, error) {
	begin := Instant()
	kept, err := r.Queue.RecordStep(ctx, owned, name, result)
	r.one(begin, "RecordStep", owned, name, err)
	return kept, err
}

// Fence implements [worker.Queue].
func (r recorder) Fence(ctx context.Context, owned stint.OwnedTask) (int64, error) {
	begin := Instant()
	fence, err := r.Queue.Fence(ctx, owned)
	call := Call{Verb: "Fence", Begin: begin, Items: []Item{{
		ID: owned.ID, Token: &owned.Token, Number: fence,
	}}}
	call.Outcome, call.Error = Judge(err)
	r.journal.Write(call)
	return fence, err
}

// SetStatus implements [worker.Queue].
func (r recorder) SetStatus(
	ctx context.Context, owned stint.OwnedTask, status string, progress float64,
) error {
	begin := Instant()
	err := r.Queue.SetStatus(ctx, owned, status, progress)
	r.one(begin, "SetStatus", owned, "", err)
	return err
}

// one writes down a call about one task that is owned.
func (r recorder) one(begin int64, verb string, owned stint.OwnedTask, said string, err error) {
	call := Call{Verb: verb, Begin: begin, Items: []Item{{
		ID: owned.ID, Token: &owned.Token, Said: said,
	}}}
	call.Outcome, call.Error = Judge(err)
	r.journal.Write(call)
}
