package structures_test

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

// rounds is how often a hundred structures are drawn; it takes a fraction of a second.
const rounds = 20

// TestBuild_MeansWhatTheStructureSays builds structures nested at random and holds them against a
// reading that is spelled out task by task.
// Proves G71.
func TestBuild_MeansWhatTheStructureSays(t *testing.T) {
	t.Parallel()
	for range rounds {
		rapid.Check(t, func(t *rapid.T) {
			c := drawCase(t)
			checkForm(t, c.plan, c.fanIn)
			c.checkPredecessors(t)
			c.checkSize(t)
		})
	}
}

// TestBuild_RunsInOrderWhateverIsAborted performs such structures in a store of a few lines, with
// owners that take their time and abort at random.
// Proves G71.
func TestBuild_RunsInOrderWhateverIsAborted(t *testing.T) {
	t.Parallel()
	for range rounds {
		rapid.Check(t, func(t *rapid.T) {
			c := drawCase(t)
			newRun(c).perform(t)
		})
	}
}

// A drawnCase is a structure, what it means and what was built of it.
type drawnCase struct {
	fanIn int
	whole meaning
	reading
	plan  structures.Plan
	tasks map[stint.TaskID]*stint.Task
}

func drawCase(t *rapid.T) *drawnCase {
	c := &drawnCase{
		fanIn: rapid.SampledFrom([]int{6, 7, structures.FanInMax}).Draw(t, "fan-in"),
		reading: reading{
			policy: map[stint.TaskID]stint.OnAbort{},
			last:   map[stint.TaskID]set{}, all: map[stint.TaskID]set{},
		},
		tasks: map[stint.TaskID]*stint.Task{},
	}
	n := 0
	s := drawSketch(t, depthMax, &n)
	c.whole = c.read(s.plain())
	var err error
	if c.plan, err = structures.BuildWith(c.fanIn, "p", s.structure()); err != nil {
		t.Fatalf("Build = %v, want no error", err)
	}
	for i := range c.plan.Tasks {
		c.tasks[c.plan.Tasks[i].ID] = &c.plan.Tasks[i]
	}
	t.Logf("%s", lines(c.plan))
	return c
}

// depthMax is how deep random structures are nested.
const depthMax = 4

func drawSketch(t *rapid.T, depth int, n *int) *sketch {
	kinds := []kind{aTask, aTask, aChain, aGroup, aChord, aNetwork}
	switch depth {
	case 0:
		kinds = kinds[:1]
	case depthMax:
		kinds = kinds[2:]
	}
	s := &sketch{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	if s.kind == aTask {
		*n++
		s.id = stint.TaskID(fmt.Sprint("t", *n))
		s.policy = stint.OnAbort(rapid.IntRange(0, 1).Draw(t, "policy"))
		return s
	}
	least, most := 0, 5
	if s.kind == aChord {
		least = 1
	}
	if s.kind == aGroup {
		most = 9 // so that shards are drawn
	}
	size := rapid.IntRange(least, most).Draw(t, "size")
	for i := range size {
		s.parts = append(s.parts, drawSketch(t, depth-1, n))
		s.listed = append(s.listed, i)
		s.after = append(s.after, nil)
	}
	if s.kind == aNetwork {
		for i := range size {
			for j := range i {
				if rapid.Bool().Draw(t, "edge") {
					s.after[i] = append(s.after[i], j)
				}
			}
		}
		s.listed = rapid.Permutation(s.listed).Draw(t, "listed")
	}
	return s
}

// behind counts the caller's tasks that a task waits for, through joins as often as they lead
// there, and checks that the joins do as the task does.
func (c *drawnCase) behind(t *rapid.T, task *stint.Task) map[stint.TaskID]int {
	found := map[stint.TaskID]int{}
	var visit func(after []stint.TaskID)
	visit = func(after []stint.TaskID) {
		for _, id := range after {
			before := c.tasks[id]
			if before.Action != stint.Spontaneous {
				found[id]++
				continue
			}
			if before.OnAbort != task.OnAbort {
				t.Fatalf("%q waits through join %q that differs in OnAbort", task.ID, id)
			}
			visit(before.After)
		}
	}
	visit(task.After)
	return found
}

func (c *drawnCase) checkPredecessors(t *rapid.T) {
	for id := range c.whole.all {
		task := c.tasks[id]
		if task == nil || task.OnAbort != c.policy[id] {
			t.Fatalf("task %q is not there as it was given", id)
		}
		c.checkBehind(t, id, c.behind(t, task), c.last[id], c.all[id])
	}
	end := c.tasks[c.plan.End]
	if end.Action != stint.Spontaneous {
		if !maps.Equal(c.whole.last, set{end.ID: true}) {
			t.Fatalf("the end is %q, want a join of %v", end.ID, c.whole.last)
		}
		return
	}
	if len(c.whole.last) == 1 {
		t.Fatalf("the end is a join, want the one last task %v", c.whole.last)
	}
	c.checkBehind(t, end.ID, c.behind(t, end), c.whole.last, c.whole.all)
}

func (c *drawnCase) checkBehind(
	t *rapid.T, id stint.TaskID, found map[stint.TaskID]int, last, all set,
) {
	for before := range last {
		if found[before] == 0 {
			t.Fatalf("%q does not wait for %q", id, before)
		}
	}
	for before, times := range found {
		switch {
		case times > 1 && !c.twice[id]:
			t.Fatalf("%q waits for %q %d times", id, before, times)
		case c.tasks[id].OnAbort == stint.AbortToo && !last[before], !all[before]:
			t.Fatalf("%q must not wait for %q", id, before)
		}
	}
}

// checkSize checks that edges are linear in what was given, and that no join is idle.
func (c *drawnCase) checkSize(t *rapid.T) {
	given := len(c.whole.all) + c.edges
	if got, most := edges(c.plan), 5*given; got > most {
		t.Fatalf("edges = %d, want at most %d for %d tasks and named edges", got, most, given)
	}
	dependents := map[stint.TaskID]int{}
	for _, task := range c.plan.Tasks {
		for _, id := range task.After {
			dependents[id]++
		}
	}
	for _, task := range c.plan.Tasks {
		switch {
		case task.Action != stint.Spontaneous, len(c.plan.Tasks) == 1:
		case len(task.After) < 2:
			t.Fatalf("join %q waits for %d tasks, want 2 or more", task.ID, len(task.After))
		case c.fanIn == structures.FanInMax && !c.drawn && task.ID != c.plan.End &&
			dependents[task.ID] < 2:
			t.Fatalf("join %q has %d dependents, want 2 or more", task.ID, dependents[task.ID])
		}
	}
}
