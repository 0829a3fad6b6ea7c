package stint

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/network"
	"github.com/stint-tasks/stint/internal/pg"
)

// insertGraphRows runs steps that insert tasks, and then inserts what they wait for.
func (s *Store) insertGraphRows(
	ctx context.Context, rows network.Rows, ready *pg.Notices, steps ...pg.Step,
) error {
	waiting := func(at settling) []pg.Step {
		at.pending.Merge(ready)
		all := append(slices.Clone(steps), rows.Steps(at.batch, at.round)...)
		if len(rows.IntoStored) > 0 {
			all = append(all, s.addEdges(rows.IntoStored, at.pending)...)
		}
		return all
	}
	if len(rows.Arrivals) == 0 && len(rows.Conditional) == 0 {
		others := &pg.Notices{}
		err := s.db.Do(ctx, pg.Request{Steps: waiting(settling{pending: others}), Known: ready})
		if others.Remove(ready); err == nil {
			s.db.Notify(ctx, others)
		}
		return err
	}
	return s.settle(ctx, roundsUsual, ready, waiting)
}

// An insertGraph is the dependencies that the tasks of one insert name. Its nodes are numbered:
// first the tasks, in their order, then the stored tasks that they name.
type insertGraph struct {
	tasks  []Task
	stored []TaskID
	// edges lead from a node to one that waits for it. They are sorted, and each is there once.
	edges []dag.Edge
	// conditions are those of the edges that have one.
	conditions map[dag.Edge]*network.Condition
	// into is that of newInsertGraph.
	into map[Dependency]*network.Condition
	// missing is for each task how many signals it waits for.
	missing []int32
	// arrivals are the signals that are there from the start.
	arrivals []arrival
	// states are the states of the stored tasks.
	states []heldTask
}

// An arrival is the signals for a node, whose key is yet to be found.
type arrival struct {
	node int32
	network.Arrival
}

// newInsertGraph reads the edges that tasks name. The graph is nil if none of the tasks waits for
// anything and nothing waits for them. In into are the edges to which ToSignalAfter leads, but
// which the dependents have named, with their conditions, if they have any.
func newInsertGraph(tasks []Task, into map[Dependency]*network.Condition) (*insertGraph, error) {
	if !slices.ContainsFunc(tasks, isLinked) {
		return nil, nil //nolint:nilnil // no graph is an answer
	}
	g := &insertGraph{tasks: tasks, into: into, missing: make([]int32, len(tasks))}
	if len(into) > 0 || slices.ContainsFunc(tasks, isConditional) {
		g.conditions = map[dag.Edge]*network.Condition{}
	}
	nodes := make(map[TaskID]int32, len(tasks))
	for i := range tasks {
		nodes[tasks[i].ID] = int32(i)
	}
	node := func(id TaskID) int32 {
		number, ok := nodes[id]
		if !ok {
			number = int32(len(nodes)) //nolint:gosec // as above
			nodes[id] = number
			g.stored = append(g.stored, id)
		}
		return number
	}
	for i := range tasks {
		task := &tasks[i]
		for _, id := range task.After {
			g.edges = append(g.edges, dag.Edge{From: node(id), To: nodes[task.ID]})
		}
		for _, id := range task.ToSignalAfter {
			edge := dag.Edge{From: nodes[task.ID], To: node(id)}
			g.edges = append(g.edges, edge)
			condition, ok := into[Dependency{task.ID, id}]
			if _, known := g.conditions[edge]; ok && condition != nil && !known {
				g.conditions[edge] = condition
			}
		}
		if !isConditional(*task) {
			continue
		}
		for id, condition := range task.conditionRows() {
			edge := dag.Edge{From: node(id), To: nodes[task.ID]}
			g.edges = append(g.edges, edge)
			g.conditions[edge] = condition
		}
	}
	sortEdges(g.edges)
	g.edges = slices.Compact(g.edges)
	if g.conditions != nil {
		if err := g.checkAny(); err != nil {
			return nil, err
		}
	}
	if _, cycle := dag.Order(g.size(), g.edges); cycle != nil {
		return nil, g.cycleError(cycle)
	}
	g.count()
	return g, nil
}

// checkAny refuses tasks with WhenAny for which others name themselves in ToSignalAfter.
func (g *insertGraph) checkAny() error {
	for _, edge := range g.edges {
		if g.isStored(edge.To) || len(g.tasks[edge.To].WhenAny) == 0 {
			continue
		}
		if c := g.conditions[edge]; c == nil || c.Accepts&network.OneOfSeveral == 0 {
			return at(argumentError("Task.WhenAny", fmt.Sprintf(
				"task %q names the task in ToSignalAfter, but it %s", string(g.id(edge.From)),
				waitsForAny)), int(edge.To), g.id(edge.To))
		}
	}
	return nil
}

