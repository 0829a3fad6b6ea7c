package structures_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

func TestChain_OfTasksNeedsNoJoin(t *testing.T) {
	t.Parallel()
	wantLines(t, chain("a b c"), "a", "b after a", "c after b end")
}

func TestGroup_EndsInAJoin(t *testing.T) {
	t.Parallel()
	wantLines(t, group("a b c"), "a", "b", "c", "join p/end after a b c end")
}

func TestChord_CallbackWaitsForAllPartsWithoutAJoin(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chord(task("z"), tasks("a b c")...),
		"a", "b", "c", "z after a b c end")
}

func TestChord_WithACallbackOfSeveralFirstTasksNeedsAJoin(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chord(group("y z"), tasks("a b")...),
		"a", "b", "join p/2 after a b", "y after p/2", "z after p/2", "join p/end after y z end")
}

func TestChain_GroupAfterGroupGoesThroughOneJoin(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chain(group("a b"), group("c d"), task("e")),
		"a", "b", "join p/2 after a b", "c after p/2", "d after p/2", "e after c d end")
}

func TestChain_GroupAfterTaskNeedsNoJoin(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chain(task("a"), group("b c"), task("d")),
		"a", "b after a", "c after a", "d after b c end")
}

func TestChain_InChainIsAsIfWrittenOut(t *testing.T) {
	t.Parallel()
	for _, s := range []structures.Structure{
		chain("a b c d"),
		structures.Chain(chain("a b"), chain("c d")),
		structures.Chain(task("a"), structures.Chain(task("b"), chain("c d"))),
		structures.Chain(structures.Chain(chain("a b"), task("c")), task("d")),
	} {
		wantLines(t, s, "a", "b after a", "c after b", "d after c end")
	}
}

func TestGroup_InGroupIsAsIfWrittenOut(t *testing.T) {
	t.Parallel()
	for _, s := range []structures.Structure{
		group("a b c d!"),
		structures.Group(group("a b"), group("c d!")),
		structures.Group(task("a"), structures.Group(task("b"), group("c d!"))),
	} {
		wantLines(t, structures.Chord(anyway("z"), s),
			"a", "b", "c", "d!", "z! after a b c d end")
	}
}

func TestGroup_OfChainsEndsWithTheLastOfEach(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Group(chain("a b"), chain("c d")),
		"a", "b after a", "c", "d after c", "join p/end after b d end")
}

func TestChord_InChordIsJoinedByItsCallback(t *testing.T) {
	t.Parallel()
	inner := structures.Chord(task("y"), tasks("a b")...)
	wantLines(t, structures.Chord(task("z"), inner, task("c")),
		"a", "b", "y after a b", "c", "z after y c end")
}

func TestMap_IsAGroupInTheOrderOfItems(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Map([]stint.TaskID{"a", "b"}, task),
		"a", "b", "join p/end after a b end")
	perItem := func(id stint.TaskID) structures.Structure {
		return structures.Chain(task(id), task(id+"2"))
	}
	wantLines(t, structures.Chord(task("z"), structures.Map([]stint.TaskID{"a", "b"}, perItem)),
		"a", "a2 after a", "b", "b2 after b", "z after a2 b2 end")
}

func TestStructure_OfOnePartIsThatPart(t *testing.T) {
	t.Parallel()
	for _, s := range []structures.Structure{
		task("a"),
		chain("a"),
		group("a"),
		structures.Chord(task("a")),
		structures.Chord(nil, task("a")),
		structures.Map([]stint.TaskID{"a"}, task),
		structures.Network(structures.Node{Name: "n", Run: task("a")}),
		structures.Group(structures.Chain(group("a"))),
	} {
		wantLines(t, s, "a end")
	}
}

// empties are structures without tasks.
func empties() []structures.Structure {
	milestone := structures.Node{Name: "m"}
	return []structures.Structure{
		nil,
		structures.Chain(),
		structures.Group(),
		structures.Chord(nil),
		structures.Network(),
		structures.Map([]stint.TaskID{}, task),
		structures.Chain(nil, structures.Group(nil, structures.Chain())),
		structures.Network(milestone, structures.Node{Name: "n", After: []string{"m"}}),
	}
}

func TestStructure_WithoutTasksIsOneJoin(t *testing.T) {
	t.Parallel()
	for _, s := range empties() {
		wantLines(t, s, "join p/end end")
	}
}

