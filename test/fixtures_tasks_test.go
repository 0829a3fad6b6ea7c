package stint_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

func numbered(prefix string, n int) []stint.Task {
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprintf("%s%06d", prefix, i)), Action: "act"}
	}
	return tasks
}

// stream yields tasks, and then err if there is one.
func stream(tasks []stint.Task, err error) iter.Seq2[stint.Task, error] {
	return func(yield func(stint.Task, error) bool) {
		for _, task := range tasks {
			if !yield(task, nil) {
				return
			}
		}
		if err != nil {
			yield(stint.Task{}, err)
		}
	}
}

// after is a task with action "act" that waits for others.
func after(id stint.TaskID, predecessors ...stint.TaskID) stint.Task {
	return stint.Task{ID: id, Action: "act", After: predecessors}
}

// anyway is a task with action "act" that waits for others, however they end.
func anyway(id stint.TaskID, predecessors ...stint.TaskID) stint.Task {
	task := after(id, predecessors...)
	task.OnAbort = stint.RunAnyway
	return task
}

// join is a spontaneous task that waits for others.
func join(id stint.TaskID, predecessors ...stint.TaskID) stint.Task {
	return stint.Task{ID: id, Action: stint.Spontaneous, After: predecessors}
}

// row is a task with action "act" and, behind it, depth others, each of which waits for the reach
// tasks before it.
func row(name string, depth, reach int, action string) []stint.Task {
	id := func(i int) stint.TaskID { return stint.TaskID(fmt.Sprintf("%s-%d", name, i)) }
	tasks := []stint.Task{after(id(0))}
	for i := range depth {
		task := stint.Task{ID: id(i + 1), Action: action}
		for _, before := range tasks[max(0, len(tasks)-reach):] {
			task.After = append(task.After, before.ID)
		}
		tasks = append(tasks, task)
	}
	return tasks
}

