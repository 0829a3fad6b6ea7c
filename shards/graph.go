package shards

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stint-tasks/stint"
)

// A Graph is a network of tasks of several shards.
type Graph struct {
	// Tasks are the tasks, the nearest first, without bodies and results. Of a task whose shard is
	// away there is the ID only.
	Tasks []TaskInfo

	// Dependencies are those between these tasks, also from shard to shard.
	Dependencies []Dependency

	// Conditions are those of the dependencies that have one.
	Conditions []EdgeCondition

	// Cut says that the network goes on beyond these tasks.
	Cut bool

	// Away are the shards that did not say what they have of the network.
	Away []*ShardError
}

// An EdgeCondition is the condition of a dependency.
type EdgeCondition struct {
	Dependent ID
	Condition
	Any bool // it is in the dependent's WhenAny
}

const (
	// graphTasksMax is how many tasks a graph holds.
	graphTasksMax = 10_000
	// graphLooksMax is how often shards are asked for one.
	graphLooksMax = 1000
)

// Graph returns the network around a task: everything that it depends on or that depends on it, and
// so on from shard to shard, finished tasks included until they are pruned. The tasks that the
// cluster has inserted for itself are left out. It returns up to 10,000 tasks, and asks shards up
// to 1,000 times, once for each part of the network that is connected within a shard. Parts of
// different shards are not as of one instant.
//
// A shard that is away, or does not answer within twenty seconds, is no error: the graph names it.
// But if it is the task's own shard, the error says so. If there is no such task, the error is
// [stint.ErrTaskNotFound], in a [*ShardError].
func (c *Cluster) Graph(ctx context.Context, id ID) (*Graph, error) {
	n := c.newNetwork()
	err := n.load(ctx, id)
	switch {
	case err != nil:
	case n.gone[id]:
		err = inShard(id.Shard,
			&stint.TaskError{IDs: []stint.TaskID{id.Task}, Err: stint.ErrTaskNotFound})
	case n.away[id.Shard] != nil:
		err = n.away[id.Shard]
	}
	var graph *Graph
	if err == nil {
		graph, err = n.around(ctx, id)
	}
	if err != nil {
		return nil, said("graph", err)
	}
	return graph, nil
}

// A network is what was read of one.
type network struct {
	cluster *Cluster
	tasks   map[ID]stint.TaskInfo
	before  map[ID][]ID // what a task waits for on its shard, and how that must end
	when    map[Dependency]stint.EdgeCondition
	beside  map[ID][]ID // that, what waits for it, and what it stands for or reports to
	gone    map[ID]bool // tasks that are not there
	away    map[string]*ShardError
	order   []*ShardError // the shards that are away, as they were met
	looks   int
	cut     bool
}

func (c *Cluster) newNetwork() *network {
	return &network{
		cluster: c, tasks: map[ID]stint.TaskInfo{}, beside: map[ID][]ID{}, before: map[ID][]ID{},
		gone: map[ID]bool{}, away: map[string]*ShardError{},
		when: map[Dependency]stint.EdgeCondition{},
	}
}

// around collects the tasks around one, the nearest first.
func (n *network) around(ctx context.Context, id ID) (*Graph, error) {
	graph, reached := &Graph{}, map[ID]bool{id: true}
	for next := []ID{id}; len(next) > 0; {
		at := next[0]
		next = next[1:]
		if err := n.load(ctx, at); err != nil {
			return nil, err
		}
		if n.gone[at] {
			continue
		}
		if !IsOwn(at.Task) || at == id {
			if len(graph.Tasks) == graphTasksMax {
				n.cut = true
				break
			}
			info := n.tasks[at]
			info.ID = at.Task // also if its shard is away
			graph.Tasks = append(graph.Tasks, TaskInfo{at.Shard, info})
		}
		for _, beside := range n.beside[at] {
			if !reached[beside] {
				reached[beside] = true
				next = append(next, beside)
			}
		}
	}
	graph.Dependencies, graph.Conditions = n.between(graph.Tasks)
	graph.Cut, graph.Away = n.cut, n.order
	return graph, nil
}

