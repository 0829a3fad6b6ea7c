package taskstore

import (
	"context"
	"fmt"
	"slices"
)

// A Request says what [Store.Update] shall do. An ID must not be in it twice, except in Depends.
type Request struct {
	// Client is who asks, and will own new tasks whose available time is ahead. Every client
	// chooses a positive number of its own, such as a random one.
	Client int64

	Adds    []Add
	Updates []Change
	Deletes []int64

	// Depends are tasks that must be there, unchanged, and stay so until the call has taken effect.
	Depends []int64
}

// An Add is a task to add.
type Add struct {
	Group string // 1 to 255 bytes of UTF-8 without NUL
	Data  []byte // up to 1 MiB

	// TimeSpec is when the task becomes available: 0 is now, less is so many milliseconds from now,
	// more is in milliseconds since the Epoch.
	TimeSpec int64
}

// A Change is an update of a task: what its successor shall hold. The group stays.
type Change struct {
	ID       int64
	Data     []byte // up to 1 MiB; the data of the task are not kept
	TimeSpec int64  // as in [Add]; 0 gives the task back
}

// Update adds, updates and deletes tasks in one transaction, all or none. It returns the new tasks,
// those of Adds first, then those of Updates, each in the order of the request.
//
// If a task that the request names is not there, or is to be updated or deleted while another
// client owns it, Update does nothing and returns a [*ConflictError] that lists all such tasks. A
// task whose available time has passed can be updated and deleted by anybody. A request without
// changes only looks whether the tasks in Depends are there.
//
// A request may name or add up to 10,000 tasks with 16 MiB of data. A bad request is refused with
// [stint.ErrInvalidArgument] or [stint.ErrTooLarge]. Update waits for calls that change the same
// tasks, and for calls that depend on tasks which it changes; calls do not deadlock. A task on
// which many calls depend at any time may have to wait long for its update.
//
// A call that is cut off may have taken effect. Repeat it: if it updates or deletes a task, a
// [*ConflictError] that names this task says that the first call took effect, unless the client has
// lost the task since. A request that only adds may add its tasks twice. If that matters, let it
// also update a task that the client owns, which holds how far the client has come; the repetition
// is then refused.
func (s *Store) Update(ctx context.Context, r Request) ([]Task, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("update: %w", err)
	}
	var conflict ConflictError
	var ids, available []int64
	var groups []string
	err := s.change(ctx, "update", r.arguments(),
		&conflict.Changes, &conflict.Deletes, &conflict.Depends, &conflict.Owned,
		&ids, &available, &groups)
	if err == nil && !conflict.isEmpty() {
		err = &conflict
	}
	if err != nil {
		return nil, fmt.Errorf("update: %w", err)
	}
	tasks := make([]Task, len(ids))
	for i := range tasks {
		tasks[i] = Task{
			ID: ids[i], Group: groups[i], TimeSpec: available[i], Owner: r.Client,
		}
		if i < len(r.Adds) {
			tasks[i].Data = stored(r.Adds[i].Data)
		} else {
			tasks[i].Data = stored(r.Updates[i-len(r.Adds)].Data)
		}
	}
	return tasks, nil
}

// arguments are the parameters of the statement. None is null.
func (r *Request) arguments() []any {
	groups := make([]string, len(r.Adds))
	added, addTimes := make([][]byte, len(r.Adds)), make([]int64, len(r.Adds))
	for i, add := range r.Adds {
		groups[i], added[i], addTimes[i] = add.Group, stored(add.Data), add.TimeSpec
	}
	ids := make([]int64, len(r.Updates))
	changed, changeTimes := make([][]byte, len(r.Updates)), make([]int64, len(r.Updates))
	for i, change := range r.Updates {
		ids[i], changed[i], changeTimes[i] = change.ID, stored(change.Data), change.TimeSpec
	}
	return []any{
		r.Client, groups, added, addTimes, ids, changed, changeTimes,
		distinct(r.Deletes), distinct(r.Depends),
	}
}

// stored is data as the table has it: empty rather than missing.
func stored(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// distinct returns the IDs in order, each once, and not nil.
func distinct(ids []int64) []int64 {
	sorted := append([]int64{}, ids...)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
