package tasktree

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/shards"
)

// checkReferences refuses names that no task has, and cycles.
func (p *parser) checkReferences() {
	for _, t := range p.tasks {
		for _, r := range t.named {
			if _, ok := p.places[r.name]; !ok {
				p.problems = append(p.problems,
					&Error{r.line, r.column, fmt.Sprintf("no task is named %.80q", r.name)})
			}
		}
	}
	if len(p.problems) == 0 {
		p.checkCycles()
	}
}

// checkCycles refuses the first cycle, at the reference that closes it.
func (p *parser) checkCycles() {
	type step struct{ place, next int }
	const (
		unseen = iota
		onPath
		done
	)
	state := make([]byte, len(p.tasks))
	for start := range p.tasks {
		if state[start] != unseen {
			continue
		}
		path := []step{{place: start}}
		state[start] = onPath
		for len(path) > 0 {
			top := &path[len(path)-1]
			after := p.tasks[top.place].named
			if top.next == len(after) {
				state[top.place] = done
				path = path[:len(path)-1]
				continue
			}
			r := after[top.next]
			top.next++
			place := p.places[r.name]
			switch state[place] {
			case unseen:
				state[place] = onPath
				path = append(path, step{place: place})
			case onPath:
				names := []string{r.name}
				for i := len(path) - 1; path[i].place != place; i-- {
					names = append(names, p.tasks[path[i].place].name)
				}
				p.problems = append(p.problems, cycle(r, append(names, r.name)))
				return
			}
		}
	}
}

// cycle is the error about names that wait for one another, each after the one before it.
func cycle(closing reference, names []string) error {
	const namedMax = 10
	var text strings.Builder
	text.WriteString("tasks wait for one another: ")
	for i, name := range names {
		switch {
		case i >= namedMax && i < len(names)-1:
			continue
		case i == len(names)-1 && i > namedMax:
			fmt.Fprintf(&text, " -> (%d more)", i-namedMax)
		}
		if i > 0 {
			text.WriteString(" -> ")
		}
		fmt.Fprintf(&text, "%.80q", name)
	}
	return &Error{closing.line, closing.column, text.String()}
}

// A Plan is the tasks that a tree stands for. [stint.Store.InsertTasks] inserts them.
type Plan struct {
	// Tasks are in the order of the file. All can be waited for.
	Tasks []stint.Task
	// Names are the names of the tasks, in the same order.
	Names []string

	tree   *Tree
	prefix string
}

// OnShards returns the tasks on the shards that the file names, or nil if it names none.
func (p *Plan) OnShards() []shards.Task {
	shardOf := make(map[stint.TaskID]string, len(p.Tasks))
	for i, task := range p.Tasks {
		if p.tree.tasks[i].shard == "" {
			return nil
		}
		shardOf[task.ID] = p.tree.tasks[i].shard
	}
	tasks := make([]shards.Task, len(p.Tasks))
	for i, task := range p.Tasks {
		tasks[i].Shard = shardOf[task.ID]
		for _, before := range task.After {
			tasks[i].After = append(tasks[i].After, shards.ID{
				Shard: shardOf[before], Task: before,
			})
		}
		task.After = nil
		tasks[i].Task = task
	}
	return tasks
}

// At makes an error about the task at a place of the plan. The error says where the task is in the
// file.
func (p *Plan) At(place int, problem string) *Error {
	node := p.tree.tasks[place]
	return &Error{node.line, node.column, problem}
}

// Plan makes tasks of a tree. The ID of each is the prefix, a slash and its name. The default of
// the prefix is a random UUID, so a tree may be submitted again and again; with a given prefix it
// can be submitted only once, since the IDs are taken then. The errors of InsertTasks are about
// IDs; in particular, it refuses those that are too long.
func (t *Tree) Plan(prefix string) *Plan {
	if prefix == "" {
		prefix = uuid.NewString()
	}
	plan := &Plan{tree: t, prefix: prefix + "/"}
	id := func(name string) stint.TaskID { return stint.TaskID(plan.prefix + name) }
	for _, node := range t.tasks {
		task := node.task
		task.ID, task.PostResult = id(node.name), true
		for _, r := range node.after {
			if !node.hasCondition(r.name) { // else the value refers to it
				task.After = append(task.After, id(r.name))
			}
		}
		for _, c := range node.when {
			c.takes.After = id(c.of.name)
			task.When = append(task.When, c.takes)
		}
		for _, c := range node.whenAny {
			c.takes.After = id(c.of.name)
			task.WhenAny = append(task.WhenAny, c.takes)
		}
		for _, piece := range node.value {
			task.Body = append(task.Body, piece.json...)
			if piece.name != "" {
				task.Body = append(task.Body, quote(string(id(piece.name)))...)
			}
		}
		plan.Tasks = append(plan.Tasks, task)
		plan.Names = append(plan.Names, node.name)
	}
	return plan
}
