package stint_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

// At most 40 mails are sent at once, one for each customer, and 1,000 a second.
func ExampleStore_SetLimits() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.SetLimits(ctx, "mail", stint.Limits{
		Concurrency:       40,
		ConcurrencyPerKey: 1,
		Rate:              stint.Rate{Tasks: 1000, Per: time.Second},
	})
	fmt.Println(err)

	err = store.SetLimits(ctx, "mail", stint.Limits{}) // none any more
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}

// The updates of a customer are delivered in order. While the first of them fails, no other one of
// this customer begins, until the first has been delivered, or somebody gives it up.
func ExampleStore_SetLimits_inOrder() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	if err := store.SetLimits(ctx, "deliver", stint.Limits{Ordered: true}); err != nil {
		panic(err)
	}
	err := store.InsertTasks(ctx, []stint.Task{
		{ID: "created", Action: "deliver", Key: "customer-7"},
		{ID: "renamed", Action: "deliver", Key: "customer-7"},
		{ID: "created too", Action: "deliver", Key: "customer-8"},
	})
	if err != nil {
		panic(err)
	}
	next := func() (tasks []stint.OwnedTask) {
		tasks, err := store.OwnTasks(ctx, "worker-1", 10, []string{"deliver"}, time.Minute)
		if err != nil {
			panic(err)
		}
		for _, task := range tasks {
			fmt.Println("deliver", task.ID)
		}
		return tasks
	}

	for _, task := range next() {
		again := stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusPending}
		again.RetryAfter = time.Hour // the recipient is away
		if _, err := store.ReturnTasks(ctx, []stint.Return{again}); err != nil {
			panic(err)
		}
	}
	fmt.Println(len(next()), "more")
	if _, err := store.AbortTasks(ctx, []stint.TaskID{"created"}, "it moved"); err != nil {
		panic(err)
	}
	next()
	// Output:
	// deliver created
	// deliver created too
	// 0 more
	// deliver renamed
}

// Tenant a has tasks of three actions, b of one. Workers own tasks of all three.
func ExampleStore_SetLimits_fairGroup() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	actions := []string{"mail", "render", "sync"}
	var tasks []stint.Task
	for _, action := range actions {
		err := store.SetLimits(ctx, action, stint.Limits{Fair: true, FairGroup: "tenants"})
		if err != nil {
			panic(err)
		}
		for range 100 {
			tasks = append(tasks, stint.Task{Action: action, Key: "a"})
		}
	}
	for range 100 {
		tasks = append(tasks, stint.Task{Action: "sync", Key: "b"})
	}
	if err := store.InsertTasks(ctx, tasks); err != nil {
		panic(err)
	}

	got := map[string]int{}
	for range 2 {
		owned, err := store.OwnTasks(ctx, "worker", 64, actions, time.Minute)
		if err != nil {
			panic(err)
		}
		for _, task := range owned {
			got[task.Key]++
		}
	}
	fmt.Println(got)
	// Output:
	// map[a:64 b:64]
}

func ExampleStore_ListLimits() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.SetLimits(ctx, "mail", stint.Limits{
		Concurrency: 40, Rate: stint.Rate{Tasks: 60, Per: time.Minute, Burst: 10},
	})
	if err != nil {
		panic(err)
	}
	if err := store.Pause(ctx, "report"); err != nil {
		panic(err)
	}

	list, err := store.ListLimits(ctx)
	if err != nil {
		panic(err)
	}
	for _, l := range list {
		fmt.Printf("%s: %d of %d in progress, %.0f tokens, paused: %t\n", l.Action, l.InProgress,
			l.Limits.Concurrency, l.Tokens, !l.PausedSince.IsZero())
	}
	// Output:
	// mail: 0 of 40 in progress, 10 tokens, paused: false
	// report: 0 of 0 in progress, 0 tokens, paused: true
}

func ExampleStore_Pause() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	fmt.Println(store.Pause(ctx, "mail", "report"))
	// The provider works again.
	fmt.Println(store.Resume(ctx, "mail", "report"))
	// Output:
	// <nil>
	// <nil>
}

