package stint_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

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