func TestStructure_WithoutTasksIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, s := range empties() {
		wantLines(t, structures.Chain(s, task("a"), s, task("b"), s), "a", "b after a end")
		wantLines(t, structures.Group(s, task("a"), s, task("b")),
			"a", "b", "join p/end after a b end")
		wantLines(t, structures.Chord(task("b"), s), "b end")
		wantLines(t, structures.Chain(task("a"), structures.Chord(task("b"), s)),
			"a", "b after a end")
		wantLines(t, structures.Chord(s, task("a"), task("b")),
			"a", "b", "join p/end after a b end")
	}
}

func TestChain_FollowersThatDifferInOnAbortWaitThroughTheirOwnJoins(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chain(group("a b"), group("c d e! f!")),
		"a", "b", "join p/2 after a b", "join p/3! after a b",
		"c after p/2", "d after p/2", "e! after p/3", "f! after p/3",
		"join p/end after c d e f end")
}

func TestChain_TheOnlyFollowerWithItsOnAbortNeedsNoJoin(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chain(group("a b"), group("c d e!")),
		"a", "b", "join p/2 after a b", "c after p/2", "d after p/2", "e! after a b",
		"join p/end after c d e end")
}

func TestChord_ThatRunsAnywayIsToldOfEachChainOnce(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chord(anyway("z"), chain("a b"), chain("c d")),
		"a", "b after a", "c", "d after c", "z! after b d end")
}

func TestChord_ThatRunsAnywayWaitsForWhatAnInnerChordMayLeaveRunning(t *testing.T) {
	t.Parallel()
	// If a is aborted, so is y, while b may still run.
	inner := structures.Chord(task("y"), tasks("a b")...)
	wantLines(t, structures.Chord(anyway("z"), inner, task("c")),
		"a", "b", "y after a b", "c", "z! after y c a b end")
	// An inner callback that runs anyway has waited for them itself.
	inner = structures.Chord(anyway("y"), tasks("a b")...)
	wantLines(t, structures.Chord(anyway("z"), inner, task("c")),
		"a", "b", "y! after a b", "c", "z! after y c end")
}

func TestChain_WhatRunsAnywayWaitsForEverythingBeforeIt(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chain(group("a b"), chain("c d"), anyway("z"), anyway("zz")),
		"a", "b", "c after a b", "d after c", "z! after d a b", "zz! after z end")
	wantLines(t, structures.Chain(group("a b"), structures.Group(chain("c d z!"))),
		"a", "b", "c after a b", "d after c", "z! after d a b end")
	wantLines(t, structures.Chord(chain("c z!"), tasks("a b")...),
		"a", "b", "c after a b", "z! after c a b end")
	wantLines(t, structures.Chain(group("a b"), group("c d"), group("y! z!")),
		"a", "b", "join p/2 after a b", "c after p/2", "d after p/2",
		"join p/5! after c d a b", "y! after p/5", "z! after p/5", "join p/end after y z end")
}

func TestChain_WhatRunsAnywayWaitsForItsOwnChainOnly(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.Chain(group("a b"), structures.Group(chain("c y!"), chain("d z!"))),
		"a", "b", "join p/2 after a b", "c after p/2", "y! after c", "d after p/2", "z! after d",
		"join p/end after y z end")
}

func TestTask_KeepsItsFields(t *testing.T) {
	t.Parallel()
	given := stint.Task{
		ID: "a", Action: "do", Body: []byte("body"), Priority: 3, MaxTries: 4,
		NotBefore: time.Unix(1, 0), Deadline: time.Unix(2, 0), PostResult: true, Key: "k",
		After: []stint.TaskID{"outside"}, ToSignalAfter: []stint.TaskID{"beyond", "beyond"},
	}
	plan := build(t, structures.Chain(task("first"), structures.Task(given), task("last")))
	got := plan.Tasks[1]
	if !slices.Equal(got.After, []stint.TaskID{"first", "outside"}) ||
		!slices.Equal(got.ToSignalAfter, []stint.TaskID{"beyond"}) {
		t.Errorf("After = %q, ToSignalAfter = %q, want the given ones too, each once",
			got.After, got.ToSignalAfter)
	}
	if string(got.Body) != "body" || got.Priority != 3 || got.MaxTries != 4 || !got.PostResult ||
		got.Key != "k" ||
		!got.NotBefore.Equal(given.NotBefore) || !got.Deadline.Equal(given.Deadline) {
		t.Errorf("task = %+v, want %+v", got, given)
	}
	if len(given.After) != 1 || len(given.ToSignalAfter) != 2 {
		t.Errorf("Build changed the given task to %+v", given)
	}
}

