package structures

import (
	"slices"
	"strconv"

	"github.com/stint-tasks/stint"
)

// givenTasks is what is known of the caller's tasks before building.
type givenTasks struct {
	n     int
	ids   map[stint.TaskID]bool
	edges bool // some have edges of their own
	depth int  // of the structure that is being checked
}

// depthMax bounds recursion: a stack that overflows cannot be recovered from. 100,000 levels fit
// into the 250 MB that Go allows on 32-bit machines; elsewhere it is 1 GB.
const depthMax = 100_000

// check returns an error if something is wrong with a structure.
func (g *givenTasks) check(s Structure) error {
	switch s := s.(type) {
	case Task:
		return g.checkTask(stint.Task(s))
	case *chain:
		return g.checkAll(s.parts)
	case *group:
		return g.checkAll(s.parts)
	case *failFast:
		return g.checkAll([]Structure{s.part})
	case *network:
		if s.err != nil {
			return s.err
		}
		return g.checkAll(s.parts)
	}
	return nil
}

func (g *givenTasks) checkAll(parts []Structure) error {
	if g.depth == depthMax {
		return &ShapeError{Err: ErrTooDeep}
	}
	g.depth++
	for _, part := range parts {
		if err := g.check(part); err != nil {
			return err
		}
	}
	g.depth--
	return nil
}

func (g *givenTasks) checkTask(task stint.Task) error {
	if task.Action == stint.Spontaneous {
		name := string(task.ID)
		if name == "" {
			name = "#" + strconv.Itoa(g.n)
		}
		return &ShapeError{Names: []string{name}, Err: ErrReservedAction}
	}
	if g.ids[task.ID] {
		return &ShapeError{Names: []string{string(task.ID)}, Err: ErrDuplicate}
	}
	if task.ID != "" {
		g.ids[task.ID] = true
	}
	g.edges = g.edges ||
		len(task.After)+len(task.ToSignalAfter)+len(task.When)+len(task.WhenAny) > 0
	g.n++
	return nil
}

// moveEdges turns the edges that the caller's tasks have of their own into entries in After if both
// tasks belong to the structure, and sorts the tasks so that each comes after those that it waits
// for.
func (b *builder) moveEdges() error {
	places := make(map[stint.TaskID]int, len(b.tasks))
	for i := range b.tasks {
		places[b.tasks[i].ID] = i
	}
	b.turnSignals(places)
	after := make([][]int, len(b.tasks))
	for i := range b.tasks {
		ids := slices.Clone(b.tasks[i].After)
		for _, condition := range slices.Concat(b.tasks[i].When, b.tasks[i].WhenAny) {
			ids = append(ids, condition.After)
		}
		for _, id := range ids {
			if place, ok := places[id]; ok {
				after[i] = append(after[i], place)
			}
		}
	}
	order, cycle := sorted(after)
	if cycle != nil {
		path := make([]string, len(cycle))
		for i, place := range cycle {
			path[i] = string(b.tasks[place].ID)
		}
		return &ShapeError{Names: path, Err: ErrCycle}
	}
	arranged := make([]stint.Task, len(order))
	for i, place := range order {
		arranged[i] = b.tasks[place]
	}
	b.tasks = arranged
	return nil
}

// turnSignals turns ToSignalAfter into After if it names a task of the structure.
func (b *builder) turnSignals(places map[stint.TaskID]int) {
	turned := map[int]bool{}
	for i := range b.tasks {
		var outside []stint.TaskID
		for _, id := range unique(slices.Clone(b.tasks[i].ToSignalAfter)) {
			place, ok := places[id]
			if !ok {
				outside = append(outside, id)
				continue
			}
			if hasCondition(b.tasks[place], b.tasks[i].ID) {
				continue
			}
			b.tasks[place].After = append(b.tasks[place].After, b.tasks[i].ID)
			turned[place] = true
		}
		b.tasks[i].ToSignalAfter = outside
	}
	for place := range turned {
		b.tasks[place].After = unique(b.tasks[place].After)
	}
}
