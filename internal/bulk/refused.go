package bulk

import (
	"context"
	"errors"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

// A Refusal is why tasks were left out of a change.
type Refusal struct {
	Tasks []stint.TaskID
	Err   error
}

// LeavingOut makes a change of tasks that takes place as a whole or not at all. If it is refused
// because of some of the tasks, it is made again without these, which Refused names.
func LeavingOut(
	ctx context.Context, store verbs.Reader, tasks []Task,
	change func(ctx context.Context, tasks []Task) (stint.Affected, error),
) (affected stint.Affected, refused []Refusal, err error) {
	for len(tasks) > 0 {
		affected, err := change(ctx, tasks)
		if err == nil {
			return affected, refused, nil
		}
		because, findErr := refusedBy(ctx, store, err)
		if findErr != nil {
			return stint.Affected{}, refused, findErr
		}
		var rest []Task
		var left []stint.TaskID
		for _, task := range tasks {
			if because[task.ID] {
				left = append(left, task.ID)
			} else {
				rest = append(rest, task)
			}
		}
		if len(left) == 0 {
			return stint.Affected{}, refused, err
		}
		tasks, refused = rest, append(refused, Refusal{left, err})
	}
	return stint.Affected{}, refused, nil
}

// refusedBy returns the tasks because of which a change was refused: those that the error names or,
// where it names aborted predecessors, what these keep aborted.
func refusedBy(
	ctx context.Context, store verbs.Reader, err error,
) (map[stint.TaskID]bool, error) {
	refused := map[stint.TaskID]bool{}
	var named *stint.TaskError
	if !errors.As(err, &named) {
		return refused, nil
	}
	if !errors.Is(err, stint.ErrPredecessorAborted) {
		for _, id := range named.IDs {
			refused[id] = true
		}
		return refused, nil
	}
	looked := map[stint.TaskID]bool{}
	for _, id := range named.IDs {
		if looked[id] {
			continue
		}
		graph, err := store.Graph(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, task := range graph.Tasks {
			looked[task.ID] = !graph.Cut
		}
		keptAborted(graph, named.IDs, refused)
	}
	return refused, nil
}

// keptAborted adds to kept the aborted tasks of a graph that stay aborted with the tasks given.
func keptAborted(graph *stint.Graph, with []stint.TaskID, kept map[stint.TaskID]bool) {
	follows := map[stint.TaskID]bool{} // those that do not run anyway
	for _, task := range graph.Tasks {
		follows[task.ID] = task.State == stint.StateAborted && task.OnAbort == stint.AbortToo
	}
	accepted := map[stint.Dependency]bool{} // those where an abort brings nothing down
	for _, c := range graph.Conditions {
		accepted[stint.Dependency{Predecessor: c.After, Dependent: c.Dependent}] = c.Any ||
			slices.Contains(c.States, stint.StateAborted)
	}
	behind := map[stint.TaskID][]stint.TaskID{}
	for _, dependency := range graph.Dependencies {
		if follows[dependency.Dependent] && !accepted[dependency] {
			before := dependency.Predecessor
			behind[before] = append(behind[before], dependency.Dependent)
		}
	}
	for queue := slices.Clone(with); len(queue) > 0; queue = queue[1:] {
		for _, id := range behind[queue[0]] {
			if !kept[id] {
				kept[id] = true
				queue = append(queue, id)
			}
		}
	}
}