func TestTask_OwnEdgeThatTheStructureHasTooIsThereOnce(t *testing.T) {
	t.Parallel()
	a, b := task("a"), task("b")
	a.ToSignalAfter, b.After = []stint.TaskID{"b"}, []stint.TaskID{"a", "a"}
	wantLines(t, structures.Chain(a, b), "a", "b after a end")
	if got := build(t, structures.Chain(a, b)).Tasks[0].ToSignalAfter; len(got) > 0 {
		t.Errorf("ToSignalAfter = %q, want After only", got)
	}
}

func TestTask_OwnAfterThatTheStructureHasTooIsThereOnce(t *testing.T) {
	t.Parallel()
	c := task("c")
	c.After = []stint.TaskID{"b", "b", "outside"}
	plan := build(t, structures.Chord(c, tasks("a b")...))
	if got, want := lines(plan), "a\nb\nc after a b outside end\n"; got != want {
		t.Errorf("Build =\n%swant\n%s", got, want)
	}
}

func TestTask_ThatWaitsForOthersTooMayEndBeforeThoseOfTheStructure(t *testing.T) {
	t.Parallel()
	// If the task outside is aborted, so is b, while a may still run.
	b := task("b")
	b.After = []stint.TaskID{"outside"}
	plan := build(t, structures.Chain(task("a"), b, anyway("z")))
	if got, want := lines(plan), "a\nb after a outside\nz! after b a end\n"; got != want {
		t.Errorf("Build =\n%swant\n%s", got, want)
	}
}

func TestTask_OwnEdgesWithinTheStructureArrangeTheTasks(t *testing.T) {
	t.Parallel()
	a, c := task("a"), task("c")
	a.After = []stint.TaskID{"b"}
	c.ToSignalAfter = []stint.TaskID{"b", "elsewhere"}
	plan := build(t, structures.Group(a, task("b"), c))
	want := "c\nb after c\na after b\njoin p/end after a b c end\n"
	if got := lines(plan); got != want {
		t.Errorf("Build =\n%swant\n%s", got, want)
	}
	if got := plan.Tasks[0].ToSignalAfter; !slices.Equal(got, []stint.TaskID{"elsewhere"}) {
		t.Errorf("ToSignalAfter = %q, want the task outside", got)
	}
}

func TestBuild_WithAPrefixIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	s := structures.Chain(many(2), structures.Task{Action: "do"})
	wantLines(t, s, "p/0", "p/1", "p/end after p/0 p/1 end")
	wantLines(t, s, "p/0", "p/1", "p/end after p/0 p/1 end")
}

func TestBuild_WithoutAPrefixUsesARandomOne(t *testing.T) {
	t.Parallel()
	prefixes := map[string]bool{}
	for range 2 {
		plan, err := structures.Build("", many(1))
		if err != nil {
			t.Fatalf("Build = %v, want no error", err)
		}
		prefix, _, _ := strings.Cut(string(plan.End), "/")
		if _, err := uuid.Parse(prefix); err != nil {
			t.Errorf("End = %q, want a UUID before the slash: %v", plan.End, err)
		}
		prefixes[prefix] = true
	}
	if len(prefixes) != 2 {
		t.Errorf("prefixes = %v, want two", prefixes)
	}
}

func TestBuild_UsesAStructureTwiceAsTwo(t *testing.T) {
	t.Parallel()
	s := structures.Task{Action: "do"}
	wantLines(t, structures.Chain(s, s), "p/0", "p/end after p/0 end")
}

func TestBuild_TasksShareNoMemory(t *testing.T) {
	t.Parallel()
	own := make([]stint.TaskID, 1, 10)
	own[0] = "x"
	a := structures.Task{Action: "do", After: own}
	both := structures.Chain(
		task("first"), structures.Group(a, a, task("b"), task("c")), many(2000),
	)
	plan, want, more := build(t, both), build(t, both), []stint.TaskID{"more"}
	for i := range plan.Tasks {
		plan.Tasks[i].After = append(plan.Tasks[i].After, more...)
	}
	for i, task := range plan.Tasks {
		if !slices.Equal(task.After, slices.Concat(want.Tasks[i].After, more)) {
			t.Fatalf("After of %q is not its own", task.ID)
		}
	}
	if own = own[:2]; own[1] != "" {
		t.Errorf("Build wrote %q into the caller's slice", own[1])
	}
}

// An invalidStructure is one that Build refuses with an error that names names and reads as text.
type invalidStructure struct {
	name  string
	s     structures.Structure
	err   error
	names []string
	text  string
}

func taskAfter(id stint.TaskID, after ...stint.TaskID) structures.Task {
	return structures.Task{ID: id, Action: "do", After: after}
}

