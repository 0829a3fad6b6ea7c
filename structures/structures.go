package structures

import "github.com/stint-tasks/stint"

// A Structure is a set of tasks and the order in which they run. [Task], [Chain], [Group], [Chord],
// [Map], [Network] and [FailFast] make structures; nil is a structure without tasks. A structure
// does not change, and can be used several times: each time it stands for new tasks, so its tasks
// must not have IDs then.
type Structure interface {
	// starts is how many of its tasks wait for the structure before. If none does, it is empty.
	starts() byPolicy
}

// byPolicy counts tasks that abort too, and tasks that run anyway.
type byPolicy [2]int

const (
	abortToo = iota
	runAnyway
)

func (n *byPolicy) add(more byPolicy) {
	for p := range more {
		n[p] += more[p]
	}
}

func policy(p stint.OnAbort) int {
	if p == stint.RunAnyway {
		return runAnyway
	}
	return abortToo // InsertTasks refuses invalid values
}

// A Task is a structure of one task: a composite literal, or a conversion of a [stint.Task].
//
// [Build] gives the task an ID if it has none, and adds to After. It keeps After, When, WhenAny and
// ToSignalAfter of the task, as edges in addition to those of the structure. If the last names a
// task of the structure, it becomes an entry in After, as all edges within the structure are.
// However many they are, no joins come in between; but a task with WhenAny that follows another
// keeps the WhenAny in a spontaneous task, for which it waits. The Action must not be
// [stint.Spontaneous] ([ErrReservedAction]).
type Task stint.Task

func (t Task) starts() byPolicy {
	var one byPolicy
	one[policy(t.OnAbort)] = 1
	return one
}

// A chain or a group holds no empty parts.
type (
	chain struct {
		parts    []Structure
		starting byPolicy
	}
	group struct {
		parts    []Structure
		starting byPolicy
	}
)

func (c *chain) starts() byPolicy { return c.starting }
func (g *group) starts() byPolicy { return g.starting }

// Chain runs the parts one after another. A chain of no parts is empty, and a chain of one part is
// that part. A chain within a chain is as if its parts were written out.
func Chain(parts ...Structure) Structure {
	parts = filled(parts)
	if len(parts) == 1 {
		return parts[0]
	}
	c := &chain{parts: parts}
	if len(parts) > 0 {
		c.starting = parts[0].starts()
	}
	return c
}

// Group runs the parts side by side. A group of no parts is empty, and a group of one part is that
// part. A group within a group is as if its parts were written out.
func Group(parts ...Structure) Structure {
	parts = filled(parts)
	if len(parts) == 1 {
		return parts[0]
	}
	g := &group{parts: parts}
	for _, part := range parts {
		g.starting.add(part.starts())
	}
	return g
}

// Chord runs the parts side by side, and callback after all of them: it is a [Chain] of a [Group]
// and the callback. A chord of no parts is its callback.
//
// A callback with [stint.RunAnyway] runs when all the parts have ended, however they ended, and is
// told how many tasks completed and how many were aborted (see "When a task is aborted").
func Chord(callback Structure, parts ...Structure) Structure {
	return Chain(Group(parts...), callback)
}

// Map is a [Group] with a part for each item. A part is a [Task] or any other structure. Without
// items the group is empty.
func Map[T any, S Structure](items []T, part func(item T) S) Structure {
	parts := make([]Structure, len(items))
	for i, item := range items {
		parts[i] = part(item)
	}
	return Group(parts...)
}

// FailFast is a structure of which the other tasks are aborted as soon as one is aborted that its
// last tasks wait for, or one of these: those that have not ended, and that nothing outside of the
// structure waits for ([stint.Task.FailFast]); and so are tasks ahead of the structure, if nothing
// else needs them. If it has several last tasks, a join follows them.
//
// Whatever follows it waits for that join, or for the one last task, and for nothing else of it. So
// a task behind it that runs anyway may start while others of the structure are being aborted. A
// last task that runs anyway keeps the structure from failing.
func FailFast(s Structure) Structure {
	if empty(s) {
		return s
	}
	return &failFast{part: s}
}

type failFast struct{ part Structure }

func (f *failFast) starts() byPolicy { return f.part.starts() }

// filled copies the structures that have tasks.
func filled(parts []Structure) []Structure {
	kept := make([]Structure, 0, len(parts))
	for _, part := range parts {
		if !empty(part) {
			kept = append(kept, part)
		}
	}
	return kept
}

func empty(s Structure) bool { return s == nil || s.starts() == byPolicy{} }
