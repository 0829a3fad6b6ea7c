package stint_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testverbs"
)

// everyVerb calls every verb that may be called there, and checks what it answers where that hangs
// on functions, operators or times. IDs begin with prefix. The database's clock and this machine's
// must be one.
func everyVerb(t *testing.T, store *stint.Store, inTx bool, prefix string) {
	t.Helper()
	c := &caller{t: t, Store: store, prefix: prefix}
	c.inserts()
	c.performs(inTx)
	c.opensAgain()
	c.looks()
	c.removes()
}

// A caller calls the verbs of a store one by one. Its tasks have an action of their own.
type caller struct {
	*stint.Store
	t      *testing.T
	prefix string
}

func (c *caller) id(name string) stint.TaskID { return stint.TaskID(c.prefix + name) }

func (c *caller) action() string { return c.prefix + "act" }

func (c *caller) task(name string, after ...stint.TaskID) stint.Task {
	return stint.Task{
		ID: c.id(name), Action: c.action(), Body: []byte("\x00'\\" + name), After: after,
	}
}

func (c *caller) ok(what string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Errorf("%s = %v", what, err)
	}
}

func (c *caller) ownAll(want int) []stint.OwnedTask {
	c.t.Helper()
	owned, err := c.OwnTasks(c.t.Context(), "actor", 100, []string{c.action()}, time.Hour)
	if err != nil || len(owned) != want {
		c.t.Fatalf("OwnTasks gave %d tasks, want %d, %v", len(owned), want, err)
	}
	for _, one := range owned {
		if string(one.Body) != "\x00'\\"+string(one.ID)[len(c.prefix):] {
			c.t.Errorf("the body of %s is %q", one.ID, one.Body)
		}
		wantTime(c.t, "the deadline", one.LeaseUntil, time.Hour)
	}
	return owned
}

func (c *caller) giveBack(owned []stint.OwnedTask, code stint.StatusCode) {
	c.t.Helper()
	var returns []stint.Return
	for _, one := range owned {
		returns = append(returns, stint.Return{
			ID: one.ID, Token: one.Token, Code: code, Status: "it's \\ over",
		})
	}
	verdicts, err := c.ReturnTasks(c.t.Context(), returns)
	c.ok("ReturnTasks", err)
	for _, verdict := range verdicts {
		c.ok("ReturnTasks", verdict)
	}
}

// inserts inserts tasks in all ways, of which fourth waits for third, and that for second, and that
// for first.
func (c *caller) inserts() {
	c.t.Helper()
	ctx := c.t.Context()
	c.ok("InsertTasks", c.InsertTasks(ctx, []stint.Task{c.task("single")}))
	later, limited := c.task("later"), c.task("limited")
	later.NotBefore, limited.Deadline = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	c.ok("InsertTasks", c.InsertTasks(ctx, []stint.Task{c.task("few"), later, limited}))
	first, second := c.task("first"), c.task("second", c.id("first"))
	first.PostResult = true
	c.ok("InsertTasks", c.InsertTasks(ctx, []stint.Task{first, second, c.task("third")}))
	c.ok("AddDependencies", c.AddDependencies(ctx, []stint.Dependency{
		{Predecessor: second.ID, Dependent: c.id("third")},
	}))
	c.ok("InsertTasks", c.InsertTasks(ctx, []stint.Task{c.task("fourth", c.id("third"))}))
	_, err := c.InsertTasksFrom(ctx, stream([]stint.Task{c.task("streamed")}, nil))
	c.ok("InsertTasksFrom", err)
	many := numbered(c.prefix+"m", 100)
	for i := range many {
		many[i].Action = c.prefix + "many"
	}
	c.ok("InsertTasks", c.InsertTasks(ctx, many))
	for _, tasks := range [][]stint.Task{{first}, many[:3], many} {
		existing, err := c.EnsureTasks(ctx, tasks)
		if c.ok("EnsureTasks", err); len(existing) != len(tasks) {
			c.t.Errorf("EnsureTasks = %q, want all", existing)
		}
	}
	c.ok("ReplaceTasks", c.ReplaceTasks(ctx, []stint.Task{c.task("few")}))
	for range 2 {
		c.ok("Debounce", c.Debounce(ctx, c.task("later"), time.Hour, 2*time.Hour))
	}

	wantTime(c.t, "NotBefore", info(c.t, c.Store, later.ID).NotBefore, time.Hour)
	wantTime(c.t, "InsertedAt", info(c.t, c.Store, later.ID).InsertedAt, 0)
	wantTime(c.t, "Deadline", info(c.t, c.Store, limited.ID).Deadline, 2*time.Hour)
}

