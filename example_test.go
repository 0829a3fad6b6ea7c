package stint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// examplePool opens a database for an example. A service has one, and has called
// migrations.Migrate on it.
func examplePool() (pool *pgxpool.Pool, drop func() error) {
	pool, drop, err := testdb.Open(context.Background())
	if err != nil {
		panic(err)
	}
	return pool, drop
}

// exampleStore opens a store with a few tasks.
func exampleStore(tasks ...stint.Task) (store *stint.Store, drop func() error) {
	pool, drop := examplePool()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		panic(err)
	}
	if err := store.InsertTasks(context.Background(), tasks); err != nil {
		panic(err)
	}
	return store, drop
}

func TestMain(m *testing.M) { testdb.Main(m) }

// A worker loop: own tasks, perform them, return them.
func Example() {
	ctx := context.Background()
	pool, drop := examplePool()
	defer drop()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)

	err = store.InsertTasks(ctx, []stint.Task{
		{ID: "greet/world", Action: "greet", Body: []byte("world")},
		{ID: "greet/moon", Action: "greet", Body: []byte("moon"), MaxTries: 3},
	})
	if err != nil {
		panic(err)
	}

	for {
		owned, err := store.OwnTasks(ctx, "worker-1", 10, []string{"greet"}, 30*time.Second)
		if err != nil {
			panic(err)
		}
		if len(owned) == 0 {
			break // a real worker waits a moment and asks again
		}
		for _, task := range owned {
			fmt.Printf("hello, %s\n", task.Body)
			err := store.ReturnTask(ctx, task.ID, task.Token, "greeted", stint.StatusCompleted)
			if err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// hello, world
	// hello, moon
}

func ExampleStore_InsertTasks() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()

	tasks := []stint.Task{{ID: "report/2026-11", Action: "report", Priority: 10}}
	fmt.Println(store.InsertTasks(ctx, tasks))
	err := store.InsertTasks(ctx, tasks)
	fmt.Println(err)
	fmt.Println(errors.Is(err, stint.ErrTaskExists))
	// Output:
	// <nil>
	// insert tasks: task exists: "report/2026-11"
	// true
}

func ExampleStore_InsertTasksFrom() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()

	n, err := store.InsertTasksFrom(ctx, func(yield func(stint.Task, error) bool) {
		for i := range 100_000 {
			task := stint.Task{ID: stint.TaskID(fmt.Sprintf("row/%d", i)), Action: "import"}
			if !yield(task, nil) {
				return
			}
		}
	})
	fmt.Println(n, err)
	// Output:
	// 100000 <nil>
}

func ExampleStore_EnsureTasks() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "import/a", Action: "import"})
	defer drop()

	// The file a is there already; the report waits for it all the same.
	existing, err := store.EnsureTasks(ctx, []stint.Task{
		{ID: "import/a", Action: "import"},
		{ID: "import/b", Action: "import"},
		{ID: "report", Action: "report", After: []stint.TaskID{"import/a", "import/b"}},
	})
	fmt.Println(existing, err)
	explanation, err := store.Explain(ctx, "report")
	fmt.Println("the report waits for", explanation.Missing, err)
	// Output:
	// [import/a] <nil>
	// the report waits for 2 <nil>
}

func ExampleStore_ReplaceTasks() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "next-export", Action: "export", Body: []byte("commit 1")})
	defer drop()

	// The newest request takes the place of one that nobody has begun.
	err := store.ReplaceTasks(ctx, []stint.Task{
		{ID: "next-export", Action: "export", Body: []byte("commit 2")},
	})
	fmt.Println(err)
	owned, err := store.OwnTasks(ctx, "worker-1", 10, []string{"export"}, time.Minute)
	fmt.Printf("%d task: %s, %v\n", len(owned), owned[0].Body, err)

	err = store.ReplaceTasks(ctx, []stint.Task{{ID: "next-export", Action: "export"}})
	fmt.Println(err)
	// Output:
	// <nil>
	// 1 task: commit 2, <nil>
	// replace tasks: task is in progress: "next-export"
}

