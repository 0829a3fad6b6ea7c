package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/wire"
)

// A transaction is what a TransactRequest asks for.
type transaction struct {
	hold            []stint.OwnedTask
	insert, replace []stint.Task
	changes         stint.TaskChanges
	returns         []stint.Return
	ids             []string
}

// debouncedMax is how many tasks one transaction debounces: each takes some statements.
const debouncedMax = 1000

func newTransaction(r *stintv1.TransactRequest) (*transaction, error) {
	if n := len(r.GetDebounce()); n > debouncedMax {
		return nil, &stint.ArgumentError{
			Argument: "debounce", Index: -1, Err: stint.ErrTooLarge,
			Problem: fmt.Sprintf("has %d tasks, the limit is %d", n, debouncedMax),
		}
	}
	t := &transaction{}
	var err error
	if t.hold, err = wire.ToPerformances(r.GetHold()); err != nil {
		return nil, err
	}
	if t.insert, t.ids, err = insertable(r.GetInsert()); err != nil {
		return nil, err
	}
	if t.replace, err = wire.ToTasks(r.GetReplace()); err != nil {
		return nil, err
	}
	if t.changes, err = wire.ToTaskChanges(r.GetChangeTo()); err != nil {
		return nil, err
	}
	t.returns, err = wire.ToReturns(r.GetReturn())
	return t, err
}

// Transact does several verbs in one commit.
func (t *taskService) Transact(
	ctx context.Context, r *stintv1.TransactRequest,
) (*stintv1.TransactResponse, error) {
	parts, err := newTransaction(r)
	if err != nil {
		return nil, err
	}
	_, hasKey := ctx.Value(repeatableKey{}).(*repeatable)
	guess := r.GetRepeated() && !hasKey
	if guess {
		if done, err := t.isDone(ctx, parts); done || err != nil {
			return &stintv1.TransactResponse{Ids: parts.ids}, err
		}
	}
	response, err := once(ctx, t.Service, func(
		store *stint.Store,
	) (response *stintv1.TransactResponse, err error) {
		err = store.Remote().Transact(ctx, func(store *stint.Store) (err error) {
			response, err = parts.execute(ctx, store, r)
			return err
		})
		return response, err
	})
	if err != nil && guess { // the attempt before may have been under way until now
		if done, askErr := t.isDone(ctx, parts); done && askErr == nil {
			return &stintv1.TransactResponse{Ids: parts.ids}, nil
		}
	}
	return response, err
}

// isDone reports whether a transaction that is repeated has committed before. Its returns tell,
// since they have tokens; tasks may have been inserted by others.
func (t *taskService) isDone(ctx context.Context, parts *transaction) (bool, error) {
	if len(parts.returns) == 0 {
		if len(parts.ids) == 0 {
			return false, nil
		}
		found, err := t.store.Remote().FindActions(ctx, wire.ToIDs(parts.ids))
		return len(found) == len(parts.ids), err
	}
	done := true
	err := t.store.Remote().Transact(ctx, func(store *stint.Store) error {
		verdicts, err := store.ReturnTasks(ctx, parts.returns)
		for _, verdict := range verdicts {
			done = done && errors.Is(verdict, stint.ErrAlreadyReturned)
		}
		if err != nil {
			return err
		}
		return errUndo
	})
	if errors.Is(err, errUndo) {
		return done, nil
	}
	return false, err
}

// errUndo rolls back a transaction that only asks.
var errUndo = errors.New("only asked")