// performs completes what is ready, and aborts second, and with it third and fourth.
func (c *caller) performs(inTx bool) {
	c.t.Helper()
	ctx := c.t.Context()
	owned := c.ownAll(5) // single, few, limited, first, streamed
	extended, err := c.ExtendTasksOwnership(ctx, "actor", owned, 3*time.Hour)
	if c.ok("ExtendTasksOwnership", err); slices.Contains(extended, false) {
		c.t.Errorf("ExtendTasksOwnership = %v", extended)
	}
	wantTime(c.t, "LeaseUntil", info(c.t, c.Store, owned[0].ID).LeaseUntil, 3*time.Hour)
	wantTime(c.t, "OwnedAt", info(c.t, c.Store, owned[0].ID).OwnedAt, 0)
	c.ok("SetStatus", c.SetStatus(ctx, owned[0], "half", 0.5))
	c.ok("Fence", errOf(c.Fence(ctx, owned[0])))
	c.ok("RecordStep", errOf(c.RecordStep(ctx, owned[0], "step", []byte("value"))))
	c.ok("Steps", errOf(c.Steps(ctx, owned[0])))
	if inTx {
		c.ok("HoldOwnership", c.HoldOwnership(ctx, owned[:1]))
	}
	look(c.t, c.Store)
	c.giveBack(owned[:1], stint.StatusPending)
	owned = append(c.ownAll(1), owned[1:]...)
	c.ok("ReturnTask", c.ReturnTask(ctx, owned[0].ID, owned[0].Token, "", stint.StatusCompleted))
	c.giveBack(owned[1:], stint.StatusCompleted)
	c.ok("Maintain", c.Maintain(ctx))
	owned = c.ownAll(1)
	_, err = c.Inputs(ctx, owned[0])
	c.ok("Inputs", err)
	c.giveBack(owned, stint.StatusAborted) // and with it third and fourth
	wantState(c.t, c.Store, stint.StateAborted, c.id("fourth"))
	wantTime(c.t, "FinishedAt", info(c.t, c.Store, c.id("fourth")).FinishedAt, 0)
}

// opensAgain retries second, completes it and aborts third.
func (c *caller) opensAgain() {
	c.t.Helper()
	ctx := byAnn(c.t)
	c.ok("RetryTasks", errOf(c.RetryTasks(ctx, []stint.TaskID{c.id("second")})))
	c.giveBack(c.ownAll(1), stint.StatusCompleted)
	c.ok("AbortTasks", errOf(c.AbortTasks(ctx, []stint.TaskID{c.id("third")}, "it's \\ off")))
}

func (c *caller) looks() {
	c.t.Helper()
	ctx := c.t.Context()
	look(c.t, c.Store)
	for _, wanted := range []stint.TaskID{c.id("second"), c.id("fourth")} {
		_, err := c.Explain(ctx, wanted)
		c.ok("Explain", err)
		_, err = c.Graph(ctx, wanted)
		c.ok("Graph", err)
	}
	list, err := listTasks(ctx, c.Store, stint.Filter{
		Actions: []string{c.action()}, IDPrefix: c.prefix, MaxAge: time.Hour, Limit: 50,
	})
	if err != nil || len(list) != 9 {
		c.t.Errorf("ListTasks gave %d tasks, want 9, %v", len(list), err)
	}
}

func (c *caller) removes() {
	c.t.Helper()
	ctx := byAnn(c.t)
	c.ok("ChangeTasks", errOf(c.ChangeTasks(ctx, []stint.TaskID{c.id("later"), c.id("m000050")},
		stint.TaskChanges{NotBefore: time.Now().Add(time.Hour), Key: new("k"), MaxTries: 7})))
	c.ok("DeleteTasks", errOf(c.DeleteTasks(ctx, []stint.TaskID{
		c.id("later"), c.id("m000050"), c.id("first"),
	})))
	_, err := c.Prune(ctx)
	c.ok("Prune", err)
	_, err = c.Check(ctx)
	c.ok("Check", err)
}

