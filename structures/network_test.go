package structures_test

import (
	"slices"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

func node(name string, run structures.Structure, after ...string) structures.Node {
	return structures.Node{Name: name, Run: run, After: after}
}

func TestNetwork_RunsNodesAfterThoseTheyName(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Network(
		node("d", task("d"), "b", "c", "b"),
		node("b", task("b"), "a"),
		node("c", task("c"), "a"),
		node("a", task("a")),
	), "a", "b after a", "c after a", "d after b c end")
}

func TestNetwork_KeepsTheOrderOfNodesWhereItCan(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Network(
		node("a", task("a")), node("b", task("b")), node("c", task("c"), "a"), node("d", task("d")),
	), "a", "b", "c after a", "d", "join p/end after b c d end")
}

func TestNetwork_GroupThatSeveralNodesWaitForIsJoinedOnce(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Network(
		node("g", group("a b")),
		node("c", group("c d"), "g"),
		node("e", task("e"), "g"),
		node("f", anyway("f"), "g"),
	),
		"a", "b", "join p/2 after a b", "c after p/2", "d after p/2", "e after p/2",
		"f! after a b", "join p/end after c d e f end")
}

func TestNetwork_GroupThatWaitsForSeveralNodesIsJoinedOnce(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Network(
		node("g", group("a b")),
		node("c", task("c")),
		node("d", group("d e"), "g", "c"),
	),
		"a", "b", "c", "join p/3 after a b c", "d after p/3", "e after p/3",
		"join p/end after d e end")
}

func TestNetwork_MilestoneIsAJoinWhereSeveralMeet(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Network(
		node("a", task("a")), node("b", task("b")),
		node("both", nil, "a", "b"),
		node("c", task("c"), "both"), node("d", task("d"), "both"),
	),
		"a", "b", "join p/2 after a b", "c after p/2", "d after p/2", "join p/end after c d end")
}

func TestNetwork_MilestoneAfterOneTaskNeedsNoJoin(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chain(task("before"), structures.Network(
		node("start", nil),
		node("a", task("a"), "start"),
		node("done", structures.Group(), "a"),
		node("b", task("b"), "done", "a"),
		node("end", nil, "b"),
	), task("z")), "before", "a after before", "b after a", "z after b end")
}

func TestNetwork_MilestoneServesBothPolicies(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Network(
		node("a", task("a")), node("b", task("b")),
		node("both", nil, "a", "b"),
		node("c", task("c"), "both"), node("d", anyway("d"), "both"),
	),
		"a", "b", "join p/2 after a b", "join p/3! after a b", "c after p/2", "d! after p/3",
		"join p/end after c d end")
}

func TestNetwork_WhatRunsAnywayWaitsForAllOfTheNodesItNames(t *testing.T) {
	t.Parallel()
	// The chord's y may be aborted while a or b runs.
	chord := structures.Chord(task("y"), tasks("a b")...)
	wantLines(t, structures.Network(
		node("chord", chord), node("z", anyway("z"), "chord"),
	), "a", "b", "y after a b", "z! after y a b end")
	// What is drawn is what is waited for: z names m only.
	wantLines(t, structures.Network(
		node("chord", chord), node("m", task("m"), "chord"), node("z", anyway("z"), "m"),
	), "a", "b", "y after a b", "m after y", "z! after m end")
}

func TestNetwork_WhatRunsAnywayAfterItWaitsForAllOfIt(t *testing.T) {
	t.Parallel()
	network := structures.Network(
		node("a", task("a")), node("b", task("b")),
		node("c", task("c"), "a", "b"), // may be aborted while a or b runs
		node("d", task("d"), "c"),
		node("e", task("e")),
		node("f", task("f"), "e"),
	)
	wantLines(t, structures.Chain(network, anyway("z")),
		"a", "b", "c after a b", "d after c", "e", "f after e", "z! after d f a b end")
}

func TestNetwork_WhatRunsAnywayAfterItIsNotToldOfWhatOthersHaveWaitedFor(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chain(structures.Network(
		node("a", task("a")), node("d", task("d")),
		node("b", anyway("b"), "a"), node("c", task("c"), "a", "d"), // c may end while d runs
		node("e", anyway("e"), "d"), node("f", task("f"), "a", "d"),
	), anyway("z")),
		"a", "d", "b! after a", "c after a d", "e! after d", "f after a d", "z! after b c e f end")
	wantLines(t, structures.Chain(structures.Network(
		node("a", task("a")), node("m", nil, "a"), node("b", task("b"), "m"),
	), anyway("z")), "a", "b after a", "z! after b end")
}

func TestNetwork_WhatRunsAnywayAfterItWaitsForGroupsInIt(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chain(structures.Network(
		node("g", group("a b")), node("c", task("c"), "g"), node("d", task("d"), "g"),
	), anyway("z")),
		"a", "b", "join p/2 after a b", "c after p/2", "d after p/2", "z! after c d a b end")
	wantLines(t, structures.Chain(structures.Network(
		node("chord", structures.Chord(task("c"), tasks("a b")...)),
	), anyway("z")),
		"a", "b", "c after a b", "z! after c a b end")
}

func TestNetwork_NameGivenTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Network(
		node("g", group("a b")), node("c", task("c"), "g", "g"),
	), "a", "b", "c after a b end")
}