func ExampleStore_Debounce() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()

	// The index is updated once a document has not changed for a while, or at last after a while.
	for version := range 3 {
		err := store.Debounce(ctx, stint.Task{
			ID: "index/doc-7", Action: "index", Body: fmt.Appendf(nil, "version %d", version),
		}, 100*time.Millisecond, time.Minute)
		if err != nil {
			fmt.Println(err)
		}
	}
	owned, err := store.WaitToOwnTasks(ctx, "worker-1", 10, []string{"index"}, time.Minute)
	fmt.Printf("%d task: %s, %v\n", len(owned), owned[0].Body, err)

	// A change while the index is being updated is for a task that runs afterwards.
	err = store.Debounce(ctx, stint.Task{
		ID: "index/doc-7", Action: "index", Body: []byte("version 3"),
	}, 100*time.Millisecond, time.Minute)
	fmt.Println(err)
	err = store.ReturnTask(ctx, owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
	fmt.Println(err)
	owned, err = store.WaitToOwnTasks(ctx, "worker-1", 10, []string{"index"}, time.Minute)
	fmt.Printf("%s: %s, %v\n", owned[0].ID, owned[0].Body, err)
	// Output:
	// 1 task: version 2, <nil>
	// <nil>
	// <nil>
	// index/doc-7+: version 3, <nil>
}

func ExampleOncePer() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()

	at := time.Date(2026, time.November, 22, 13, 14, 15, 0, time.UTC)
	for range 2 { // such as in each of two processes
		id := stint.OncePer("report/tenant-7", at, 24*time.Hour)
		err := store.InsertTasks(ctx, []stint.Task{{ID: id, Action: "report"}})
		switch {
		case errors.Is(err, stint.ErrTaskExists):
			fmt.Println("the day has had it")
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println("inserted", id)
		}
	}
	fmt.Println(stint.OncePer("report/tenant-7", at, time.Hour))
	// Output:
	// inserted report/tenant-7@2026-11-22T00:00:00Z
	// the day has had it
	// report/tenant-7@2026-11-22T13:00:00Z
}

func ExampleStore_OwnTasks() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "a", Action: "copy"},
		stint.Task{ID: "b", Action: "copy", Priority: 1},
		stint.Task{ID: "c", Action: "report"})
	defer drop()

	owned, err := store.OwnTasks(ctx, "worker-1", 10, []string{"copy"}, time.Minute)
	for _, task := range owned {
		fmt.Println(task.ID, task.Action, task.Try)
	}
	fmt.Println(err)
	owned, err = store.OwnTasks(ctx, "worker-2", 10, []string{"copy"}, time.Minute)
	fmt.Println(len(owned), err)
	// Output:
	// b copy 1
	// a copy 1
	// <nil>
	// 0 <nil>
}

func ExampleStore_ExtendTasksOwnership() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "a", Action: "copy"}, stint.Task{ID: "b", Action: "copy"})
	defer drop()

	owned, err := store.OwnTasks(ctx, "worker-1", 2, []string{"copy"}, time.Minute)
	if err != nil {
		panic(err)
	}
	if _, err := store.AbortTasks(ctx, []stint.TaskID{"b"}, "not needed any more"); err != nil {
		panic(err)
	}
	kept, err := store.ExtendTasksOwnership(ctx, "worker-1", owned, time.Minute)
	fmt.Println(kept, err)
	// Output:
	// [true false] <nil>
}

func ExampleStore_ReturnTask() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "a", Action: "copy"})
	defer drop()

	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"copy"}, time.Minute)
	if err != nil {
		panic(err)
	}
	task := owned[0]
	fmt.Println(store.ReturnTask(ctx, task.ID, task.Token, "copied", stint.StatusCompleted))

	// Made again, because the first answer was lost, say:
	err = store.ReturnTask(ctx, task.ID, task.Token, "copied", stint.StatusCompleted)
	fmt.Println(errors.Is(err, stint.ErrAlreadyReturned))
	// Output:
	// <nil>
	// true
}

func ExampleStore_ReturnTasks() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "a", Action: "copy"},
		stint.Task{ID: "b", Action: "copy"},
		stint.Task{ID: "c", Action: "copy"})
	defer drop()

	owned, err := store.OwnTasks(ctx, "worker-1", 3, []string{"copy"}, time.Minute)
	if err != nil {
		panic(err)
	}
	verdicts, err := store.ReturnTasks(ctx, []stint.Return{
		{ID: "a", Token: owned[0].Token, Code: stint.StatusCompleted, Result: []byte("42")},
		{
			ID: "b", Token: owned[1].Token, Code: stint.StatusPending,
			Status: "disk is full", RetryAfter: time.Minute,
		},
		{ID: "c", Token: owned[1].Token, Code: stint.StatusCompleted}, // not its token
	})
	fmt.Println(verdicts[0])
	fmt.Println(verdicts[1])
	fmt.Println(verdicts[2])
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// invalid performance token: "c"
	// <nil>
}

