package structures

import (
	"slices"
	"strconv"

	"github.com/stint-tasks/stint"
)

// fanInMax is how many tasks signal one task at most; if there are more, joins of about half as
// many come in between. Each signal updates the row of the task that waits, so many workers that
// return at once would wait for one another there.
const fanInMax = 1000

// A list links tasks by builder.next. Two lists become one in constant time, however long they are:
// to copy them would cost depth times length in deep nesting. A task is in one list at a time.
type list struct{ first, last, n int }

func (b *builder) concat(a, z list) list {
	switch {
	case a.n == 0:
		return z
	case z.n == 0:
		return a
	}
	b.next[a.last] = z.first
	return list{first: a.first, last: z.last, n: a.n + z.n}
}

// ends are the tasks that tell when a structure has ended.
type ends struct {
	last list // its last tasks
	left list // those that may still run when the last tasks have ended
}

// awaited returns the tasks that a task with policy p waits for if it follows a structure.
func (b *builder) awaited(e ends, p int) []stint.TaskID {
	lists := []list{e.last, e.left}
	if p == abortToo {
		lists = lists[:1]
	}
	var ids []stint.TaskID
	for _, l := range lists {
		ids = slices.Grow(ids, l.n)
		for i, task := 0, l.first; i < l.n; i, task = i+1, b.next[task] {
			ids = append(ids, b.tasks[task].ID)
		}
	}
	return ids
}

// A gate holds the tasks that the first tasks of a structure wait for.
type gate struct {
	after [2][]stint.TaskID // by policy

	// lone says that first tasks that abort too wait for a single task, and that it is no join.
	lone bool

	// covers says which tasks before the gate have surely ended when all the tasks after it have.
	covers int
}

const (
	coversNone = iota
	coversLast // the last tasks of the structure before the gate
	coversAll  // all its tasks
)

// cover notes that a task waits for the gate. A task that runs anyway ends after all tasks that it
// waits for, a task that aborts too only if it waits for a single one.
func (g *gate) cover(task *stint.Task) {
	switch {
	case task.OnAbort == stint.RunAnyway:
		g.covers = coversAll
	case g.lone && len(task.After) == 1:
		g.covers = max(g.covers, coversLast)
	}
}

// remains returns the tasks before a gate that may still run when all the tasks after it have
// ended.
func (b *builder) remains(before ends, covers int) list {
	switch covers {
	case coversAll:
		return list{}
	case coversLast:
		return before.left
	}
	return b.concat(before.left, before.last)
}

// follow makes the gate between a structure that has been built and the one that follows it.
func (b *builder) follow(before ends, starts byPolicy) *gate {
	g := &gate{lone: before.last.n == 1}
	for p, n := range starts {
		if n > 0 {
			g.after[p] = b.gather(b.awaited(before, p), p, n)
		}
	}
	return g
}

// gather returns the tasks that n tasks with policy p wait for in place of ids. It makes joins, so
// that the edges do not multiply and no task gets too many signals.
func (b *builder) gather(ids []stint.TaskID, p, n int) []stint.TaskID {
	for len(ids) > b.fanIn {
		shards := (len(ids) + b.fanIn/2 - 1) / (b.fanIn / 2)
		joins := make([]stint.TaskID, shards)
		for k := range joins {
			joins[k] = b.join(ids[k*len(ids)/shards:(k+1)*len(ids)/shards], p)
		}
		ids = joins
	}
	if len(ids) > 1 && n > 1 {
		ids = []stint.TaskID{b.join(ids, p)}
	}
	return ids
}

func (b *builder) join(after []stint.TaskID, p int) stint.TaskID {
	task := stint.Task{
		ID:     b.newID(strconv.Itoa(len(b.tasks))),
		Action: stint.Spontaneous,
		After:  slices.Clone(after),
	}
	if p == runAnyway {
		task.OnAbort = stint.RunAnyway
	}
	b.append(task)
	return task.ID
}

// unique drops IDs that are in the list before.
func unique(ids []stint.TaskID) []stint.TaskID {
	if len(ids) < 2 {
		return ids
	}
	met := make(map[stint.TaskID]bool, len(ids))
	return slices.DeleteFunc(ids, func(id stint.TaskID) bool {
		before := met[id]
		met[id] = true
		return before
	})
}