func ExampleStore_Resume() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	fmt.Println(store.Resume(ctx, "mail")) // no error if it is not paused
	// Output: <nil>
}

func ExampleStore_PauseKeys() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	if err := store.PauseKeys(ctx, "mail", "customer-7"); err != nil {
		panic(err)
	}
	list, err := store.ListLimits(ctx, "mail")
	if err != nil {
		panic(err)
	}
	for key := range list[0].PausedKeys {
		fmt.Println(key)
	}
	// Output: customer-7
}

func ExampleStore_ResumeKeys() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	fmt.Println(store.ResumeKeys(ctx, "mail", "customer-7"))
	// Output: <nil>
}

// Customers take turns, and one of them gets three times as many.
func ExampleStore_SetWeights() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	if err := store.SetLimits(ctx, "mail", stint.Limits{Fair: true}); err != nil {
		panic(err)
	}
	if err := store.SetWeights(ctx, "mail", map[string]int{"customer-7": 3}); err != nil {
		panic(err)
	}
	list, err := store.ListLimits(ctx, "mail")
	if err != nil {
		panic(err)
	}
	fmt.Println(list[0].Weights)
	// Output: map[customer-7:3]
}

// A report is made at eight o'clock in Berlin on each working day.
func ExampleStore_EnsureSchedules() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	report := stint.Schedule{
		Name: "report", Spec: "0 8 * * mon-fri", Zone: "Europe/Berlin",
		Tasks:   []stint.Task{{Action: "report"}},
		Overlap: stint.OverlapSkip,
	}
	if err := store.EnsureSchedules(ctx, []stint.Schedule{report}); err != nil {
		fmt.Println(err)
	}
	// Another start of the program leaves it as it is.
	fmt.Println(store.EnsureSchedules(ctx, []stint.Schedule{report}))
	// Output: <nil>
}

func ExampleSchedule_Next() {
	backup := stint.Schedule{
		Name: "backup", Spec: "30 2 * * *", Zone: "Europe/Berlin",
		Tasks: []stint.Task{{Action: "backup"}},
	}
	// On the 29th, clocks are put forward from two to three.
	next, err := backup.Next(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), 3)
	for _, at := range next {
		fmt.Println(at.Format(time.RFC3339))
	}
	fmt.Println(err)
	// Output:
	// 2026-03-28T01:30:00Z
	// 2026-03-29T01:00:00Z
	// 2026-03-30T00:30:00Z
	// <nil>
}

func ExampleStore_PutSchedules() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	fmt.Println(store.PutSchedules(ctx, []stint.Schedule{{
		Name: "night", Spec: "@daily",
		Tasks: []stint.Task{
			{ID: "fetch", Action: "fetch"},
			{ID: "report", Action: "report", After: []stint.TaskID{"fetch"}},
		},
	}}))
	schedules, err := store.ListSchedules(ctx, "night")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schedules[0].NextAt.UTC().Format(time.TimeOnly))
	// Output:
	// <nil>
	// 00:00:00
}

func ExampleStore_ListSchedules() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.PutSchedules(ctx, []stint.Schedule{
		{Name: "b", Spec: "@hourly", Tasks: []stint.Task{{Action: "act"}}},
		{Name: "a", Spec: "every 90s", Tasks: []stint.Task{{Action: "act"}}},
	})
	if err != nil {
		fmt.Println(err)
	}
	schedules, err := store.ListSchedules(ctx)
	for _, schedule := range schedules {
		fmt.Println(schedule.Name, schedule.Spec, schedule.Missed)
	}
	fmt.Println(err)
	// Output:
	// a every 90s 0
	// b @hourly 0
	// <nil>
}

func ExampleStore_TriggerSchedule() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.PutSchedules(ctx, []stint.Schedule{
		{Name: "report", Spec: "@yearly", Tasks: []stint.Task{{Action: "report"}}},
	})
	if err != nil {
		fmt.Println(err)
	}
	id, err := store.TriggerSchedule(ctx, "report")
	if err != nil {
		fmt.Println(err)
	}
	owned, err := store.OwnTasks(ctx, "worker", 1, []string{"report"}, time.Minute)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(owned[0].ID == id)
	// Output: true
}