func ExampleStore_SetStatus() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "a", Action: "copy"})
	defer drop()

	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"copy"}, time.Minute)
	if err != nil {
		panic(err)
	}
	fmt.Println(store.SetStatus(ctx, owned[0], "3 of 4 files", 0.75))
	infos, err := store.GetTasks(ctx, []stint.TaskID{"a"})
	fmt.Println(infos[0].State, infos[0].Actor, infos[0].Status, infos[0].Progress, err)
	// Output:
	// <nil>
	// in-progress worker-1 3 of 4 files 0.75 <nil>
}

func ExampleStore_AbortTasks() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "a", Action: "copy"},
		stint.Task{ID: "b", Action: "copy", After: []stint.TaskID{"a"}})
	defer drop()

	aborted, err := store.AbortTasks(ctx, []stint.TaskID{"a"}, "not needed any more")
	fmt.Println(aborted.Tasks, "and others:", aborted.Others, err)
	infos, err := store.GetTasks(ctx, []stint.TaskID{"a"})
	fmt.Println(infos[0].State, infos[0].AbortCause, infos[0].Status, err)
	// Output:
	// [a] and others: 1 <nil>
	// aborted cancelled not needed any more <nil>
}

// A task that was put off starts now, ahead of others, and what waits for it still does.
func ExampleStore_ChangeTasks() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "mail", Action: "mail"},
		stint.Task{ID: "report", Action: "report", NotBefore: time.Now().Add(24 * time.Hour)},
		stint.Task{ID: "archive", Action: "archive", After: []stint.TaskID{"report"}})
	defer drop()

	now := stint.TaskChanges{StartNow: true, Priority: new(int16(5))}
	for range 2 {
		changed, err := store.ChangeTasks(ctx, []stint.TaskID{"report"}, now)
		fmt.Println(changed.Tasks, err)
	}
	infos, err := store.GetTasks(ctx, []stint.TaskID{"report", "archive"})
	if err != nil {
		panic(err)
	}
	for _, task := range infos {
		fmt.Println(task.ID, task.State)
	}
	// Output:
	// [report] <nil>
	// [] <nil>
	// report ready
	// archive blocked
}

func ExampleStore_RetryTasks() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "save", Action: "save", MaxTries: 1},
		stint.Task{ID: "mail", Action: "mail", After: []stint.TaskID{"save"}})
	defer drop()

	owned, err := store.OwnTasks(ctx, "me", 1, []string{"save"}, time.Minute)
	if err != nil {
		panic(err)
	}
	task := owned[0]
	err = store.ReturnTask(ctx, task.ID, task.Token, "the disk is full", stint.StatusPending)
	if err != nil {
		panic(err)
	}
	show := func() {
		infos, err := store.GetTasks(ctx, []stint.TaskID{"save", "mail"})
		for _, info := range infos {
			fmt.Println(info.ID, info.State, info.AbortCause, err)
		}
	}
	show()
	// Somebody sees to the disk.
	opened, err := store.RetryTasks(ctx, []stint.TaskID{"save"})
	fmt.Println(opened.Tasks, "and others:", opened.Others, err)
	show()
	// Output:
	// save aborted tries <nil>
	// mail aborted dependency <nil>
	// [save] and others: 1 <nil>
	// save ready  <nil>
	// mail blocked  <nil>
}

func ExampleStore_DeleteTasks() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "a", Action: "copy"})
	defer drop()

	for range 2 {
		_, err := store.DeleteTasks(ctx, []stint.TaskID{"a"})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// delete tasks: task not found: "a"
}

func ExampleStore_GetTasks() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "a", Action: "copy", Body: []byte("a.txt")})
	defer drop()

	infos, err := store.GetTasks(ctx, []stint.TaskID{"a", "b"})
	fmt.Printf("%s %s %s\n", infos[0].ID, infos[0].State, infos[0].Body)
	fmt.Println(err)
	// Output:
	// a ready a.txt
	// get tasks: task not found: "b"
}

func ExampleRemote_FindActions() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "a", Action: "copy"})
	defer drop()

	actions, err := store.Remote().FindActions(ctx, []stint.TaskID{"a", "b"})
	fmt.Println(actions, err)
	// Output:
	// map[a:copy] <nil>
}

func ExampleStore_ListTasks() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "copy/a", Action: "copy"},
		stint.Task{ID: "copy/b", Action: "copy", NotBefore: time.Now().Add(time.Hour)},
		stint.Task{ID: "report", Action: "report"})
	defer drop()

	page, err := store.ListTasks(ctx, stint.Filter{IDPrefix: "copy/"})
	for _, info := range page.Tasks {
		fmt.Println(info.ID, info.State)
	}
	fmt.Println(err)
	// Output:
	// copy/a ready
	// copy/b scheduled
	// <nil>
}