// conditionRows are the conditions of a task as the table edges has them, by predecessor.
func (t *Task) conditionRows() iter.Seq2[TaskID, *network.Condition] {
	return func(yield func(TaskID, *network.Condition) bool) {
		for i, condition := range t.conditions() {
			row := &network.Condition{Results: network.NewResults(condition.Results)}
			for _, state := range condition.States {
				row.Accepts |= accepting[state]
			}
			if len(condition.States) == 0 {
				row.Accepts = network.AcceptsCompleted
			}
			if i >= len(t.When) {
				row.Accepts |= network.OneOfSeveral
			}
			if !yield(condition.After, row) {
				return
			}
		}
	}
}

// accepting are the ends that conditions name, as the table edges has them.
//
//nolint:gochecknoglobals // never changes
var accepting = map[State]int16{
	StateCompleted: network.AcceptsCompleted,
	StateAborted:   network.AcceptsAborted,
	StateSkipped:   network.AcceptsSkipped,
}

// countEdges returns how many edges there are.
func (g *insertGraph) countEdges() int {
	if g == nil {
		return 0
	}
	return len(g.edges)
}

// namesStored reports whether the edges lead to or from tasks that are in the store.
func (g *insertGraph) namesStored() bool { return g != nil && len(g.stored) > 0 }

func isConditional(task Task) bool { return len(task.When) > 0 || len(task.WhenAny) > 0 }

// count counts the signals that each task waits for. A spontaneous task that waits for nothing gets
// its last signal from the insert itself.
func (g *insertGraph) count() {
	for _, edge := range g.edges {
		if int(edge.To) < len(g.tasks) {
			g.missing[edge.To]++
		}
	}
	for i := range g.tasks {
		if g.tasks[i].Action == Spontaneous && g.missing[i] == 0 {
			g.missing[i] = 1
			g.arrivals = append(g.arrivals, arrival{int32(i), network.Arrival{Signals: 1}})
		}
	}
}

func (g *insertGraph) size() int { return len(g.tasks) + len(g.stored) }

func (g *insertGraph) id(node int32) TaskID {
	if int(node) < len(g.tasks) {
		return g.tasks[node].ID
	}
	return g.stored[int(node)-len(g.tasks)]
}

func (g *insertGraph) isStored(node int32) bool { return int(node) >= len(g.tasks) }

// waits reports whether a task of the insert waits for something.
func (g *insertGraph) waits(task int) bool { return g != nil && g.missing[task] > 0 }

func (g *insertGraph) cycleError(cycle []int32) error {
	path := make([]TaskID, len(cycle))
	for i, node := range cycle {
		path[i] = g.id(node)
	}
	return &CycleError{Path: path}
}

// attach looks up the stored tasks of the graph and holds them in their states until the
// transaction ends, refuses edges that are not allowed, and takes the signals of predecessors that
// have ended (R3).
func (g *insertGraph) attach(ctx context.Context, s *Store) error {
	if g == nil || len(g.stored) == 0 {
		return nil
	}
	after, run, about := make([]bool, g.size()), make([]bool, g.size()), make([]bool, g.size())
	for _, edge := range g.edges {
		after[edge.From], run[edge.To] = true, true
		about[edge.From] = about[edge.From] || g.conditions[edge] != nil
	}
	var afters, runs, judged []TaskID
	for i, id := range g.stored {
		if after[len(g.tasks)+i] {
			afters = append(afters, id)
		}
		if run[len(g.tasks)+i] {
			runs = append(runs, id)
		}
		if about[len(g.tasks)+i] {
			judged = append(judged, id)
		}
	}
	// The new tasks can close a cycle only if stored tasks come both before and after them.
	crosses := len(afters) > 0 && len(runs) > 0
	held, err := s.lockStates(ctx, afters, runs, judged, crosses)
	if err != nil {
		return err
	}
	var missing, started []TaskID
	g.states = make([]heldTask, len(g.stored))
	for i, id := range g.stored {
		task, ok := held[id]
		g.states[i] = task
		switch {
		case !ok:
			missing = append(missing, id)
		case task.started() && run[len(g.tasks)+i]:
			started = append(started, id)
		case task.any:
			if err := g.refuseAny(int32(len(g.tasks)+i), task); err != nil { //nolint:gosec // few
				return err
			}
		}
	}
	switch {
	case len(missing) > 0:
		return taskError(missing, ErrTaskNotFound)
	case len(started) > 0:
		return taskError(started, ErrTaskStarted)
	case crosses:
		if err := g.checkCycleThroughStored(ctx, s); err != nil {
			return err
		}
	}
	g.takeSignals()
	return nil
}

// refuseAny refuses edges to a stored task that the first of several starts, unless they come in
// the place of some of these.
func (g *insertGraph) refuseAny(node int32, task heldTask) error {
	for _, edge := range g.edges {
		c := g.conditions[edge]
		if edge.To != node || task.state == stateBlocked && c != nil &&
			c.Accepts&network.OneOfSeveral != 0 {
			continue
		}
		argument, id := "Task.ToSignalAfter", g.id(node)
		condition, named := g.into[Dependency{g.id(edge.From), id}]
		switch {
		case named && condition == nil:
			argument = "Task.After"
		case named:
			argument = "Task.When"
		}
		return argumentError(argument, fmt.Sprintf("task %q %s", string(id), waitsForAny))
	}
	return nil
}

