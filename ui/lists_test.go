package ui_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// What needs attention is on the first page, the worst first, and leads to where it is mended.
func TestOverview_SaysWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{
		stats: func(context.Context) (stint.Stats, error) {
			return stint.Stats{
				Actions: []stint.ActionStats{
					{Action: "mail", Ready: 1200, OldestReady: time.Hour},
					{Action: "report", Ready: 3, OldestReady: time.Hour, Paused: true},
					{Action: "scan", Ready: 7, InProgress: 2, OldestReady: 20 * time.Minute},
					{
						Action: "print", Ready: 40, Parked: 3, InProgress: 5, Concurrency: 5,
						OldestReady: 2 * time.Minute,
					},
					{Action: "calm", Ready: 7, InProgress: 2, OldestReady: time.Second},
					{Action: stint.External, Ready: 7, OldestReady: time.Hour},
				},
				Estimated: []stint.State{stint.StateReady}, PruningBehind: time.Hour,
			}, nil
		},
		problems: func(context.Context, int) (stint.Problems, error) {
			return stint.Problems{Errors: []stint.ErrorGroup{
				{Action: "mail", Tasks: 24, Error: "no route to host", Example: "mail/7"},
			}}, nil
		},
	}, ui.Options{})
	page := text(t, h, "/")
	_, list, _ := strings.Cut(page, `<ul class="notices">`)
	list, _, _ = strings.Cut(list, "</ul>")
	var got []string
	for _, item := range strings.SplitAfter(list, "</li>") {
		if strings.Contains(item, "<li") {
			said := strings.TrimSpace(parse(t, item).text)
			got = append(got, strings.TrimSpace(strings.TrimSuffix(said, "Look")))
		}
	}
	want := []string{
		"mail: 24 tasks failed or were given back: “no route to host”",
		"No registered actor performs mail: 1,200 tasks ready, the oldest for 1h00m.",
		"Pruning is 1h00m behind: no store maintains this one, or they cannot keep up.",
		"scan is behind: 7 tasks ready, the oldest for 20m.",
		"print is behind: 40 tasks ready, the oldest for 2m00s; its limit is full; " +
			"3 parked by limits, pauses or turns of their keys.",
		"report is paused: 3 tasks ready.",
		"7 tasks wait for an answer from outside, the oldest for 1h00m.",
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("the page says\n%q, want\n%q", got, want)
	}
	wantParts(t, page, "~</abbr>1,264", `href="action?name=mail"`, `href="task?id=mail%2F7"`)
}

func TestPages_NameWhatIsMissing(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{}, ui.Options{Missing: func() []string {
		return []string{"Shard <us> is away."}
	}})
	wantParts(t, text(t, h, "/tasks"), "Shard &lt;us&gt; is away.")
}

func TestOverview_IsCalmWhereAllIsWell(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{stats: func(context.Context) (stint.Stats, error) {
		return stint.Stats{Actions: []stint.ActionStats{{Action: "mail", Completed: 5}}}, nil
	}}, ui.Options{})
	wantParts(t, text(t, h, "/"), "Nothing, as far as the store can tell")
}

// However many actions there are, the overview stays one.
func TestPages_StaySmall(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	stats := stint.Stats{}
	for i := range 20_000 {
		stats.Actions = append(stats.Actions, stint.ActionStats{
			Action: fmt.Sprintf("action-%d", i), Ready: 1, OldestReady: time.Hour, Paused: i%2 == 0,
		})
	}
	long := strings.Repeat("long ", 13_000)
	task := stint.TaskInfo{ID: "a", State: stint.StateAborted, Status: long}
	h := ui.New(aFake{
		stats: func(context.Context) (stint.Stats, error) { return stats, nil },
		problems: func(_ context.Context, limit int) (stint.Problems, error) {
			var found stint.Problems
			for range limit {
				found.Failed = append(found.Failed, task)
				found.Slow = append(found.Slow, task)
			}
			return found, nil
		},
		list: func(_ context.Context, filter stint.Filter) (stint.TaskPage, error) {
			var page stint.TaskPage
			for range filter.Limit {
				page.Tasks = append(page.Tasks, task)
			}
			return page, nil
		},
		explain: func(context.Context, stint.TaskID) (stint.Explanation, error) {
			e := stint.Explanation{Task: task}
			for range 100 {
				e.BecauseOf = append(e.BecauseOf, task)
			}
			return e, nil
		},
		history: stint.History{Tries: make([]stint.Try, 1000)},
	}, ui.Options{})
	for name, most := range map[string]int{
		"": 64 << 10, "problems": 128 << 10, "actions": 3 << 20, "action?name=action-7": 64 << 10,
		"tasks?size=1000": 1 << 20, "tasks": 128 << 10, "task?id=a": 256 << 10,
	} {
		if page := text(t, h, "/"+name); len(page) > most {
			t.Errorf("%q has %d bytes, over %d", name, len(page), most)
		}
	}
}