var invalidStructures = []invalidStructure{
	{
		"ID twice", structures.Chain(task("a"), group("b a")),
		structures.ErrDuplicate,
		[]string{"a"},
		`build structure: used twice: "a"`,
	},
	{
		"ID that Build gives", structures.Group(structures.Task{Action: "do"}, task("p/0")),
		structures.ErrDuplicate,
		[]string{"p/0"},
		`build structure: used twice: "p/0"`,
	},
	{
		"ID of the end", group("p/end b"),
		structures.ErrDuplicate,
		[]string{"p/end"},
		`build structure: used twice: "p/end"`,
	},
	{
		"ID of a join", structures.Chain(group("p/2 b"), group("c d")),
		structures.ErrDuplicate,
		[]string{"p/2"},
		`build structure: used twice: "p/2"`,
	},
	{
		"reserved action",
		structures.Chain(task("a"), structures.Task{ID: "done", Action: stint.Spontaneous}),
		structures.ErrReservedAction,
		[]string{"done"},
		`build structure: reserved action: "done"`,
	},
	{
		"reserved action without ID",
		structures.Chain(task("a"), structures.Task{Action: stint.Spontaneous}),
		structures.ErrReservedAction,
		[]string{"#1"},
		`build structure: reserved action: "#1"`,
	},
	{
		"cycle of own edges",
		structures.Group(taskAfter("a", "c"), taskAfter("b", "a"), taskAfter("c", "b")),
		structures.ErrCycle,
		[]string{"a", "b", "c", "a"},
		`build structure: cycle: "a" -> "b" -> "c" -> "a"`,
	},
	{
		"own edge against the structure",
		structures.Chain(taskAfter("a", "c"), task("b"), task("c")),
		structures.ErrCycle,
		[]string{"a", "b", "c", "a"},
		`build structure: cycle: "a" -> "b" -> "c" -> "a"`,
	},
	{
		"own edge to itself", taskAfter("a", "a"),
		structures.ErrCycle,
		[]string{"a", "a"},
		`build structure: cycle: "a" -> "a"`,
	},
}

func TestBuild_RefusesInvalidStructuresByName(t *testing.T) {
	t.Parallel()
	for _, test := range invalidStructures {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wantError(t, test.s, test.err, test.names, test.text)
		})
	}
}

func wantError(t *testing.T, s structures.Structure, err error, names []string, text string) {
	t.Helper()
	plan, got := structures.Build("p", s)
	var shape *structures.ShapeError
	if !errors.Is(got, err) || !errors.As(got, &shape) || !slices.Equal(shape.Names, names) {
		t.Fatalf("Build = %v, want %v naming %q", got, err, names)
	}
	if got.Error() != text {
		t.Errorf("text = %s, want %s", got, text)
	}
	if plan.Tasks != nil {
		t.Errorf("Build = %d tasks, want none with an error", len(plan.Tasks))
	}
}

func TestFailFast_MarksTheLastTask(t *testing.T) {
	t.Parallel()
	wantLines(t, structures.FailFast(task("a")), "a fast end")
	wantLines(t, structures.FailFast(nil), "join p/end end")
	wantLines(t, structures.FailFast(structures.Chord(task("z"), tasks("a b")...)),
		"a", "b", "z after a b fast end")
	wantLines(t, structures.FailFast(group("a b")), "a", "b", "join p/end after a b fast end")
}

// Otherwise what follows would need the tasks that are to be aborted.
func TestFailFast_IsFollowedAsOneTask(t *testing.T) {
	t.Parallel()
	fast := structures.FailFast(group("a b"))
	wantLines(t, structures.Chain(fast, anyway("z")),
		"a", "b", "join p/2 after a b fast", "z! after p/2 end")
	wantLines(t, structures.Chain(task("s"), fast, group("y z")),
		"s", "a after s", "b after s", "join p/3 after a b fast", "y after p/3", "z after p/3",
		"join p/end after y z end")
	// If a is aborted, so is y, while b may still run.
	inner := structures.FailFast(structures.Chord(task("y"), tasks("a b")...))
	wantLines(t, structures.Chord(anyway("z"), inner, task("c")),
		"a", "b", "y after a b fast", "c", "z! after y c end")
}

func TestFailFast_ChecksWhatIsInIt(t *testing.T) {
	t.Parallel()
	_, err := structures.Build("p", structures.FailFast(group("a a")))
	if !errors.Is(err, structures.ErrDuplicate) {
		t.Errorf("Build = %v, want %v", err, structures.ErrDuplicate)
	}
}