func ExampleStore_Stats() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "copy/a", Action: "copy"},
		stint.Task{ID: "copy/b", Action: "copy", NotBefore: time.Now().Add(time.Hour)},
		stint.Task{ID: "report", Action: "report", After: []stint.TaskID{"copy/a", "copy/b"}})
	defer drop()

	stats, err := store.Stats(ctx)
	for _, a := range stats.Actions {
		fmt.Println(a.Action, a.Ready, "ready,", a.Scheduled, "scheduled,", a.Blocked, "blocked")
	}
	fmt.Println("estimates:", stats.Estimated, err)
	// Output:
	// copy 1 ready, 1 scheduled, 0 blocked
	// report 0 ready, 0 scheduled, 1 blocked
	// estimates: [] <nil>
}

func ExampleStore_Problems() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "copy/a", Action: "copy", MaxTries: 1},
		stint.Task{ID: "copy/b", Action: "copy"},
		stint.Task{ID: "copy/c", Action: "copy"})
	defer drop()

	owned, err := store.OwnTasks(ctx, "me", 3, []string{"copy"}, time.Minute)
	if err != nil {
		panic(err)
	}
	for _, task := range owned[:2] {
		err := store.ReturnTask(ctx, task.ID, task.Token, "the disk is full", stint.StatusPending)
		if err != nil {
			panic(err)
		}
	}
	problems, err := store.Problems(ctx, 10)
	fmt.Println("in progress:", problems.Slow[0].ID)
	fmt.Println("tried again:", problems.Failing[0].ID, "-", problems.Failing[0].Status)
	fmt.Println("failed:", problems.Failed[0].ID, "-", problems.Failed[0].AbortCause, err)
	// Output:
	// in progress: copy/c
	// tried again: copy/b - the disk is full
	// failed: copy/a - tries <nil>
}

// A worker completes a task, inserts its successor and writes its own row, in one commit.
func ExampleStore_WithTx() {
	ctx := context.Background()
	pool, drop := examplePool()
	defer drop()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)
	if _, err := pool.Exec(ctx, "CREATE TABLE invoices (id text PRIMARY KEY)"); err != nil {
		panic(err)
	}
	err = store.InsertTasks(ctx, []stint.Task{{ID: "bill/7", Action: "bill"}})
	if err != nil {
		panic(err)
	}

	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"bill"}, time.Minute)
	if err != nil {
		panic(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO invoices VALUES ('7')"); err != nil {
			return err
		}
		inside := store.WithTx(tx)
		err := inside.InsertTasks(ctx, []stint.Task{{ID: "mail/7", Action: "mail"}})
		if err != nil {
			return err
		}
		// If the task has passed to another owner, this fails, and none of it becomes real.
		return inside.ReturnTask(ctx, "bill/7", owned[0].Token, "", stint.StatusCompleted)
	})
	fmt.Println(err)
	infos, err := store.GetTasks(ctx, []stint.TaskID{"bill/7", "mail/7"})
	fmt.Println(infos[0].State, infos[1].State, err)
	// Output:
	// <nil>
	// completed ready <nil>
}

func ExampleStore_Maintain() {
	ctx := context.Background()
	store, drop := exampleStore(
		stint.Task{ID: "a", Action: "copy", Deadline: time.Now().Add(-time.Second)})
	defer drop()

	fmt.Println(store.Maintain(ctx)) // a worker's store does this by itself
	infos, err := store.GetTasks(ctx, []stint.TaskID{"a"})
	fmt.Println(infos[0].State, infos[0].AbortCause, err)
	// Output:
	// <nil>
	// aborted expired <nil>
}

func ExampleStore_Prune() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "a", Action: "copy"},
		stint.Task{ID: "b", Action: "copy"})
	defer drop()

	if _, err := store.AbortTasks(ctx, []stint.TaskID{"a"}, ""); err != nil {
		panic(err)
	}
	fmt.Println(store.Prune(ctx)) // aborted ones are kept for a week
	// Output:
	// 0 <nil>
}

func ExampleAdopt() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	stats, err := store.Stats(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Printf("a copy: %t\n", stats.Copy != "") // true where a dump was restored
	fmt.Println(stint.Adopt(ctx, store))
	// Output:
	// a copy: false
	// <nil>
}
