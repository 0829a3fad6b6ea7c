package stint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A fetch looks at as many rows for each task however many actions it names, or priorities it
// finds.
func TestOwnTasks_IsLinearInActionsAndPriorities(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const few, many = 80, 800
	for statement, extra := range map[string]string{
		"own_tasks": ", false, false, 1000, 100, 10", "own_gated": ", false, 0",
	} {
		for kind, prepare := range map[string]func(*stint.Task, int) string{
			"actions": func(task *stint.Task, i int) string {
				task.Action = fmt.Sprint("act", i)
				return task.Action
			},
			"priorities": func(task *stint.Task, i int) string {
				task.Priority = int16(i)
				return fmt.Sprint("act", i%3)
			},
		} {
			t.Run(statement+"/"+kind, func(t *testing.T) {
				t.Parallel()
				one := rowsOfFetch(t, statement, extra, few, prepare)
				all := rowsOfFetch(t, statement, extra, many, prepare)
				if all > 1.5*one {
					t.Errorf("it looks at %.1f rows for each of %d, and %.1f for each of %d",
						one, few, all, many)
				}
			})
		}
	}
}

// rowsOfFetch is how many rows a fetch of n tasks looks at for each of them; prepare makes
// each differ from the others, and returns its action.
func rowsOfFetch(
	t *testing.T, statement, extra string, n int, prepare func(*stint.Task, int) string,
) float64 {
	t.Helper()
	store, pool := newUncheckedStore(t, stint.Options{})
	tasks := numbered("t", n)
	var actions, from, to []string
	seen := map[string]bool{}
	for i := range tasks {
		action := prepare(&tasks[i], i)
		tasks[i].Action = action
		if !seen[action] {
			seen[action] = true
			actions = append(actions, action)
			from = append(from, "-9223372036854775808")
			to = append(to, "9223372036854775807")
		}
	}
	insert(t, store, tasks...)
	plan := explained(t, pool, statement, fmt.Sprintf(
		"7, 'actor', %d, '{%s}', '1 h', NULL, '{%s}', '{%s}'%s", n, strings.Join(actions, ","),
		strings.Join(from, ","), strings.Join(to, ","), extra))
	if plan.Rows < float64(n) {
		t.Fatalf("%s fetches %.0f tasks, want %d", statement, plan.Rows, n)
	}
	return plan.rows() / float64(n)
}
