package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
)

// A walk goes from a task to those that wait for it, from shard to shard.
type walk struct {
	at     asker
	from   map[ID]ID // how each task was reached
	next   []ID      // tasks that were reached on another shard
	states map[ID]stint.State
}

func walkFrom(at asker, starts ...ID) *walk {
	w := &walk{
		at: at, from: make(map[ID]ID, len(starts)), states: map[ID]stint.State{},
	}
	for _, start := range starts {
		if _, seen := w.from[start]; !seen {
			w.from[start], w.next = start, append(w.next, start)
		}
	}
	return w
}

// all goes on until no further task is reached.
func (w *walk) all(ctx context.Context) error {
	for len(w.next) > 0 {
		id := w.next[0]
		w.next = w.next[1:]
		if err := w.along(ctx, id); err != nil {
			return inShard(id.Shard, err)
		}
	}
	return nil
}

// path returns the tasks from one to another along edges, each waiting for the one before it; nil
// if there are none. Tasks that a cluster has inserted for itself are left out.
func path(ctx context.Context, at asker, from, to ID) ([]stint.TaskID, error) {
	w := walkFrom(at, from)
	if err := w.all(ctx); err != nil {
		return nil, err
	}
	if _, ok := w.from[to]; !ok {
		return nil, nil
	}
	path := []stint.TaskID{stint.TaskID(to.String())}
	for at := to; at != from; {
		at = w.from[at]
		if !IsOwn(at.Task) {
			path = append(path, stint.TaskID(at.String()))
		}
	}
	slices.Reverse(path)
	return path, nil
}

// along goes to all tasks of a shard that wait for one, or for others in its network from which the
// walk is to go on, and over the edges from there.
func (w *walk) along(ctx context.Context, start ID) error {
	var graph *stint.Graph
	err := w.at.ask(ctx, start.Shard, func(ctx context.Context, store Store) (err error) {
		graph, err = store.Graph(ctx, start.Task)
		return err
	})
	if errors.Is(err, stint.ErrTaskNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if graph.Cut {
		return fmt.Errorf("%w: the network of %s is too large to be searched",
			stint.ErrTooLarge, start)
	}
	dependents := map[stint.TaskID][]stint.TaskID{}
	for _, d := range graph.Dependencies {
		dependents[d.Predecessor] = append(dependents[d.Predecessor], d.Dependent)
	}
	unfinished := map[stint.TaskID]bool{}
	for _, task := range graph.Tasks {
		unfinished[task.ID] = task.FinishedAt.IsZero()
		w.states[ID{start.Shard, task.ID}] = task.State
	}
	queue := []stint.TaskID{start.Task}
	w.next = slices.DeleteFunc(w.next, func(other ID) bool {
		_, here := unfinished[other.Task]
		if here = here && other.Shard == start.Shard; here {
			queue = append(queue, other.Task)
		}
		return here
	})
	var reports []stint.TaskID
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if strings.HasPrefix(string(at), reportPrefix) {
			reports = append(reports, at)
		}
		for _, next := range dependents[at] {
			id := ID{start.Shard, next}
			if _, seen := w.from[id]; !seen && unfinished[next] {
				w.from[id] = ID{start.Shard, at}
				queue = append(queue, next)
			}
		}
	}
	return w.over(ctx, start.Shard, reports)
}

// over goes on at the placeholders that tasks report to.
func (w *walk) over(ctx context.Context, shard string, reports []stint.TaskID) error {
	found := map[stint.TaskID]*stint.TaskInfo{}
	err := w.at.ask(ctx, shard, func(ctx context.Context, store Store) error {
		return getAll(ctx, store, reports, found)
	})
	if err != nil {
		return err
	}
	for _, id := range reports {
		task := found[id]
		if task == nil {
			continue
		}
		of, err := unmarshalReport(stint.OwnedTask{Body: task.Body})
		if err != nil {
			return fmt.Errorf("read %q: %w", id, err)
		}
		placeholder := ID{of.Shard, of.Placeholder}
		if _, seen := w.from[placeholder]; !seen {
			w.from[placeholder] = ID{shard, id}
			w.next = append(w.next, placeholder)
		}
	}
	return nil
}
