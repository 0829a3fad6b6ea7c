package structures

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
)

// A Plan is a structure in the form of tasks to insert.
type Plan struct {
	// Tasks are all the tasks, joins included, each after those that it waits for. The caller may
	// change them before inserting them.
	Tasks []stint.Task

	// End is the task to wait for. It completes when the last tasks of the structure have
	// completed, and is aborted as soon as one of them is, unless it is a task that runs anyway.
	// Build sets PostResult only on this task; other tasks keep theirs.
	End stint.TaskID

	// Nodes are, by name, the tasks of the nodes of a [Network], with the joins inside a node but
	// not those between nodes. Networks inside a node do not count. If networks are side by side, a
	// name has the tasks of all the nodes with that name.
	Nodes map[string][]stint.TaskID
}

// IDs returns the IDs of all tasks, in the order of Tasks, for example for
// [stint.Store.AbortTasks], which then cancels the whole structure.
func (p Plan) IDs() []stint.TaskID {
	ids := make([]stint.TaskID, len(p.Tasks))
	for i := range p.Tasks {
		ids[i] = p.Tasks[i].ID
	}
	return ids
}

// Build turns a structure into tasks.
//
// Tasks without an ID, and joins, get the IDs "prefix/0", "prefix/1" and so on, by their place in
// the order of building; the task to wait for gets "prefix/end" if it has no ID. The IDs depend on
// nothing else, so inserting the same structure again under the same prefix fails with
// [stint.ErrTaskExists]. An empty prefix stands for a random UUID.
//
// The size of the plan and the time to build it are linear in the number of tasks and of names in
// [Node.After]. Structures may be nested 100,000 levels deep. Build does not check IDs, actions and
// other values; [stint.Store.InsertTasks] does.
//
// The error for an invalid structure is a [*ShapeError]: [ErrDuplicate], [ErrUnknownName],
// [ErrCycle], [ErrReservedAction] or [ErrTooDeep].
func Build(prefix string, s Structure) (Plan, error) {
	plan, err := build(prefix, s, fanInMax)
	if err != nil {
		return Plan{}, fmt.Errorf("build structure: %w", err)
	}
	return plan, nil
}

func build(prefix string, s Structure, fanIn int) (Plan, error) {
	given := givenTasks{ids: map[stint.TaskID]bool{}}
	if err := given.check(s); err != nil {
		return Plan{}, err
	}
	if prefix == "" {
		random, err := uuid.NewRandom()
		if err != nil {
			return Plan{}, err
		}
		prefix = random.String()
	}
	b := &builder{prefix: prefix, given: given, fanIn: fanIn}
	b.tasks = make([]stint.Task, 0, given.n+1)
	b.next = make([]int, 0, given.n+1)
	var whole ends
	if !empty(s) {
		whole = b.add(s, &gate{})
	}
	plan := Plan{End: b.end(whole), Nodes: b.nodeIDs()}
	if b.err != nil {
		return Plan{}, b.err
	}
	if given.edges {
		if err := b.moveEdges(); err != nil {
			return Plan{}, err
		}
	}
	plan.Tasks = b.tasks
	return plan, nil
}

type builder struct {
	prefix string
	given  givenTasks
	fanIn  int // see fanInMax
	tasks  []stint.Task
	next   []int // see list
	nodes  []nodeRange
	depth  int // how many networks are being built
	err    error
}

// A nodeRange says which tasks belong to a node.
type nodeRange struct {
	name     string
	from, to int
}

// add builds a structure that is not empty, after a gate.
func (b *builder) add(s Structure, before *gate) ends {
	switch s := s.(type) {
	case Task:
		return ends{last: b.addTask(stint.Task(s), before)}
	case *chain:
		return b.addChain(s, before, ends{})
	case *group:
		return b.addGroup(s, before)
	case *failFast:
		return b.endFast(b.add(s.part, before))
	case *network:
		b.depth++
		defer func() { b.depth-- }()
		return b.addNetwork(s, before)
	}
	return ends{} // there are no others
}