func named(tasks []stint.Task) []stint.TaskID {
	ids := make([]stint.TaskID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	return ids
}

func insert(tb testing.TB, store *stint.Store, tasks ...stint.Task) {
	tb.Helper()
	if err := store.InsertTasks(tb.Context(), tasks); err != nil {
		tb.Fatalf("InsertTasks = %v", err)
	}
}

func addDependency(t *testing.T, store *stint.Store, after, run stint.TaskID) error {
	t.Helper()
	return store.AddDependencies(t.Context(), []stint.Dependency{
		{Predecessor: after, Dependent: run},
	})
}

// own owns up to n tasks with action "act" for an hour.
func own(tb testing.TB, store *stint.Store, n int) []stint.OwnedTask {
	tb.Helper()
	owned, err := store.OwnTasks(tb.Context(), "actor", n, []string{"act"}, time.Hour)
	if err != nil {
		tb.Fatalf("OwnTasks = %v", err)
	}
	return owned
}

func ownOne(tb testing.TB, store *stint.Store) stint.OwnedTask {
	tb.Helper()
	owned := own(tb, store, 1)
	if len(owned) != 1 {
		tb.Fatalf("OwnTasks gave %d tasks, want 1", len(owned))
	}
	return owned[0]
}

// longLease is much longer than the hour that own asks for.
const longLease = 1000 * time.Hour

func idsOf(owned []stint.OwnedTask) []stint.TaskID {
	ids := make([]stint.TaskID, len(owned))
	for i := range owned {
		ids[i] = owned[i].ID
	}
	return ids
}

func info(tb testing.TB, store *stint.Store, id stint.TaskID) stint.TaskInfo {
	tb.Helper()
	infos, err := store.GetTasks(tb.Context(), []stint.TaskID{id})
	if err != nil {
		tb.Fatalf("GetTasks = %v", err)
	}
	return infos[0]
}

// listTasks is the first page of tasks.
func listTasks(
	ctx context.Context, store *stint.Store, filter stint.Filter,
) ([]stint.TaskInfo, error) {
	page, err := store.ListTasks(ctx, filter)
	return page.Tasks, err
}

// tasksIn is the query for the number of tasks in a table of spans.
func tasksIn(table string) string {
	return "SELECT coalesce(sum(hi - lo + 1), 0)::bigint FROM stint." + table
}

func wantState(tb testing.TB, store *stint.Store, want stint.State, ids ...stint.TaskID) {
	tb.Helper()
	infos, err := store.GetTasks(tb.Context(), ids)
	wantErr(tb, "GetTasks", err, nil)
	for i, id := range ids {
		if got := infos[i].State; got != want {
			tb.Errorf("%q is %s, want %s", id, got, want)
		}
	}
}

func describe(info stint.TaskInfo) string {
	text := fmt.Sprintf("%s %s", info.ID, info.State)
	if info.AbortCause != "" {
		text += fmt.Sprintf("/%s", info.AbortCause)
	}
	if info.Action != "act" {
		text += fmt.Sprintf(" as %s", info.Action)
	}
	if info.Tries > 0 {
		text += fmt.Sprintf(" try %d", info.Tries)
	}
	if time.Until(info.LeaseUntil) > longLease/2 {
		text += " long"
	}
	if info.Status != "" {
		text += fmt.Sprintf(" %q", info.Status)
	}
	return text
}

func completed(owned []stint.OwnedTask) []stint.Return {
	returns := make([]stint.Return, len(owned))
	for i, task := range owned {
		returns[i] = stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
	}
	return returns
}

func complete(tb testing.TB, store *stint.Store, tasks ...stint.OwnedTask) {
	tb.Helper()
	verdicts, err := store.ReturnTasks(tb.Context(), completed(tasks))
	if err != nil {
		tb.Fatalf("ReturnTasks = %v", err)
	}
	for i, verdict := range verdicts {
		if verdict != nil {
			tb.Errorf("return of %s = %v", tasks[i].ID, verdict)
		}
	}
}

// returnWith returns a task.
func returnWith(tb testing.TB, store *stint.Store, task stint.OwnedTask, r stint.Return) {
	tb.Helper()
	r.ID, r.Token = task.ID, task.Token
	verdicts, err := store.ReturnTasks(tb.Context(), []stint.Return{r})
	if err = errors.Join(append(verdicts, err)...); err != nil {
		tb.Fatalf("ReturnTasks = %v", err)
	}
}

// finish owns a task by its turn and returns it.
func finish(tb testing.TB, store *stint.Store, id stint.TaskID, code stint.StatusCode) {
	tb.Helper()
	owned := ownOne(tb, store)
	if owned.ID != id {
		tb.Fatalf("OwnTasks gave %q, want %q", owned.ID, id)
	}
	if err := store.ReturnTask(tb.Context(), id, owned.Token, "", code); err != nil {
		tb.Fatalf("ReturnTask(%q) = %v", id, err)
	}
}

// fail aborts the named tasks, which must be ready, as their owner.
func fail(tb testing.TB, store *stint.Store, ids ...stint.TaskID) {
	tb.Helper()
	for _, task := range own(tb, store, 1000) {
		r := stint.Return{Code: stint.StatusPending, Release: true}
		if slices.Contains(ids, task.ID) {
			r = stint.Return{Code: stint.StatusAborted, Status: "no luck"}
		}
		returnWith(tb, store, task, r)
	}
	for _, id := range ids {
		if got := info(tb, store, id); got.AbortCause != stint.CauseReturned {
			tb.Fatalf("%q is %s, want it aborted by its owner", id, got.State)
		}
	}
}

// retry opens tasks again.
func retry(tb testing.TB, store *stint.Store, ids ...stint.TaskID) {
	tb.Helper()
	wantErr(tb, "RetryTasks", errOf(store.RetryTasks(tb.Context(), ids)), nil)
}

// completeAll completes what is ready until nothing is, and returns it in that order.
func completeAll(tb testing.TB, store *stint.Store) []stint.TaskID {
	tb.Helper()
	var done []stint.TaskID
	for {
		owned := own(tb, store, 100)
		if len(owned) == 0 {
			return done
		}
		for _, task := range owned {
			returnWith(tb, store, task, stint.Return{Code: stint.StatusCompleted})
			done = append(done, task.ID)
		}
	}
}

func aborts(id stint.TaskID) func(*testing.T, *stint.Store) {
	return func(t *testing.T, store *stint.Store) {
		t.Helper()
		err := errOf(store.AbortTasks(t.Context(), []stint.TaskID{id}, "no more"))
		wantErr(t, "AbortTasks", err, nil)
	}
}

// oneInEachState inserts tasks that are ready, inside a span, scheduled, in progress, completed and
// aborted, and returns the one in progress.
func oneInEachState(t *testing.T, store *stint.Store) stint.OwnedTask {
	t.Helper()
	insert(t, store, numbered("done", 3)...)
	owned := own(t, store, 3)
	codes := []stint.StatusCode{stint.StatusCompleted, stint.StatusAborted}
	for i, code := range codes {
		err := store.ReturnTask(t.Context(), owned[i].ID, owned[i].Token, "", code)
		if err != nil {
			t.Fatal(err)
		}
	}
	insert(t, store, stint.Task{ID: "ready", Action: "act"},
		stint.Task{ID: "scheduled", Action: "act", NotBefore: time.Now().Add(time.Hour)})
	insert(t, store, numbered("span", 1000)...)
	return owned[2]
}

func maintain(tb testing.TB, store *stint.Store) {
	tb.Helper()
	if err := store.Maintain(tb.Context()); err != nil {
		tb.Fatalf("Maintain = %v", err)
	}
}
