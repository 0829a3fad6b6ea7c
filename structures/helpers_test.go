package structures_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

func task(id stint.TaskID) structures.Task { return structures.Task{ID: id, Action: "do"} }

func anyway(id stint.TaskID) structures.Task {
	return structures.Task{ID: id, Action: "do", OnAbort: stint.RunAnyway}
}

// tasks are several tasks, "a!" one that runs anyway.
func tasks(ids string) []structures.Structure {
	var parts []structures.Structure
	for _, id := range strings.Fields(ids) {
		if plain, ok := strings.CutSuffix(id, "!"); ok {
			parts = append(parts, anyway(stint.TaskID(plain)))
		} else {
			parts = append(parts, task(stint.TaskID(id)))
		}
	}
	return parts
}

func group(ids string) structures.Structure { return structures.Group(tasks(ids)...) }
func chain(ids string) structures.Structure { return structures.Chain(tasks(ids)...) }

// many are n tasks without IDs.
func many(n int) structures.Structure {
	return structures.Map(make([]struct{}, n), func(struct{}) structures.Task {
		return structures.Task{Action: "do"}
	})
}

func build(t *testing.T, s structures.Structure) structures.Plan {
	t.Helper()
	plan, err := structures.Build("p", s)
	if err != nil {
		t.Fatalf("Build = %v, want no error", err)
	}
	return plan
}

// lines writes a plan as text: "b after a" a line, "join" before joins, "!" after tasks that run
// anyway, "end" behind the one to wait for.
func lines(plan structures.Plan) string {
	var text strings.Builder
	for _, task := range plan.Tasks {
		if task.Action == stint.Spontaneous {
			text.WriteString("join ")
		}
		text.WriteString(string(task.ID))
		if task.OnAbort == stint.RunAnyway {
			text.WriteString("!")
		}
		if len(task.After) > 0 {
			text.WriteString(" after")
		}
		for _, id := range task.After {
			text.WriteString(" " + string(id))
		}
		if task.FailFast {
			text.WriteString(" fast")
		}
		if task.ID == plan.End && task.PostResult {
			text.WriteString(" end")
		}
		text.WriteString("\n")
	}
	return text.String()
}

// wantLines builds a structure and compares it with text.
func wantLines(t *testing.T, s structures.Structure, want ...string) {
	t.Helper()
	plan := build(t, s)
	if got, want := lines(plan), strings.Join(want, "\n")+"\n"; got != want {
		t.Errorf("Build =\n%swant\n%s", got, want)
	}
	checkForm(t, plan, structures.FanInMax)
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkForm checks what holds for every plan: IDs are unique, each task comes after those that it
// waits for, each edge is there once, no task waits for too many, and one is to be waited for.
func checkForm(t failer, plan structures.Plan, fanIn int) {
	t.Helper()
	met := make(map[stint.TaskID]bool, len(plan.Tasks))
	var posted []stint.TaskID
	for _, task := range plan.Tasks {
		if task.ID == "" || met[task.ID] {
			t.Fatalf("ID %q is empty or comes twice", task.ID)
		}
		for i, id := range task.After {
			if !met[id] {
				t.Fatalf("%q comes before %q, for which it waits", task.ID, id)
			}
			if i < 10 && slices.Contains(task.After[:i], id) {
				t.Fatalf("%q waits for %q twice", task.ID, id)
			}
		}
		if len(slices.Compact(slices.Sorted(slices.Values(task.After)))) < len(task.After) {
			t.Fatalf("%q waits for a task twice", task.ID)
		}
		if len(task.After) > fanIn {
			t.Fatalf("%q waits for %d tasks, want at most %d", task.ID, len(task.After), fanIn)
		}
		if task.PostResult {
			posted = append(posted, task.ID)
		}
		met[task.ID] = true
	}
	if !slices.Equal(posted, []stint.TaskID{plan.End}) {
		t.Fatalf("PostResult is set on %q, want only on the end %q", posted, plan.End)
	}
	if ids := plan.IDs(); len(ids) != len(plan.Tasks) {
		t.Fatalf("IDs = %d, want %d", len(ids), len(plan.Tasks))
	}
}

func edges(plan structures.Plan) int {
	n := 0
	for i := range plan.Tasks {
		n += len(plan.Tasks[i].After)
	}
	return n
}