func (b *builder) addTask(task stint.Task, before *gate) list {
	if task.ID == "" {
		task.ID = b.newID(strconv.Itoa(len(b.tasks)))
	}
	after := slices.Concat(before.after[policy(task.OnAbort)], task.After)
	if len(task.After) > 0 {
		after = unique(after)
	}
	task.After = after
	if len(task.When) > 0 {
		task.After = slices.DeleteFunc(slices.Clone(after), func(id stint.TaskID) bool {
			return hasCondition(task, id)
		})
	}
	if len(task.WhenAny) > 0 && len(task.After) > 0 {
		b.standFor(&task)
	}
	before.cover(&task)
	return b.append(task)
}

// hasCondition reports whether a task has a condition for another.
func hasCondition(task stint.Task, id stint.TaskID) bool {
	return slices.ContainsFunc(task.When, func(condition stint.Condition) bool {
		return condition.After == id
	})
}

// standFor lets a task, which waits for others, too, wait for its WhenAny through a spontaneous
// task.
func (b *builder) standFor(task *stint.Task) {
	gate := stint.Task{
		ID:     b.newID(strconv.Itoa(len(b.tasks)) + "/any"),
		Action: stint.Spontaneous, OnAbort: task.OnAbort, WhenAny: task.WhenAny,
	}
	task.WhenAny = nil
	b.append(gate)
	task.After = append(task.After, gate.ID)
}

func (b *builder) addGroup(g *group, before *gate) ends {
	var all ends
	for _, part := range g.parts {
		e := b.add(part, before)
		all.last = b.concat(all.last, e.last)
		all.left = b.concat(all.left, e.left)
	}
	return all
}

// addChain builds a chain after a gate. It continues a chain whose parts so far have the ends done:
// a chain within a chain is as if its parts were written out.
func (b *builder) addChain(c *chain, before *gate, done ends) ends {
	for i, part := range c.parts {
		if i > 0 {
			before = b.follow(done, part.starts())
		}
		if inner, ok := part.(*chain); ok {
			done = b.addChain(inner, before, done)
			continue
		}
		e := b.add(part, before)
		e.left = b.concat(b.remains(done, before.covers), e.left)
		done = e
	}
	return done
}

func (b *builder) append(task stint.Task) list {
	b.tasks = append(b.tasks, task)
	b.next = append(b.next, 0)
	place := len(b.tasks) - 1
	return list{first: place, last: place, n: 1}
}

func (b *builder) newID(name string) stint.TaskID {
	id := stint.TaskID(b.prefix + "/" + name)
	if b.given.ids[id] && b.err == nil {
		b.err = &ShapeError{Names: []string{string(id)}, Err: ErrDuplicate}
	}
	return id
}

// end returns the ID of the task to wait for. If there are several last tasks, it adds a join.
func (b *builder) end(whole ends) stint.TaskID {
	end := &b.tasks[b.single(whole).first]
	if !b.given.ids[end.ID] {
		end.ID = b.newID("end")
	}
	end.PostResult = true
	return end.ID
}

// single is the one last task of a structure, a join if there are several.
func (b *builder) single(whole ends) list {
	if whole.last.n == 1 {
		return whole.last
	}
	b.join(b.gather(b.awaited(whole, abortToo), abortToo, 1), abortToo)
	place := len(b.tasks) - 1
	return list{first: place, last: place, n: 1}
}

// endFast ends a structure that fails fast. Nothing else waits for the tasks that may outlast the
// end, or they would be needed.
func (b *builder) endFast(whole ends) ends {
	last := b.single(whole)
	b.tasks[last.first].FailFast = true
	return ends{last: last}
}

func (b *builder) nodeIDs() map[string][]stint.TaskID {
	if len(b.nodes) == 0 {
		return nil
	}
	ids := make(map[string][]stint.TaskID, len(b.nodes))
	for _, node := range b.nodes {
		for i := node.from; i < node.to; i++ {
			ids[node.name] = append(ids[node.name], b.tasks[i].ID)
		}
	}
	return ids
}
