package stint

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/pg"
)

// insertGraphRows runs steps that insert tasks, and then inserts what they wait for.
func (s *Store) insertGraphRows(
	ctx context.Context, rows graphRows, ready *pg.Notices, steps ...pg.Step,
) error {
	waiting := func(at settling) []pg.Step {
		at.pending.Merge(ready)
		all := append(slices.Clone(steps), rows.step(at))
		if len(rows.intoStored) > 0 {
			all = append(all, s.addEdges(rows.intoStored, at.pending)...)
		}
		return all
	}
	if len(rows.arrivals) == 0 {
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
	// missing is for each task how many signals it waits for.
	missing []int32
	// arrivals are the signals that are there from the start.
	arrivals []arrival
	// states are the states of the stored tasks.
	states []heldTask
}

// An arrival is the signals for a node that have arrived.
type arrival struct {
	node                        int32
	signals, completed, aborted int32
	spoiled                     bool // by a predecessor that was aborted
}

// newInsertGraph reads the edges that tasks name. The graph is nil if none of the tasks waits for
// anything and nothing waits for them.
func newInsertGraph(tasks []Task) (*insertGraph, error) {
	if !slices.ContainsFunc(tasks, isLinked) {
		return nil, nil //nolint:nilnil // no graph is an answer
	}
	g := &insertGraph{tasks: tasks, missing: make([]int32, len(tasks))}
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
			g.edges = append(g.edges, dag.Edge{From: nodes[task.ID], To: node(id)})
		}
	}
	sortEdges(g.edges)
	g.edges = slices.Compact(g.edges)
	if _, cycle := dag.Order(g.size(), g.edges); cycle != nil {
		return nil, g.cycleError(cycle)
	}
	g.count()
	return g, nil
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

func isLinked(task Task) bool {
	return len(task.After) > 0 || len(task.ToSignalAfter) > 0 || task.Action == Spontaneous
}

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
			g.arrivals = append(g.arrivals,
				arrival{node: int32(i), signals: 1})
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
	after, run := make([]bool, g.size()), make([]bool, g.size())
	for _, edge := range g.edges {
		after[edge.From], run[edge.To] = true, true
	}
	var afters, runs []TaskID
	for i, id := range g.stored {
		if after[len(g.tasks)+i] {
			afters = append(afters, id)
		}
		if run[len(g.tasks)+i] {
			runs = append(runs, id)
		}
	}
	// The new tasks can close a cycle only if stored tasks come both before and after them.
	crosses := len(afters) > 0 && len(runs) > 0
	held, err := s.lockStates(ctx, afters, runs, crosses)
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
	pairs := make([]keyEdge, len(g.edges))
	for i, edge := range g.edges {
		pairs[i] = keyEdge{keys[edge.From], keys[edge.To]}
	}
	names := make(map[int64]TaskID, len(keys))
	for i, key := range keys {
		names[key] = g.id(int32(i))
	}
	ahead := dag.NewKeyGraph()
	err := s.db.Run(ctx, edgesAhead(pairs, blocked, ahead))
	if err != nil {
		return err
	}
	return s.checkAcyclic(ctx, ahead, pairs, names)
}

// takeSignals collects what the predecessors that have ended signal to the new tasks.
func (g *insertGraph) takeSignals() {
	arrived := map[int32]int{} // places in arrivals
	for _, edge := range g.edges {
		if !g.isStored(edge.From) {
			continue
		}
		before := g.states[int(edge.From)-len(g.tasks)]
		if !before.final() {
			continue
		}
		place, ok := arrived[edge.To]
		if !ok {
			place = len(g.arrivals)
			arrived[edge.To] = place
			g.arrivals = append(g.arrivals, arrival{node: edge.To})
		}
		at := &g.arrivals[place]
		at.signals++
		switch {
		case before.state != stateCompleted:
			at.aborted++
			at.spoiled = true
		case before.completed != nil && before.aborted != nil:
			at.completed = saturated(at.completed, *before.completed)
			at.aborted = saturated(at.aborted, *before.aborted)
		default:
			at.completed++
		}
	}
}

// saturated adds two counts. Layers of joins may drive a sum up to the largest integer, but not
// beyond.
func saturated(a, b int32) int32 {
	return a + min(b, math.MaxInt32-a)
}

// graphRows are the rows that an insertGraph adds to the tables.
type graphRows struct {
	waiting  []waitingRow
	edges    []keyEdge // into new tasks
	arrivals []arrivalRow
	// intoStored are the edges into stored tasks.
	intoStored []keyEdge
}

type waitingRow struct {
	key       int64
	missing   int32
	notBefore *time.Time
}

type arrivalRow struct {
	key int64
	arrival
}

// rows gives the new tasks their keys.
func (g *insertGraph) rows(keys []int64) graphRows {
	rows, across := g.inside(keys), g.across(keys)
	rows.edges = append(rows.edges, across.edges...)
	rows.arrivals, rows.intoStored = across.arrivals, across.intoStored
	return rows
}

// inside returns the rows that have nothing to do with stored tasks. They need no attach before.
func (g *insertGraph) inside(keys []int64) graphRows {
	var rows graphRows
	for i := range g.tasks {
		if g.missing[i] > 0 {
			rows.waiting = append(rows.waiting,
				waitingRow{keys[i], g.missing[i], pg.Moment(g.tasks[i].NotBefore)})
		}
	}
	for _, edge := range g.edges {
		if !g.isStored(edge.From) && !g.isStored(edge.To) {
			rows.edges = append(rows.edges, keyEdge{keys[edge.From], keys[edge.To]})
		}
	}
	return rows
}

// across returns the other rows. They need the keys of the stored tasks, which attach finds.
func (g *insertGraph) across(keys []int64) graphRows {
	key := func(node int32) int64 {
		if g.isStored(node) {
			return g.states[int(node)-len(g.tasks)].key
		}
		return keys[node]
	}
	var rows graphRows
	for _, edge := range g.edges {
		pair := keyEdge{key(edge.From), key(edge.To)}
		switch {
		case g.isStored(edge.To):
			rows.intoStored = append(rows.intoStored, pair)
		case g.isStored(edge.From):
			rows.edges = append(rows.edges, pair)
		}
	}
	for _, arrival := range g.arrivals {
		rows.arrivals = append(rows.arrivals, arrivalRow{key(arrival.node), arrival})
	}
	return rows
}

// step is the statement that adds the rows, except for edges into stored tasks.
func (r *graphRows) step(at settling) pg.Step {
	var waiting, arriving []int64
	var missing, signals, completed, aborted []int32
	var notBefore []*time.Time
	var spoiled []bool
	for _, row := range r.waiting {
		waiting, missing = append(waiting, row.key), append(missing, row.missing)
		notBefore = append(notBefore, row.notBefore)
	}
	for _, row := range r.arrivals {
		arriving, signals = append(arriving, row.key), append(signals, row.signals)
		completed, aborted = append(completed, row.completed), append(aborted, row.aborted)
		spoiled = append(spoiled, row.spoiled)
	}
	after, run := ends(r.edges)
	return pg.Step{Name: "insert_network", Args: []any{
		at.batch, at.round, waiting, missing, notBefore, after, run, arriving, signals, completed,
		aborted, spoiled,
	}}
}

func sortEdges(edges []dag.Edge) {
	slices.SortFunc(edges, func(a, b dag.Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
}