func ExampleStore_PauseSchedules() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.PutSchedules(ctx, []stint.Schedule{
		{Name: "report", Spec: "@daily", Tasks: []stint.Task{{Action: "report"}}},
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(store.PauseSchedules(ctx, "report"))
	fmt.Println(store.ResumeSchedules(ctx, "report"))
	// Output:
	// <nil>
	// <nil>
}

func ExampleStore_ResumeSchedules() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.ResumeSchedules(ctx, "no such schedule")
	fmt.Println(errors.Is(err, stint.ErrScheduleNotFound))
	// Output: true
}

func ExampleStore_DeleteSchedules() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.PutSchedules(ctx, []stint.Schedule{
		{Name: "report", Spec: "@daily", Tasks: []stint.Task{{Action: "report"}}},
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(store.DeleteSchedules(ctx, "report"))
	// Output: <nil>
}

func ExampleStore_History() {
	ctx := context.Background()
	pool, drop := examplePool()
	defer drop()
	store, err := stint.New(pool, stint.Options{History: stint.HistoryOptions{Tries: 25}})
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)
	err = store.InsertTasks(ctx, []stint.Task{{ID: "bill/7", Action: "bill"}})
	if err != nil {
		panic(err)
	}
	for _, r := range []stint.Return{
		{Code: stint.StatusPending, Status: "no network", Log: "connecting to the bank"},
		{Code: stint.StatusCompleted, Status: "sent"},
	} {
		owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"bill"}, time.Minute)
		if err != nil {
			panic(err)
		}
		r.ID, r.Token = owned[0].ID, owned[0].Token
		verdicts, err := store.ReturnTasks(ctx, []stint.Return{r})
		if err != nil || verdicts[0] != nil {
			panic(fmt.Sprint(err, verdicts))
		}
	}
	history, err := store.History(ctx, "bill/7")
	if err != nil {
		panic(err)
	}
	for _, try := range history.Tries {
		fmt.Println(try.Number, try.Outcome, "by", try.Actor, try.Status, try.Log)
	}
	// Output:
	// 1 returned by worker-1 no network connecting to the bank
	// 2 completed by worker-1 sent
}

func ExampleRemote_ClaimTasks() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	err := store.InsertTasks(ctx, []stint.Task{{ID: "greet/world", Action: "greet"}})
	if err != nil {
		panic(err)
	}
	claim, err := stint.NewClaim(0)
	if err != nil {
		panic(err)
	}
	for range 2 { // as if the first answer had been lost
		owned, err := store.Remote().ClaimTasks(
			ctx, claim, "greeter", 10, []string{"greet"}, time.Minute)
		if err != nil {
			panic(err)
		}
		fmt.Println(owned[0].ID, "try", owned[0].Try)
	}
	// Output:
	// greet/world try 1
	// greet/world try 1
}

// A service attends the connection of an actor in another process, and hands its tasks on when the
// connection is gone.
func ExampleRemote_AttendActor() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "mail/1", Action: "mail"})
	defer drop()
	remote := stint.RemoteActor{Actor: "mailer", Session: 4711, Epoch: 1}
	own := func(actor stint.ActorID, session int64) {
		claim, err := stint.NewClaim(session)
		if err != nil {
			panic(err)
		}
		owned, err := store.Remote().ClaimTasks(ctx, claim, actor, 1, []string{"mail"}, time.Hour)
		if err != nil {
			panic(err)
		}
		for _, task := range owned {
			fmt.Println(actor, "owns", task.ID, "try", task.Try)
		}
	}

	latest, err := store.Remote().AttendActor(ctx, remote, []string{"mail"})
	fmt.Println(latest, err)
	own(remote.Actor, remote.Session)

	fmt.Println(store.Remote().DismissActor(ctx, remote)) // its connection is gone
	own("other", 4712)
	fmt.Println(store.Close(ctx))
	// Output:
	// true <nil>
	// mailer owns mail/1 try 1
	// <nil>
	// other owns mail/1 try 2
	// <nil>
}