// look asks for all that people look at.
func look(t *testing.T, store *stint.Store) {
	t.Helper()
	if _, err := store.Stats(t.Context()); err != nil {
		t.Errorf("Stats = %v", err)
	}
	if _, err := store.Problems(t.Context(), 10); err != nil {
		t.Errorf("Problems = %v", err)
	}
	if _, err := store.ListActors(t.Context()); err != nil {
		t.Errorf("ListActors = %v", err)
	}
	_, err := store.Ends(t.Context(), nil, "", 0)
	if err != nil && !errors.Is(err, stint.ErrInvalidArgument) { // it is refused in transactions
		t.Errorf("Ends = %v", err)
	}
	for _, id := range []stint.TaskID{"", "a"} {
		if _, err := store.ListChanges(t.Context(), stint.ChangeFilter{ID: id}); err != nil {
			t.Errorf("ListChanges = %v", err)
		}
	}
}

// wantTime checks that a time is so far from now, give or take what a busy machine takes.
func wantTime(t *testing.T, what string, at time.Time, from time.Duration) {
	t.Helper()
	const busy = 5 * time.Minute
	if off := time.Until(at) - from; off < -busy || off > busy {
		t.Errorf("%s is at %v, want %v from now", what, at, from)
	}
}

// waitingVerbs calls the verbs that wait, register actors, or are for several goroutines at once.
func waitingVerbs(t *testing.T, store *stint.Store, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	act := prefix + "awaited"
	if err := store.RegisterActor(ctx, "actor", []string{act}); err != nil {
		t.Errorf("RegisterActor = %v", err)
	}
	id := func(i int) stint.TaskID { return stint.TaskID(prefix) + numbered("w", 16)[i].ID }
	done := start(func() (int, error) {
		for range 16 {
			owned, err := store.WaitToOwnTasks(ctx, "actor", 1, []string{act}, time.Hour)
			if err != nil {
				return 0, err
			}
			err = store.ReturnTask(ctx, owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
			if err != nil {
				return 0, err
			}
		}
		return 16, nil
	})
	var inserts []<-chan outcome[stint.TaskInfo]
	for i := range 16 {
		inserts = append(inserts, start(func() (stint.TaskInfo, error) {
			err := store.InsertTasks(ctx, []stint.Task{{ID: id(i), Action: act, PostResult: true}})
			if err != nil {
				return stint.TaskInfo{}, err
			}
			return store.WaitForTask(ctx, id(i))
		}))
	}
	for _, insert := range inserts {
		got, err := ends(t, "WaitForTask", insert)
		if err != nil || got.State != stint.StateCompleted {
			t.Errorf("WaitForTask = %s, %v", got.State, err)
		}
		wantTime(t, "FinishedAt", got.FinishedAt, 0)
	}
	if _, err := ends(t, "the worker", done); err != nil {
		t.Errorf("the worker = %v", err)
	}
	if actors, err := store.ListActors(ctx); err != nil || len(actors) > 1 {
		t.Errorf("ListActors = %v, %v", actors, err)
	}
	if err := store.UnregisterActor(ctx, "actor"); err != nil {
		t.Errorf("UnregisterActor = %v", err)
	}
}

// wholeLife calls every verb, with values of every kind.
func wholeLife(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
	t.Helper()
	ctx := t.Context()
	awkward := stint.Task{
		ID: `it's "a" \ {task}`, Action: "act", Body: []byte("\x00'\\"), MaxTries: 2, Priority: 5,
		Deadline: time.Now().Add(time.Hour), NotBefore: time.Now().Add(-time.Hour),
	}
	insert(t, store, awkward, stint.Task{ID: "nil", Action: "act"})
	insert(t, store, numbered("t", 100)...)
	if err := store.ReplaceTasks(ctx, []stint.Task{awkward}); err != nil {
		t.Fatalf("ReplaceTasks = %v", err)
	}
	task := ownOne(t, store)
	if task.ID != awkward.ID || string(task.Body) != string(awkward.Body) {
		t.Errorf("OwnTasks = %+v", task)
	}
	if err := store.SetStatus(ctx, task, "it's \\ half", 0.5); err != nil {
		t.Errorf("SetStatus = %v", err)
	}
	recordStep(t, store, task, "it's \\ a step", "it's \\ kept", "it's \\ kept")
	wantRecorded(t, store, task, "it's \\ a step=it's \\ kept")
	kept, err := store.ExtendTasksOwnership(ctx, "actor", []stint.OwnedTask{task}, time.Hour)
	if err != nil || !kept[0] {
		t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	if pool != nil {
		expireLeases(t, pool)
	}
	maintain(t, store)
	verdicts, err := store.ReturnTasks(ctx, []stint.Return{{
		ID: task.ID, Token: task.Token, Code: stint.StatusPending, RetryAfter: time.Minute,
	}})
	if err != nil || verdicts[0] != nil {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
	err = store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, stint.ErrInvalidToken)
	list, err := listTasks(ctx, store, stint.Filter{
		Actions: []string{"act"}, States: []stint.State{stint.StateScheduled},
	})
	if err != nil || len(list) != 1 || list[0].ID != awkward.ID {
		t.Errorf("ListTasks = %v, %v", list, err)
	}
	err = errOf(store.AbortTasks(ctx, []stint.TaskID{awkward.ID, "t000050"}, "it's \\ off"))
	if err != nil {
		t.Errorf("AbortTasks = %v", err)
	}
	var ids []stint.TaskID
	for _, task := range numbered("t", 100) {
		ids = append(ids, task.ID)
	}
	if err := errOf(store.DeleteTasks(ctx, append(ids, awkward.ID, "nil"))); err != nil {
		t.Errorf("DeleteTasks = %v", err)
	}
}

// verbs calls every verb with good arguments, and answers with its error.
func verbs(store *stint.Store) map[string]func(context.Context) error {
	ids := []stint.TaskID{"a"}
	tasks := []stint.Task{{ID: "new", Action: "act"}}
	all := map[string]func(context.Context) error{
		"InsertTasks": func(ctx context.Context) error { return store.InsertTasks(ctx, tasks) },
		"InsertTasksFrom": func(ctx context.Context) error {
			_, err := store.InsertTasksFrom(ctx, stream(tasks, nil))
			return err
		},
		"EnsureTasks": func(ctx context.Context) error {
			return errOf(store.EnsureTasks(ctx, tasks))
		},
		"ReplaceTasks": func(ctx context.Context) error { return store.ReplaceTasks(ctx, tasks) },
		"Debounce": func(ctx context.Context) error {
			return store.Debounce(ctx, tasks[0], time.Second, time.Minute)
		},
		"OwnTasks": func(ctx context.Context) error {
			_, err := store.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
			return err
		},
		"ExtendTasksOwnership": func(ctx context.Context) error {
			_, err := store.ExtendTasksOwnership(ctx, "actor", []stint.OwnedTask{{}}, time.Hour)
			return err
		},
		"ReturnTask": func(ctx context.Context) error {
			return store.ReturnTask(ctx, "a", stint.Token{}, "", stint.StatusCompleted)
		},
		"ReturnTasks": func(ctx context.Context) error {
			_, err := store.ReturnTasks(ctx, []stint.Return{{ID: "a", Code: stint.StatusAborted}})
			return err
		},
		"SetStatus": func(ctx context.Context) error {
			return store.SetStatus(ctx, stint.OwnedTask{ID: "a"}, "", 0)
		},
		"Fence": func(ctx context.Context) error {
			return errOf(store.Fence(ctx, stint.OwnedTask{ID: "a"}))
		},
		"RecordStep": func(ctx context.Context) error {
			return errOf(store.RecordStep(ctx, stint.OwnedTask{ID: "a"}, "step", nil))
		},
		"Steps": func(ctx context.Context) error {
			return errOf(store.Steps(ctx, stint.OwnedTask{ID: "a"}))
		},
		"GetTasks": func(ctx context.Context) error {
			_, err := store.GetTasks(ctx, ids)
			return err
		},
		"ListTasks": func(ctx context.Context) error {
			_, err := store.ListTasks(ctx, stint.Filter{})
			return err
		},
		"Maintain": store.Maintain,
		"ListLimits": func(ctx context.Context) error {
			_, err := store.ListLimits(ctx)
			return err
		},
	}
	for name := range testverbs.Changes(context.Background(), store) {
		all[name] = func(ctx context.Context) error {
			return errOf(testverbs.Changes(ctx, store)[name](ids))
		}
	}
	return all
}