func TestProblems_GroupsErrors(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for i := range 3 {
		insert(t, store, stint.Task{ID: stint.TaskID(fmt.Sprintf("m/%d", i)), Action: "mail"})
	}
	var returns []stint.Return
	for i, task := range own(t, store, "mail") {
		returns = append(returns, stint.Return{
			ID: task.ID, Token: task.Token, Code: stint.StatusAborted,
			Status: fmt.Sprintf("port %d is closed", i),
		})
	}
	verdicts, err := store.ReturnTasks(t.Context(), returns)
	wantNil(t, errors.Join(append(verdicts, err)...))
	page := text(t, ui.New(store, ui.Options{}), "/problems")
	wantParts(t, page, `>3</a></td>`, "is closed", "Failed last")
	if strings.Count(page, `class="error"`) != 1 {
		t.Errorf("the errors are not in one group:\n%s", page)
	}
	wantParts(t, text(t, ui.New(newStore(t), ui.Options{}), "/problems"), "No problems")
}

func TestLimits_AreListed(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	wantNil(t, store.SetLimits(ctx, "mail", stint.Limits{
		Concurrency: 1, ConcurrencyPerKey: 1, Fair: true, FairGroup: "tenants",
		Rate: stint.Rate{Tasks: 100, Per: time.Minute, Burst: 7},
	}))
	wantNil(t, store.SetWeights(ctx, "mail", map[string]int{"gold": 3}))
	wantNil(t, store.Pause(ctx, "report"))
	wantNil(t, store.PauseKeys(ctx, "mail", "customer-7"))
	insert(t, store, stint.Task{ID: "a", Action: "mail", Key: "gold"},
		stint.Task{ID: "b", Action: "mail", Key: "gold"})
	own(t, store, "mail")
	h := ui.New(store, ui.Options{})
	wantParts(t, text(t, h, "/limits"), "100 per minute, 7 at once", "customer-7", "gold 3",
		"fair: tenants", `<span class="tag">full</span>`, `<span class="tag">paused</span>`)
	wantParts(t, text(t, h, "/action?name=mail"), "keys take turns", "customer-7", "1 of 1")
	wantParts(t, text(t, h, "/action?name=report"), "its tasks are not fetched")
	wantParts(t, text(t, h, "/action?name=other"), "Nothing is known of this action")
	wantParts(t, text(t, h, "/task?id=b"), "the limit is full: 1 of 1 tasks of", "In its place")
}

func TestSchedules_SayWhenTheyOccur(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{
		{Name: "nightly", Spec: "0 3 * * *", Zone: "Europe/Berlin", Tasks: []stint.Task{
			{ID: "a", Action: "report", Body: []byte("secret")}, {ID: "b", Action: "mail"},
		}},
		{Name: "off", Spec: "every 90s", Tasks: []stint.Task{{Action: "ping"}}},
	}))
	wantNil(t, store.PauseSchedules(t.Context(), "off"))
	page := text(t, ui.New(store, ui.Options{}), "/schedules")
	wantParts(t, page, "nightly", "0 3 * * *", "Europe/Berlin", "report, mail", "2 tasks",
		`<span class="tag">paused</span>`, `href="tasks?prefix=nightly%2F"`)
	if n := strings.Count(page, `<span class="next`); n != 3 {
		t.Errorf("%d occurrences are named, want 3", n)
	}
	if strings.Contains(page, "secret") {
		t.Error("the page shows a body")
	}
}

// Where not all actions of a schedule are named, it says how many more there are.
func TestSchedules_SayOfHowManyMoreActionsTheyAre(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	schedule := stint.Schedule{Name: "nightly", Spec: "@daily"}
	for i := range 25 {
		action := fmt.Sprintf("a%02d", i)
		schedule.Tasks = append(schedule.Tasks, stint.Task{
			ID: stint.TaskID(action), Action: action,
		})
	}
	wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{schedule}))
	h := ui.New(store, open())
	page := text(t, h, "/schedules")
	wantParts(t, page, "a00, a01, a02, and 22 more ")
	wantParts(t, previewOf(t, h, formWith(t, page, "trigger")), "a18, a19, and 5 more.")
}

func TestActors_AreListed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	wantNil(t, store.RegisterActor(t.Context(), "worker-1", []string{"mail", "scan"}))
	insert(t, store, stint.Task{ID: "a", Action: "mail"})
	own(t, store, "mail")
	h := ui.New(store, ui.Options{})
	wantParts(t, text(t, h, "/actors"), "worker-1", `href="action?name=scan"`,
		`href="tasks?actor=worker-1&amp;state=in-progress"`)
	wantParts(t, text(t, h, "/tasks?actor=worker-1"), `href="task?id=a"`)
	wantParts(t, text(t, h, "/task?id=a"), "In progress:", "Its lease expires")
}
