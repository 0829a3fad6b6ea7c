package ask

import (
	"context"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// keptMax is how many tasks' values are kept, for those who look at a task for long.
const keptMax = 64

// Values are the bodies and results of the tasks that were looked at last. Of those that do not
// wait any more, both never change, but a task may be replaced, or retried, by which it loses its
// result. A service may decide anew who reads them.
type Values struct {
	ask func(ctx context.Context, id stint.TaskID) (stint.TaskInfo, bool, error)
	// briefly says that they are those of a service, which are kept no longer than lists are.
	briefly bool

	mutex sync.Mutex
	kept  map[stint.TaskID]keptValue
}

// Of returns a task with its body and result, unless these are large.
func (v *Values) Of(ctx context.Context, task *stint.TaskInfo) (stint.TaskInfo, bool, error) {
	v.mutex.Lock()
	known, ok := v.kept[task.ID]
	v.mutex.Unlock()
	if v.briefly && kept.Now().After(known.until) {
		ok = false
	}
	if ok && isSettled(task.State) && isSettled(known.info.State) &&
		known.info.InsertedAt.Equal(task.InsertedAt) &&
		known.info.FinishedAt.Equal(task.FinishedAt) {
		return known.info, known.large, nil
	}
	info, large, err := v.ask(ctx, task.ID)
	if err != nil {
		return info, large, err
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.kept == nil || len(v.kept) >= keptMax {
		v.kept = map[stint.TaskID]keptValue{} // it does not matter which ones are read again
	}
	v.kept[task.ID] = keptValue{info, large, kept.Now().Add(kept.NewFor)}
	return info, large, nil
}

type keptValue struct {
	info  stint.TaskInfo
	large bool // some of it was not read
	until time.Time
}

// A remoter has the verbs that services ask a store by, some of which are bounded.
type remoter interface{ Remote() *stint.Remote }

// GetShortTasks gets tasks without the most of their bodies and results, where the store can leave
// these out; otherwise it waits until it may read them.
func (a *Store) GetShortTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error) {
	if local, ok := a.Reader.(remoter); ok {
		found, _, err := local.Remote().GetSmallTasks(ctx, ids, beginningMax)
		return found, err
	}
	done, err := AwaitReading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return a.GetTasks(ctx, ids)
}

// smallTasks returns a function that reads a task, without its body or result if they are large,
// where the store can leave them out. Otherwise they are read, and left out then.
func smallTasks(
	store verbs.Reader,
) func(ctx context.Context, id stint.TaskID) (info stint.TaskInfo, large bool, err error) {
	local, ok := store.(remoter)
	if ok {
		return func(ctx context.Context, id stint.TaskID) (stint.TaskInfo, bool, error) {
			found, left, err := local.Remote().GetSmallTasks(ctx, []stint.TaskID{id}, show.ValueMax)
			if err != nil {
				return stint.TaskInfo{}, false, err
			}
			return found[0], left > 0, nil
		}
	}
	return func(ctx context.Context, id stint.TaskID) (stint.TaskInfo, bool, error) {
		done, err := AwaitReading(ctx)
		if err != nil {
			return stint.TaskInfo{}, false, err
		}
		defer done()
		found, err := store.GetTasks(ctx, []stint.TaskID{id})
		if err != nil {
			return stint.TaskInfo{}, false, err
		}
		large := false
		for _, value := range []*[]byte{&found[0].Body, &found[0].Result} {
			if len(*value) > show.ValueMax {
				*value, large = nil, true
			}
		}
		return found[0], large, nil
	}
}

// isSettled reports whether the body of a task no longer changes: Debounce gives one that waits
// another one.
func isSettled(state stint.State) bool {
	return state == stint.StateInProgress || show.IsFinal(state)
}

// How many values are read whole at once for a page, and to be sent as they are, which takes as
// long as a slow reader likes. Each may have 64 MiB.
//
//nolint:gochecknoglobals // the memory is the process's
var reading, sending = make(chan struct{}, 2), make(chan struct{}, 2)

// AwaitReading waits until a value may be read whole. Done says that it is no longer needed.
func AwaitReading(ctx context.Context) (done func(), err error) { return await(ctx, reading) }

// AwaitSending waits until a value may be read whole and sent, as [AwaitReading] does.
func AwaitSending(ctx context.Context) (done func(), err error) { return await(ctx, sending) }

func await(ctx context.Context, places chan struct{}) (done func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