// between returns the dependencies between tasks, with their conditions. One on a placeholder is
// one on the task that this
// stands for.
func (n *network) between(
	tasks []TaskInfo,
) (all []Dependency, conditions []EdgeCondition) {
	here := make(map[ID]bool, len(tasks))
	for _, task := range tasks {
		here[task.Name()] = true
	}
	known := map[Dependency]bool{}
	for _, task := range tasks {
		for _, before := range n.before[task.Name()] {
			when, conditional := n.when[Dependency{before, task.Name()}]
			if of, ok := StandsFor(before.Task); ok && !here[before] {
				before = of
			}
			d := Dependency{before, task.Name()}
			if here[before] && !known[d] {
				known[d] = true
				all = append(all, d)
				if conditional {
					conditions = append(conditions, EdgeCondition{
						d.Dependent, Condition{before, when.States, when.Results}, when.Any,
					})
				}
			}
		}
	}
	return all, conditions
}

// load reads the network around a task on its shard, unless it was read before or the shard is
// away.
func (n *network) load(ctx context.Context, at ID) error {
	_, known := n.tasks[at]
	_, away := n.away[at.Shard]
	if known || away || n.gone[at] {
		return nil
	}
	if n.looks == graphLooksMax {
		n.cut, n.gone[at] = true, true
		return nil
	}
	n.looks++
	var graph *stint.Graph
	found := map[stint.TaskID]*stint.TaskInfo{}
	failed, err := n.cluster.look(ctx, at.Shard, func(
		ctx context.Context, store Store,
	) (err error) {
		if graph, err = store.Graph(ctx, at.Task); err != nil {
			return err
		}
		return getAll(ctx, store, besides(graph), found)
	})
	if n.gone[at] = errors.Is(err, stint.ErrTaskNotFound); n.gone[at] {
		err = nil
	} else if failed != nil {
		n.away[at.Shard], n.order = failed, append(n.order, failed)
	} else if err == nil {
		err = n.add(at.Shard, graph, found)
	}
	return err
}

// besides returns the tasks whose bodies or states say how a graph goes on at other shards: those
// that report, and what has decided whether edges stay.
func besides(graph *stint.Graph) []stint.TaskID {
	var ids []stint.TaskID
	for _, task := range graph.Tasks {
		if strings.HasPrefix(string(task.ID), reportPrefix) {
			ids = append(ids, task.ID)
		} else if _, ok := StandsFor(task.ID); ok && task.StatusCode == stint.StatusCompleted {
			ids = append(ids, decisionOn(task.ID))
		}
	}
	return ids
}

// decisionOn is the task that has decided whether the edge of a placeholder stays, if the edge was
// added to stored tasks.
func decisionOn(placeholder stint.TaskID) stint.TaskID {
	at := strings.LastIndexByte(string(placeholder), '/')
	return decisionPrefix + placeholder[at+1:]
}

// add adds the graph of a shard.
func (n *network) add(
	shard string, graph *stint.Graph, found map[stint.TaskID]*stint.TaskInfo,
) error {
	n.cut = n.cut || graph.Cut
	hidden := map[stint.TaskID]bool{} // they lead nowhere
	for _, task := range graph.Tasks {
		id := ID{shard, task.ID}
		n.tasks[id] = task
		of, stands := StandsFor(task.ID)
		switch decided := found[decisionOn(task.ID)]; {
		case stands && decided != nil && decided.StatusCode == stint.StatusAborted:
			hidden[task.ID] = true // the edge was taken back
		case stands:
			n.beside[id] = append(n.beside[id], of)
		case strings.HasPrefix(string(task.ID), reportPrefix) && found[task.ID] != nil:
			r, err := unmarshalReport(stint.OwnedTask{Body: found[task.ID].Body})
			if err != nil {
				return fmt.Errorf("read %q: %w", id, err)
			}
			n.beside[id] = append(n.beside[id], ID{r.Shard, r.Placeholder})
		default:
			hidden[task.ID] = IsOwn(task.ID)
		}
	}
	for _, c := range graph.Conditions {
		n.when[Dependency{ID{shard, c.After}, ID{shard, c.Dependent}}] = c
	}
	for _, d := range graph.Dependencies {
		if hidden[d.Predecessor] || hidden[d.Dependent] {
			continue
		}
		before, after := ID{shard, d.Predecessor}, ID{shard, d.Dependent}
		n.before[after] = append(n.before[after], before)
		n.beside[after] = append(n.beside[after], before)
		n.beside[before] = append(n.beside[before], after)
	}
	return nil
}
