package stinttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
)

// A Reader is a [Store] or a [stint.Store], such as one inside the transaction of the test.
type Reader interface {
	GetTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error)
	ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
	Graph(ctx context.Context, id stint.TaskID) (*stint.Graph, error)
}

// RequireInserted checks that the store has, for each wanted task, a different task that is like
// it, in any state. It returns these tasks in the order of the wanted ones.
//
// A task is like a wanted one if it agrees in every field that is not zero in the wanted one. So a
// wanted task without an ID matches any task with its action, its body and so on; a nil body
// matches any body. After are all the tasks that it waits for without a condition, ToSignalAfter
// all that wait for it, in any order, however they were named; When and WhenAny are all its
// conditions.
// NotBefore is known only of tasks that have not begun.
//
// If there is no such task, the test fails and says what differs in the task with the wanted ID or,
// if no ID is wanted, in the most similar task. RequireInserted reads all tasks with the action, so
// it suits only stores as small as those of tests.
func RequireInserted(tb testing.TB, store Reader, want ...stint.Task) []stint.TaskInfo {
	tb.Helper()
	inserted, err := match(tb.Context(), store, want)
	if err != nil {
		tb.Fatalf("RequireInserted: %v", err)
	}
	return inserted
}

// RequireNotInserted checks that no task in the store is like one of the unwanted tasks, in the
// sense of [RequireInserted].
func RequireNotInserted(tb testing.TB, store Reader, unwanted ...stint.Task) {
	tb.Helper()
	var found []string
	for i := range unwanted {
		candidates, err := candidatesFor(tb.Context(), store, unwanted[i])
		if err != nil {
			tb.Fatalf("RequireNotInserted: %v", err)
		}
		for _, c := range candidates {
			if len(c.differences) == 0 {
				found = append(found, fmt.Sprintf("task %q is like %s", c.info.ID,
					sketch(unwanted[i])))
			}
		}
	}
	if len(found) > 0 {
		tb.Fatalf("RequireNotInserted: %s", strings.Join(found, "\n\t"))
	}
}

// A candidate is a task in the store that may be the wanted one.
type candidate struct {
	info        stint.TaskInfo
	differences []string
}

// match returns a different task for each wanted one.
func match(ctx context.Context, store Reader, want []stint.Task) ([]stint.TaskInfo, error) {
	m := matching{taken: map[stint.TaskID]int{}, candidates: make([][]candidate, len(want))}
	var err error
	for i := range want {
		if m.candidates[i], err = candidatesFor(ctx, store, want[i]); err != nil {
			return nil, err
		}
	}
	var failures []string
	for i := range want {
		if m.place(i, map[stint.TaskID]bool{}) {
			continue
		}
		failure, err := m.failure(ctx, store, i, want[i])
		if err != nil {
			return nil, err
		}
		failures = append(failures, failure)
	}
	if len(failures) > 0 {
		return nil, errors.New(strings.Join(failures, "\n"))
	}
	inserted := make([]stint.TaskInfo, len(want))
	for i := range want {
		for _, c := range m.candidates[i] {
			if taken, ok := m.taken[c.info.ID]; ok && taken == i {
				inserted[i] = c.info
			}
		}
	}
	return inserted, nil
}

// A matching assigns tasks of the store to the wanted tasks, by number.
type matching struct {
	candidates [][]candidate
	taken      map[stint.TaskID]int
}

// place finds a task for a wanted one. It may take the task of another wanted one if it finds a
// different task for that. It leaves out the tasks in tried.
func (m *matching) place(i int, tried map[stint.TaskID]bool) bool {
	for _, c := range m.candidates[i] {
		id := c.info.ID
		if len(c.differences) > 0 || tried[id] {
			continue
		}
		tried[id] = true
		if other, ok := m.taken[id]; !ok || m.place(other, tried) {
			m.taken[id] = i
			return true
		}
	}
	return false
}

// failure says why there is no task for a wanted one.
func (m *matching) failure(
	ctx context.Context, store Reader, i int, want stint.Task,
) (string, error) {
	var near *candidate
	for j := range m.candidates[i] {
		c := &m.candidates[i][j]
		if len(c.differences) == 0 {
			return fmt.Sprintf("more tasks like %s are wanted than there are", sketch(want)), nil
		}
		if near == nil || len(c.differences) < len(near.differences) {
			near = c
		}
	}
	if near == nil {
		held, err := inventory(ctx, store)
		return fmt.Sprintf("there is no task like %s\n\t%s", sketch(want), held), err
	}
	text := fmt.Sprintf("there is no task like %s; the nearest is %q", sketch(want), near.info.ID)
	if want.ID != "" {
		text = fmt.Sprintf("task %q is not as wanted", want.ID)
	}
	for _, difference := range near.differences {
		text += "\n\t" + difference
	}
	return text, nil
}