func ExampleStore_Ends() {
	store, drop := exampleStore(stint.Task{ID: "mail/7", Action: "mail"})
	defer drop()

	ctx := context.Background()
	if _, err := store.AbortTasks(ctx, []stint.TaskID{"mail/7"}, "sent by hand"); err != nil {
		panic(err)
	}
	var cursor stint.Cursor // the one that was kept with what was done last
	page, err := store.Ends(ctx, []string{"mail"}, cursor, time.Minute)
	for _, task := range page.Tasks {
		fmt.Println(task.ID, task.State, task.AbortCause, task.Status, err)
	}
	cursor = page.Next // keep it when the page is done with
	page, err = store.Ends(ctx, []string{"mail"}, cursor, 0)
	fmt.Println(len(page.Tasks), err)
	// Output:
	// mail/7 aborted cancelled sent by hand <nil>
	// 0 <nil>
}

func ExampleStore_ListChanges() {
	store, drop := exampleStore(stint.Task{ID: "mail/7", Action: "mail"})
	defer drop()

	ctx := stint.WithAuthor(context.Background(), stint.Author{Name: "ann", Reason: "sent twice"})
	if _, err := store.DeleteTasks(ctx, []stint.TaskID{"mail/7"}); err != nil {
		panic(err)
	}
	page, err := store.ListChanges(ctx, stint.ChangeFilter{ID: "mail/7"})
	for _, c := range page.Changes {
		fmt.Println(c.Verb, c.Names, "by", c.By+":", c.Reason, err)
	}
	// Output:
	// DeleteTasks [mail/7] by ann: sent twice <nil>
}

func ExampleStore_Fence() {
	ctx := context.Background()
	store, drop := exampleStore(stint.Task{ID: "a", Action: "copy"})
	defer drop()

	owned, err := store.OwnTasks(ctx, "worker-1", 1, []string{"copy"}, time.Minute)
	if err != nil {
		panic(err)
	}
	first, err := store.Fence(ctx, owned[0])
	if err != nil {
		panic(err)
	}
	_, err = store.ReturnTasks(ctx, []stint.Return{{
		ID: "a", Token: owned[0].Token, Code: stint.StatusPending, Release: true,
	}})
	if err != nil {
		panic(err)
	}
	again, err := store.OwnTasks(ctx, "worker-2", 1, []string{"copy"}, time.Minute)
	if err != nil {
		panic(err)
	}
	second, err := store.Fence(ctx, again[0])
	fmt.Println(second > first, err)
	_, err = store.Fence(ctx, owned[0])
	fmt.Println(errors.Is(err, stint.ErrInvalidToken))
	// Output:
	// true <nil>
	// true
}

// A customer may spend 2,000 cents a day. A task starts as long as some are left; what it has
// really spent is settled when it ends.
func ExampleStore_SetLimits_byCost() {
	ctx := context.Background()
	store, drop := exampleStore()
	defer drop()
	defer store.Close(ctx)

	err := store.SetLimits(ctx, "ask", stint.Limits{
		RatePerKey: stint.Rate{Tasks: 2000, Per: 24 * time.Hour, Burst: 2000}, ByCost: true,
	})
	fmt.Println(err)
	err = store.InsertTasks(ctx, []stint.Task{
		{ID: "first", Action: "ask", Key: "customer-7", Cost: 1500},
		{ID: "second", Action: "ask", Key: "customer-7", Cost: 1500},
		{ID: "third", Action: "ask", Key: "customer-7", Cost: 1500},
	})
	fmt.Println(err)

	var owned []stint.OwnedTask
	for range 3 {
		more, err := store.OwnTasks(ctx, "worker", 1, []string{"ask"}, time.Minute)
		fmt.Println(len(more), err)
		owned = append(owned, more...)
	}
	_, err = store.ReturnTasks(ctx, []stint.Return{{ // it took 200 cents
		ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted, Spent: new(200),
	}})
	fmt.Println(err)
	owned, err = store.OwnTasks(ctx, "worker", 1, []string{"ask"}, time.Minute)
	fmt.Println(len(owned), err)
	// Output:
	// <nil>
	// <nil>
	// 1 <nil>
	// 1 <nil>
	// 0 <nil>
	// <nil>
	// 1 <nil>
}
