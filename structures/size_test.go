package structures_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/structures"
)

func TestGroup_OfAMillionIsJoinedInShards(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a million tasks")
	}
	const n = 1_000_000
	plan := build(t, structures.Chord(structures.Task{Action: "do"}, many(n)))
	checkForm(t, plan, structures.FanInMax)
	if got, want := len(plan.Tasks), n+2000+4+1; got != want {
		t.Errorf("tasks = %d, want %d", got, want)
	}
	if got, want := edges(plan), n+2000+4; got != want {
		t.Errorf("edges = %d, want %d", got, want)
	}
}

func TestChain_OfAHundredThousandHasNoJoins(t *testing.T) {
	t.Parallel()
	const n = 100_000
	parts := make([]structures.Structure, n)
	for i := range parts {
		parts[i] = structures.Task{Action: "do"}
	}
	plan := build(t, structures.Chain(parts...))
	if len(plan.Tasks) != n || edges(plan) != n-1 {
		t.Errorf("%d tasks, %d edges, want %d and %d", len(plan.Tasks), edges(plan), n, n-1)
	}
}

func TestGroup_OfAThousandNeedsNoShards(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ n, tasks int }{{1000, 1001}, {1001, 1001 + 3 + 1}} {
		plan := build(t, many(test.n))
		checkForm(t, plan, structures.FanInMax)
		if len(plan.Tasks) != test.tasks {
			t.Errorf("tasks = %d for a group of %d, want %d", len(plan.Tasks), test.n, test.tasks)
		}
	}
}

func TestChord_ShardsRunAnywayIfItsCallbackDoes(t *testing.T) {
	t.Parallel()
	callback := structures.Task{Action: "do", OnAbort: stint.RunAnyway}
	plan := build(t, structures.Chord(callback, many(2000)))
	checkForm(t, plan, structures.FanInMax)
	for _, task := range plan.Tasks[2000:] {
		if task.OnAbort != stint.RunAnyway {
			t.Errorf("%q is %v, want RunAnyway", task.ID, task.OnAbort)
		}
	}
	if len(plan.Tasks) != 2000+4+1 {
		t.Errorf("tasks = %d, want 4 shards and the callback", len(plan.Tasks)-2000)
	}
}

func TestChain_WideGroupsDoNotMultiplyEdges(t *testing.T) {
	t.Parallel()
	const n = 3000
	plan := build(t, structures.Chain(many(n), many(n), many(n)))
	checkForm(t, plan, structures.FanInMax)
	if got, most := edges(plan), 5*n+3*7; got > most {
		t.Errorf("edges = %d, want at most %d", got, most)
	}
}

func TestNetwork_WideNodesDoNotMultiplyEdges(t *testing.T) {
	t.Parallel()
	const n = 2000
	toldAll := func(int) structures.Task {
		return structures.Task{Action: "do", OnAbort: stint.RunAnyway}
	}
	mixed := structures.Group(many(n/2), structures.Map(make([]int, n/2), toldAll))
	nodes := []structures.Node{node("a", mixed), node("b", mixed), node("both", nil, "a", "b")}
	for i := range n {
		policy := stint.OnAbort(i % 2)
		nodes = append(nodes,
			node(fmt.Sprint("behind", i), structures.Task{Action: "do", OnAbort: policy}, "a", "b"),
			node(fmt.Sprint("after", i), structures.Task{Action: "do", OnAbort: policy}, "both"))
	}
	nodes = append(nodes, node("wide", mixed, "a", "b", "both"))
	plan := build(t, structures.Network(nodes...))
	checkForm(t, plan, structures.FanInMax)
	if got, most := edges(plan), 4*len(plan.Tasks); got > most {
		t.Errorf("edges = %d, want at most %d", got, most)
	}
}