func TestNetwork_InsideAnythingAndAnythingInside(t *testing.T) {
	t.Parallel()
	inner := structures.Network(
		node("x", task("b")), node("y", chain("c d"), "x"), node("z", task("e"), "x"),
	)
	wantLines(t, structures.Chain(task("a"), structures.Group(inner, task("f")), task("g")),
		"a", "b after a", "c after b", "d after c", "e after b", "f after a", "g after d e f end")
	wantLines(t, structures.Network(node("x", task("a")), node("y", inner, "x")),
		"a", "b after a", "c after b", "d after c", "e after b", "join p/end after d e end")
}

func TestPlan_NodesGivesTheTasksByName(t *testing.T) {
	t.Parallel()
	inner := structures.Network(node("fetch", task("i")), node("i", task("j"), "fetch"))
	plan := build(t, structures.Network(
		node("use", group("u v"), "fetch", "inner"),
		node("fetch", group("a b")),
		node("inner", structures.Chain(group("c d"), group("e f"), inner), "fetch"),
		node("milestone", nil),
		node("last", structures.Task{Action: "do"}, "use"),
	))
	wantNodes(t, plan, map[string][]stint.TaskID{
		"fetch": {"a", "b"},
		"inner": {"c", "d", "p/5", "e", "f", "i", "j"},
		"use":   {"u", "v"},
		"last":  {"p/end"},
	})
}

func TestPlan_NodesOfNetworksSideBySideAreTogether(t *testing.T) {
	t.Parallel()
	perItem := func(id stint.TaskID) structures.Structure {
		return structures.Network(
			node("fetch", task(id)), node("read", task(id+"2"), "fetch"),
		)
	}
	plan := build(t, structures.Map([]stint.TaskID{"a", "b"}, perItem))
	wantNodes(t, plan, map[string][]stint.TaskID{"fetch": {"a", "b"}, "read": {"a2", "b2"}})
	if plan := build(t, chain("a b")); plan.Nodes != nil {
		t.Errorf("Nodes = %v, want none without a network", plan.Nodes)
	}
}

func wantNodes(t *testing.T, plan structures.Plan, want map[string][]stint.TaskID) {
	t.Helper()
	for name, ids := range want {
		if got := plan.Nodes[name]; !slices.Equal(got, ids) {
			t.Errorf("Nodes[%q] = %q, want %q", name, got, ids)
		}
	}
	if len(plan.Nodes) != len(want) {
		t.Errorf("Nodes = %v, want %v", plan.Nodes, want)
	}
}

var longCycle = structures.Network(
	node("0", task("0"), "11"), node("1", task("1"), "0"), node("2", task("2"), "1"),
	node("3", task("3"), "2"), node("4", task("4"), "3"), node("5", task("5"), "4"),
	node("6", task("6"), "5"), node("7", task("7"), "6"), node("8", task("8"), "7"),
	node("9", task("9"), "8"), node("10", task("10"), "9"), node("11", task("11"), "10"),
)

var invalidNodes = []invalidStructure{
	{
		"name twice", structures.Network(node("x", task("a")), node("x", task("b"))),
		structures.ErrDuplicate,
		[]string{"x"},
		`build structure: used twice: "x"`,
	},
	{
		"unknown name", structures.Network(node("x", task("a"), "y")),
		structures.ErrUnknownName,
		[]string{"y", "x"},
		`build structure: unknown name: "y", "x"`,
	},
	{
		"name of another network",
		structures.Network(
			node("x", task("a")),
			node("y", structures.Network(node("z", task("b"), "x"))),
		),
		structures.ErrUnknownName,
		[]string{"x", "z"},
		`build structure: unknown name: "x", "z"`,
	},
	{
		"waits for itself", structures.Network(node("x", task("a"), "x")),
		structures.ErrCycle,
		[]string{"x", "x"},
		`build structure: cycle: "x" -> "x"`,
	},
	{
		"cycle of empty nodes", structures.Network(node("x", nil, "y"), node("y", nil, "x")),
		structures.ErrCycle,
		[]string{"x", "y", "x"},
		`build structure: cycle: "x" -> "y" -> "x"`,
	},
	{
		"cycle behind other nodes",
		structures.Network(
			node("start", task("s")), node("a", task("a"), "start", "c"),
			node("b", task("b"), "a"), node("c", task("c"), "b"), node("end", task("e"), "c"),
		),
		structures.ErrCycle,
		[]string{"a", "b", "c", "a"},
		`build structure: cycle: "a" -> "b" -> "c" -> "a"`,
	},
	{
		"long cycle", longCycle, structures.ErrCycle,
		[]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "0"},
		`build structure: cycle: "0" -> "1" -> "2" -> "3" -> "4" -> "5" -> "6" -> "7" ` +
			`-> "8" -> "9" and 3 more`,
	},
	{
		"deep inside", structures.Chain(task("a"), structures.Group(longCycle)),
		structures.ErrCycle,
		[]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "0"},
		`build structure: cycle: "0" -> "1" -> "2" -> "3" -> "4" -> "5" -> "6" -> "7" ` +
			`-> "8" -> "9" and 3 more`,
	},
}

func TestNetwork_RefusesInvalidNodesByName(t *testing.T) {
	t.Parallel()
	for _, test := range invalidNodes {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wantError(t, test.s, test.err, test.names, test.text)
		})
	}
}