// checkCycleThroughStored looks for a way from a stored dependent to a stored predecessor.
func (g *insertGraph) checkCycleThroughStored(ctx context.Context, s *Store) error {
	keys, blocked := make([]int64, g.size()), map[int64]bool{}
	for i := range keys {
		keys[i] = -1 - int64(i) // the new tasks have none yet
		if i >= len(g.tasks) {
			stored := g.states[i-len(g.tasks)]
			keys[i], blocked[stored.key] = stored.key, stored.state == stateBlocked
		}
	}
	pairs := make([]network.Edge, len(g.edges))
	for i, edge := range g.edges {
		pairs[i] = network.Edge{After: keys[edge.From], Run: keys[edge.To]}
	}
	names := make(map[int64]TaskID, len(keys))
	for i, key := range keys {
		names[key] = g.id(int32(i))
	}
	ahead := dag.NewKeyGraph()
	err := s.db.Run(ctx, network.Ahead(pairs, blocked, ahead))
	if err != nil {
		return err
	}
	return s.checkAcyclic(ctx, ahead, pairs, names)
}

// takeSignals collects what the predecessors that have ended signal to the new tasks, except for
// those with conditions.
func (g *insertGraph) takeSignals() {
	arrived := map[int32]int{} // places in arrivals
	for _, edge := range g.edges {
		if !g.isStored(edge.From) {
			continue
		}
		before := g.states[int(edge.From)-len(g.tasks)]
		if !before.final() || isConditional(g.tasks[edge.To]) {
			continue
		}
		place, ok := arrived[edge.To]
		if !ok {
			place = len(g.arrivals)
			arrived[edge.To] = place
			g.arrivals = append(g.arrivals, arrival{node: edge.To})
		}
		at := &g.arrivals[place]
		at.Signals++
		switch {
		case before.state == stateCompleted+causeSkipped:
			if g.tasks[edge.To].OnAbort == AbortToo {
				at.Verdict = network.Unmet
			}
		case before.state != stateCompleted:
			at.Aborted++
			at.Spoiled = true
		case before.completed != nil && before.aborted != nil:
			at.Completed = network.Saturated(at.Completed, *before.completed)
			at.Aborted = network.Saturated(at.Aborted, *before.aborted)
		default:
			at.Completed++
		}
	}
}

// rows gives the new tasks their keys.
func (g *insertGraph) rows(keys []int64) network.Rows {
	rows, across := g.inside(keys), g.across(keys)
	rows.Edges = append(rows.Edges, across.Edges...)
	rows.Arrivals, rows.IntoStored = across.Arrivals, across.IntoStored
	rows.Conditional = across.Conditional
	return rows
}

// inside returns the rows that have nothing to do with stored tasks. They need no attach before.
func (g *insertGraph) inside(keys []int64) network.Rows {
	var rows network.Rows
	for i := range g.tasks {
		if g.missing[i] > 0 {
			rows.Waiting = append(rows.Waiting, network.Waiting{
				Key: keys[i], Missing: g.missing[i], NotBefore: pg.Moment(g.tasks[i].NotBefore),
			})
		}
	}
	for _, edge := range g.edges {
		if !g.isStored(edge.From) && !g.isStored(edge.To) {
			pair := network.Edge{
				After: keys[edge.From], Run: keys[edge.To], Condition: g.conditions[edge],
			}
			rows.Edges = append(rows.Edges, pair)
		}
	}
	return rows
}

// across returns the other rows. They need the keys of the stored tasks, which attach finds.
func (g *insertGraph) across(keys []int64) network.Rows {
	key := func(node int32) int64 {
		if g.isStored(node) {
			return g.states[int(node)-len(g.tasks)].key
		}
		return keys[node]
	}
	var rows network.Rows
	for _, edge := range g.edges {
		pair := network.Edge{
			After: key(edge.From), Run: key(edge.To), Condition: g.conditions[edge],
		}
		switch {
		case g.isStored(edge.To):
			rows.IntoStored = append(rows.IntoStored, pair)
		case g.isStored(edge.From):
			rows.Edges = append(rows.Edges, pair)
			if isConditional(g.tasks[edge.To]) {
				rows.Conditional = append(rows.Conditional, pair.Run)
			}
		}
	}
	slices.Sort(rows.Conditional)
	rows.Conditional = slices.Compact(rows.Conditional)
	for _, arrival := range g.arrivals {
		arrival.Key = key(arrival.node)
		rows.Arrivals = append(rows.Arrivals, arrival.Arrival)
	}
	return rows
}

func sortEdges(edges []dag.Edge) {
	slices.SortFunc(edges, func(a, b dag.Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
}