func (t *transaction) execute(
	ctx context.Context, store *stint.Store, r *stintv1.TransactRequest,
) (*stintv1.TransactResponse, error) {
	response := &stintv1.TransactResponse{Ids: t.ids}
	still, err := stillSeen(ctx, store, r)
	if err != nil {
		return nil, err
	}
	change, retry := still(r.GetChange()), still(r.GetRetry())
	abort, remove := still(r.GetAbort()), still(r.GetDelete())
	affected := func(into **stintv1.Affected, verb func() (stint.Affected, error)) func() error {
		return func() error {
			a, err := verb()
			*into = wire.FromAffected(a)
			return err
		}
	}
	for _, part := range []struct {
		size int
		do   func() error
	}{
		{len(t.hold), func() error { return store.HoldOwnership(ctx, t.hold) }},
		{len(r.GetMustExist()), func() error {
			return mustExist(ctx, store, wire.ToIDs(r.GetMustExist()))
		}},
		{len(t.insert), func() error { return store.InsertTasks(ctx, t.insert) }},
		{len(t.replace), func() error { return store.ReplaceTasks(ctx, t.replace) }},
		{len(r.GetDebounce()), func() error { return debounceAll(ctx, store, r.GetDebounce()) }},
		{len(r.GetDepend()), func() error {
			return store.AddDependencies(ctx, wire.ToDependencies(r.GetDepend()))
		}},
		{len(change), affected(&response.Changed, func() (stint.Affected, error) {
			return store.ChangeTasks(ctx, change, t.changes)
		})},
		{len(retry), affected(&response.Retried, func() (stint.Affected, error) {
			return store.RetryTasks(ctx, retry)
		})},
		{len(abort), affected(&response.Aborted, func() (stint.Affected, error) {
			return store.AbortTasks(ctx, abort, r.GetAbortStatus())
		})},
		{len(remove), affected(&response.Deleted, func() (stint.Affected, error) {
			return store.DeleteTasks(ctx, remove)
		})},
		{len(t.returns), func() error { return returnAll(ctx, store, t.returns) }},
	} {
		if part.size == 0 {
			continue
		}
		if err := part.do(); err != nil {
			return nil, err
		}
	}
	return response, nil
}

func debounceAll(
	ctx context.Context, store *stint.Store, requests []*stintv1.DebounceRequest,
) error {
	for _, r := range requests {
		if err := debounce(ctx, store, r); err != nil {
			return err
		}
	}
	return nil
}

// mustExist returns an error that names the tasks that are not stored.
func mustExist(ctx context.Context, store *stint.Store, ids []stint.TaskID) error {
	actions, err := store.Remote().FindActions(ctx, ids)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(ids, func(id stint.TaskID) bool {
		_, exists := actions[id]
		return exists
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		return &stint.TaskError{IDs: slices.Compact(missing), Err: stint.ErrTaskNotFound}
	}
	return nil
}

// stillSeen returns a function that leaves out the tasks that are no longer as the caller has seen
// them.
func stillSeen(
	ctx context.Context, store *stint.Store, r *stintv1.TransactRequest,
) (func(ids []string) []stint.TaskID, error) {
	if r.GetAsSeen() == nil {
		return wire.ToIDs, nil
	}
	changed := map[string]bool{}
	for _, ids := range [][]string{r.GetChange(), r.GetRetry(), r.GetAbort(), r.GetDelete()} {
		for _, id := range ids {
			changed[id] = true
		}
	}
	for i, task := range r.GetAsSeen().GetTasks() {
		if !changed[task.GetId()] {
			return nil, &stint.ArgumentError{
				Argument: "as_seen", Index: i, ID: stint.TaskID(task.GetId()),
				Err: stint.ErrInvalidArgument, Problem: "names a task that is not to be changed",
			}
		}
	}
	states, tasks := wire.ToSeen(r.GetAsSeen())
	ids, err := bulk.Still(ctx, store, states, tasks)
	still := make(map[string]bool, len(ids))
	for _, id := range ids {
		still[string(id)] = true
	}
	return func(ids []string) []stint.TaskID {
		gone := func(id string) bool { return !still[id] }
		return wire.ToIDs(slices.DeleteFunc(slices.Clone(ids), gone))
	}, err
}

// returnAll returns tasks, and fails if one of them cannot be returned.
func returnAll(ctx context.Context, store *stint.Store, returns []stint.Return) error {
	verdicts, err := store.ReturnTasks(ctx, returns)
	return errors.Join(append(verdicts, err)...)
}