func TestStructure_NestedDeeplyStaysLinear(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const depth = 10_000
	wrap := map[string]func(s structures.Structure) structures.Structure{
		"chain from the left": func(s structures.Structure) structures.Structure {
			return structures.Chain(s, structures.Task{Action: "do"})
		},
		"chain from the right": func(s structures.Structure) structures.Structure {
			return structures.Chain(structures.Task{Action: "do"}, s)
		},
		"group from the left": func(s structures.Structure) structures.Structure {
			return structures.Group(s, structures.Task{Action: "do"})
		},
		"group from the right": func(s structures.Structure) structures.Structure {
			return structures.Group(structures.Task{Action: "do"}, s)
		},
		"chord of chords": func(s structures.Structure) structures.Structure {
			return structures.Chord(structures.Task{Action: "do"}, s, structures.Task{Action: "do"})
		},
		"chords as callbacks": func(s structures.Structure) structures.Structure {
			return structures.Chord(s, many(2))
		},
		"chords that run anyway": func(s structures.Structure) structures.Structure {
			return structures.Chord(
				structures.Task{Action: "do", OnAbort: stint.RunAnyway}, s, many(2))
		},
		"chains of groups": func(s structures.Structure) structures.Structure {
			return structures.Chain(s, many(2), many(2))
		},
		"networks": func(s structures.Structure) structures.Structure {
			return structures.Network(
				node("a", s), node("b", structures.Task{Action: "do"}),
				node("c", structures.Task{Action: "do"}, "a", "b"),
				node("d", structures.Task{Action: "do"}, "a"))
		},
		"nothing else": func(s structures.Structure) structures.Structure {
			return structures.Chain(structures.Group(structures.Network(node("", s))))
		},
	}
	for name, wrap := range wrap {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := many(2000)
			for range depth {
				s = wrap(s)
			}
			// What runs anyway gathers all that may be left running.
			s = structures.Chain(s, structures.Task{Action: "do", OnAbort: stint.RunAnyway})
			plan := build(t, s)
			checkForm(t, plan, structures.FanInMax)
			if got, most := edges(plan), 4*len(plan.Tasks); got > most {
				t.Errorf("edges = %d, want at most %d", got, most)
			}
		})
	}
}

func TestBuild_RefusesWhatIsTooDeep(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	wrap := map[string]func(s structures.Structure) structures.Structure{
		"chains": func(s structures.Structure) structures.Structure {
			return structures.Chain(structures.Task{Action: "do"}, s)
		},
		"groups": func(s structures.Structure) structures.Structure {
			return structures.Group(structures.Task{Action: "do"}, s)
		},
		"networks": func(s structures.Structure) structures.Structure {
			return structures.Network(node("", s))
		},
	}
	for name, wrap := range wrap {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s structures.Structure = structures.Task{Action: "do"}
			for range 100_000 {
				s = wrap(s)
			}
			build(t, s)
			wantError(t, wrap(s), structures.ErrTooDeep, nil,
				"build structure: nested too deeply")
		})
	}
}

func TestNetwork_LongOrWideIsLinear(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const n = 100_000
	name := func(i int) string { return fmt.Sprint(i) }
	var row, milestones, star []structures.Node
	for i := range n {
		do := structures.Task{Action: "do"}
		row = append(row, node(name(i), do))
		milestones = append(milestones, node(name(i), nil), node("task"+name(i), do))
		if i > 0 {
			row[i].After = []string{name(i - 1)}
			milestones[2*i].After = []string{name(i - 1), "task" + name(i)}
		}
		star = append(star, node(name(i), do, "centre"))
	}
	slices.Reverse(row)
	star = append(star, node("centre", structures.Task{Action: "do"}))
	do := node("do", structures.Task{Action: "do"}, name(n-1))
	for _, nodes := range [][]structures.Node{row, append(milestones, do), star} {
		plan := build(t, structures.Network(nodes...))
		checkForm(t, plan, structures.FanInMax)
		if got, most := edges(plan), 2*len(plan.Tasks); got > most {
			t.Errorf("edges = %d, want at most %d", got, most)
		}
	}
}

func TestTask_ManyOwnEdgesAreLinear(t *testing.T) {
	t.Parallel()
	const n = 100_000
	parts := make([]structures.Structure, n)
	for i := range parts {
		parts[i] = structures.Task{Action: "do", ToSignalAfter: []stint.TaskID{"z"}}
	}
	plan := build(t, structures.Group(task("z"), structures.Group(parts...)))
	last := plan.Tasks[len(plan.Tasks)-1]
	if !slices.ContainsFunc(plan.Tasks, func(task stint.Task) bool {
		return task.ID == "z" && len(task.After) == n
	}) || last.ID != plan.End {
		t.Errorf("z does not wait for all tasks, or the end is not the last")
	}
}

func BenchmarkBuild_GroupOfAMillion(b *testing.B) {
	s := many(1_000_000)
	for b.Loop() {
		if _, err := structures.Build("p", s); err != nil {
			b.Fatal(err)
		}
	}
}