// inventory says what the store holds.
func inventory(ctx context.Context, store Reader) (string, error) {
	const shownMax = 20
	page, err := store.ListTasks(ctx, stint.Filter{Limit: shownMax + 1})
	if err != nil {
		return "", err
	}
	if len(page.Tasks) == 0 {
		return "the store is empty", nil
	}
	lines := []string{"the store holds"}
	for i, info := range page.Tasks {
		if i == shownMax {
			lines = append(lines, "and more")
			break
		}
		lines = append(lines, fmt.Sprintf("task %q (action %q), %s", info.ID, info.Action,
			info.State))
	}
	return strings.Join(lines, "\n\t\t"), nil
}

// candidatesFor returns the tasks that may be the wanted one, and how they differ from it.
func candidatesFor(ctx context.Context, store Reader, want stint.Task) ([]candidate, error) {
	ids := []stint.TaskID{want.ID}
	if want.ID == "" {
		var err error
		if ids, err = idsWith(ctx, store, want.Action); err != nil {
			return nil, err
		}
	}
	infos, err := store.GetTasks(ctx, ids)
	if err != nil && !errors.Is(err, stint.ErrTaskNotFound) { // pruned meanwhile
		return nil, err
	}
	candidates := make([]candidate, len(infos))
	for i := range infos {
		candidates[i].info = infos[i]
		candidates[i].differences = differences(want, infos[i])
		edges, err := edgeDifferences(ctx, store, want, infos[i].ID)
		if err != nil {
			return nil, err
		}
		candidates[i].differences = append(candidates[i].differences, edges...)
	}
	return candidates, nil
}

// idsWith returns the IDs of all tasks with an action, or of all tasks.
func idsWith(ctx context.Context, store Reader, action string) ([]stint.TaskID, error) {
	filter := stint.Filter{Limit: 10_000}
	if action != "" {
		filter.Actions = []string{action}
	}
	var ids []stint.TaskID
	for {
		page, err := store.ListTasks(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range page.Tasks {
			ids = append(ids, page.Tasks[i].ID)
		}
		if page.Next == "" {
			return ids, nil
		}
		filter.After = page.Next
	}
}

func edgeDifferences(
	ctx context.Context, store Reader, want stint.Task, id stint.TaskID,
) ([]string, error) {
	if len(want.After)+len(want.ToSignalAfter)+len(want.When)+len(want.WhenAny) == 0 {
		return nil, nil
	}
	graph, err := store.Graph(ctx, id)
	if err != nil {
		return nil, err
	}
	var before, behind []stint.TaskID
	var when, whenAny []stint.Condition
	conditional := map[stint.TaskID]bool{}
	for _, c := range graph.Conditions {
		switch {
		case c.Dependent != id:
			continue
		case c.Any:
			whenAny = append(whenAny, c.Condition)
		default:
			when = append(when, c.Condition)
		}
		conditional[c.After] = true
	}
	for _, edge := range graph.Dependencies {
		if edge.Dependent == id && !conditional[edge.Predecessor] {
			before = append(before, edge.Predecessor)
		}
		if edge.Predecessor == id {
			behind = append(behind, edge.Dependent)
		}
	}
	var d difference
	d.ids("After", before, want.After)
	d.ids("ToSignalAfter", behind, want.ToSignalAfter)
	d.conditions("When", when, want.When)
	d.conditions("WhenAny", whenAny, want.WhenAny)
	return d, nil
}

func (d *difference) conditions(field string, got, want []stint.Condition) {
	if len(want) > 0 && conditionTexts(got) != conditionTexts(want) {
		d.add(field, conditionTexts(got), conditionTexts(want))
	}
}

// conditionTexts are conditions in an order of their own, with their defaults.
func conditionTexts(conditions []stint.Condition) string {
	var texts []string
	for _, c := range conditions {
		states, results := slices.Clone(c.States), slices.Clone(c.Results)
		if len(states) == 0 {
			states = []stint.State{stint.StateCompleted}
		}
		slices.Sort(states)
		slices.Sort(results)
		text := fmt.Sprintf("%q %s", c.After, slices.Compact(states))
		if len(results) > 0 {
			text += fmt.Sprintf(" %q", slices.Compact(results))
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return "[" + strings.Join(texts, ", ") + "]"
}

func (d *difference) ids(field string, got, want []stint.TaskID) {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	want = slices.Compact(want)
	if len(want) > 0 && !slices.Equal(got, want) {
		d.add(field, fmt.Sprintf("%q", got), fmt.Sprintf("%q", want))
	}
}
