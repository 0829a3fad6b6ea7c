package stint_test

import (
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

type smallAnswer struct {
	tasks []stint.TaskInfo
	left  int64
}

// waitForSmall begins a wait for a task that leaves out values of more than 1,000 bytes.
func waitForSmall(t *testing.T, store *stint.Store, id stint.TaskID) <-chan outcome[smallAnswer] {
	t.Helper()
	return start(func() (smallAnswer, error) {
		tasks, left, err := store.Remote().WaitForSmallTasks(t.Context(), []stint.TaskID{id}, 1000)
		return smallAnswer{tasks, left}, err
	})
}

// A look and a wait for small values read none of the others, and say how large they are; one that
// waits for the same task beside it is given all.
func TestWaitForSmallTasks_LeavesOutWhatIsLong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	short, long := "short", strings.Repeat("l", 2000)
	for name, c := range map[string]struct {
		body, result string
		left         int64
	}{
		"all short":     {short, short, 0},
		"at the limit":  {long[:1000], long[:1000], 0},
		"a long body":   {long, short, 2000},
		"a long result": {short, long, 2000},
		"both long":     {long, long[:1001], 3001},
		"nothing":       {"", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			check := func(what string, got smallAnswer, err error) {
				t.Helper()
				wantErr(t, what, err, nil)
				fits := func(given []byte, stored string) bool {
					return string(given) == stored || len(stored) > 1000 && len(given) == 0
				}
				if got.left != c.left || !fits(got.tasks[0].Body, c.body) ||
					!fits(got.tasks[0].Result, c.result) ||
					got.tasks[0].State != stint.StateCompleted {
					t.Errorf("%s = %.200v, %d left, want %d", what, got.tasks, got.left, c.left)
				}
			}
			end := func() {
				t.Helper()
				returnWith(t, store, ownOne(t, store), stint.Return{
					Code: stint.StatusCompleted, Result: []byte(c.result),
				})
			}
			insert(t, store, stint.Task{
				ID: "w", Action: "act", PostResult: true, Body: []byte(c.body),
			})
			alone := waitForSmall(t, store, "w")
			end()
			told, err := ends(t, "WaitForSmallTasks", alone)
			check("WaitForSmallTasks", told, err)
			told, err = ends(t, "WaitForSmallTasks", waitForSmall(t, store, "w"))
			check("WaitForSmallTasks of a finished task", told, err)
			tasks, left, err := store.Remote().GetSmallTasks(t.Context(), []stint.TaskID{"w"}, 1000)
			check("GetSmallTasks", smallAnswer{tasks, left}, err)
			twice := []stint.TaskID{"w", "no", "w"}
			tasks, left, err = store.Remote().GetSmallTasks(t.Context(), twice, 1000)
			wantTasks(t, "GetSmallTasks", err, stint.ErrTaskNotFound, "no")
			if len(tasks) != 2 || left != 2*c.left {
				t.Errorf("GetSmallTasks of a task twice = %d tasks, %d left", len(tasks), left)
			}

			insert(t, store, stint.Task{
				ID: "v", Action: "act", PostResult: true, Body: []byte(c.body),
			})
			small := waitForSmall(t, store, "v")
			whole := start(func() (stint.TaskInfo, error) {
				return store.WaitForTask(t.Context(), "v")
			})
			end()
			_, err = ends(t, "WaitForSmallTasks beside WaitForTask", small)
			wantErr(t, "WaitForSmallTasks", err, nil)
			got, err := ends(t, "WaitForTask", whole)
			if err != nil || string(got.Body) != c.body || string(got.Result) != c.result {
				t.Errorf("WaitForTask beside it = %.200v, %v", got, err)
			}
		})
	}
}
