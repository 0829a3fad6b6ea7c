package graphs

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/layout"
	"github.com/stint-tasks/stint/ui/internal/groups"
)

// A part is some of the tasks of a network, with the edges between them.
type part struct {
	net   *Net
	tasks []int         // by the numbers of the network
	edges []layout.Edge // by those of the part
}

// part returns a part, all of the network for all its tasks.
func (n *Net) part(tasks []int) *part {
	const none = -1
	p := &part{net: n, tasks: tasks}
	place := make([]int, len(n.tasks))
	for i := range place {
		place[i] = none
	}
	for i, task := range tasks {
		place[task] = i
	}
	for _, e := range n.edges {
		if from, to := place[e.From], place[e.To]; from != none && to != none {
			p.edges = append(p.edges, layout.Edge{From: from, To: to})
		}
	}
	return p
}

// within are the tasks of some nodes of the part, by the numbers of the network.
func (p *part) within(nodes []int) []int {
	tasks := make([]int, len(nodes))
	for i, node := range nodes {
		tasks[i] = p.tasks[node]
	}
	return tasks
}

// infos are the tasks of the part.
func (p *part) infos() []stint.TaskInfo {
	infos := make([]stint.TaskInfo, len(p.tasks))
	for i, task := range p.tasks {
		infos[i] = p.net.tasks[task]
	}
	return infos
}

// labels are their actions.
func (p *part) labels() []string {
	labels := make([]string, len(p.tasks))
	for i, task := range p.tasks {
		labels[i] = p.net.tasks[task].Action
	}
	return labels
}

// all are the numbers of all tasks.
func (n *Net) all() []int {
	all := make([]int, len(n.tasks))
	for i := range all {
		all[i] = i
	}
	return all
}

// each is a group for each task.
func (p *part) each() *groups.Groups {
	each := &groups.Groups{Count: len(p.tasks), Edges: p.edges}
	for i := range p.tasks {
		each.Of = append(each.Of, i)
		each.Nodes = append(each.Nodes, []int{i})
	}
	return each
}

// grouped are the tasks in groups.
func (p *part) grouped(bounds groups.Bounds) *groups.Groups {
	return groups.Of(p.labels(), p.edges, bounds)
}

// closer are the groups of a part that was one group.
func (p *part) closer(bounds groups.Bounds) *groups.Groups {
	if len(p.tasks) <= fewMax {
		return p.each()
	}
	found := p.grouped(bounds)
	if found.Count > 1 {
		return found
	}
	return groups.Split(p.labels(), p.edges, bounds)
}
