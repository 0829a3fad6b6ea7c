package ui_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// ago and in are times somewhat further from noon, since the page is shown a little later.
func ago(d time.Duration) time.Time { return noon.Add(-d) }
func in(d time.Duration) time.Time  { return noon.Add(d + time.Second/2) }

// explanations are why tasks do not run, by the sentences that say so.
func explanations() map[string]stint.Explanation {
	all := explanationsOfReady()
	maps.Copy(all, explanationsOfHeld())
	maps.Copy(all, explanationsOfOthers())
	return all
}

// explanationsOfReady are those of ready tasks that no limit or pause holds up.
func explanationsOfReady() map[string]stint.Explanation {
	asked := ago(time.Second)
	return map[string]stint.Explanation{
		"Ready: it waits for an actor.": {
			Task: stint.TaskInfo{State: stint.StateReady, Action: "mail"}, AskedAt: asked,
		},
		"Ready, but nobody asks for mail.": {
			Task: stint.TaskInfo{State: stint.StateReady, Action: "mail"},
		},
		"Ready, but nobody has asked for mail for 1h00m.": {
			Task:    stint.TaskInfo{State: stint.StateReady, Action: "mail"},
			AskedAt: ago(time.Hour),
		},
		"Ready: it waits for a free slot.": {
			Task:   stint.TaskInfo{State: stint.StateReady, Action: "mail"},
			Actors: 2, AskedAt: ago(time.Hour),
		},
		"Ready, but its deadline passed 26m ago: it is fetched no more.": {
			Task: stint.TaskInfo{
				State: stint.StateReady, Action: "mail", Deadline: ago(26 * time.Minute),
			},
		},
		"Ready: it waits for an answer from outside.": {
			Task: stint.TaskInfo{State: stint.StateReady, Action: stint.External},
		},
	}
}

// explanationsOfHeld are those of ready tasks whose actions have limits or pauses.
func explanationsOfHeld() map[string]stint.Explanation {
	asked := ago(time.Second)
	return map[string]stint.Explanation{
		"Ready, but the action mail was paused 5m00s ago.": {
			Task:   stint.TaskInfo{State: stint.StateReady, Action: "mail"},
			Limits: &stint.TaskLimits{PausedSince: ago(5 * time.Minute)},
		},
		"Ready, but the key shop-7 was paused 5m00s ago.": {
			Task:   stint.TaskInfo{State: stint.StateReady, Action: "mail", Key: "shop-7"},
			Limits: &stint.TaskLimits{KeyPausedSince: ago(5 * time.Minute)},
		},
		"Ready, but the limit is full: 2 of 2 tasks of mail are in progress.": {
			Task: stint.TaskInfo{State: stint.StateReady, Action: "mail"},
			Limits: &stint.TaskLimits{
				Limits: stint.Limits{Concurrency: 2}, InProgress: 2,
			},
		},
		"Ready, but the rate of mail is used up: the next task may begin in 9s.": {
			Task:   stint.TaskInfo{State: stint.StateReady, Action: "mail"},
			Limits: &stint.TaskLimits{NextAt: in(9 * time.Second)},
		},
		"Ready, but it waits for its turn: that of its key comes after 3 others.": {
			Task:    stint.TaskInfo{State: stint.StateReady, Action: "mail", Key: "a"},
			Limits:  &stint.TaskLimits{WaitsForTurn: true, TurnsAhead: 3},
			AskedAt: asked,
		},
		"Ready, but nobody asks for fair.": { // turns are dealt to those who ask
			Task:   stint.TaskInfo{State: stint.StateReady, Action: "fair", Key: "a"},
			Limits: &stint.TaskLimits{WaitsForTurn: true},
		},
		"Ready, but it waits for its turn.": {
			Task:    stint.TaskInfo{State: stint.StateReady, Action: "mail", Key: "a"},
			Limits:  &stint.TaskLimits{WaitsForTurn: true, Hidden: true},
			AskedAt: asked,
		},
		"Ready, but parked, though nothing holds it up any more.": {
			Task:    stint.TaskInfo{State: stint.StateReady, Action: "mail", Key: "a"},
			Limits:  &stint.TaskLimits{Parked: true},
			AskedAt: asked,
		},
		"Ready: it waits for an actor, or for other tasks of its action, which you may not see.": {
			Task:    stint.TaskInfo{State: stint.StateReady, Action: "mail", Key: "a"},
			Limits:  &stint.TaskLimits{Hidden: true},
			AskedAt: asked,
		},
	}
}

// explanationsOfOthers are those of tasks that are not ready.
func explanationsOfOthers() map[string]stint.Explanation {
	asked := ago(time.Second)
	return map[string]stint.Explanation{
		"Scheduled: it was due 26m ago, and nobody has made it ready yet.": {
			Task: stint.TaskInfo{
				State: stint.StateScheduled, Action: "mail", NotBefore: ago(26 * time.Minute),
			},
		},
		"Blocked: it waits for 2 tasks.": {
			Task: stint.TaskInfo{State: stint.StateBlocked, Action: "mail"}, Missing: 2,
			AskedAt: asked,
		},
		"Scheduled: it begins in 30s.": {
			Task: stint.TaskInfo{
				State: stint.StateScheduled, Action: "mail", NotBefore: in(30 * time.Second),
			},
			AskedAt: asked,
		},
		"In progress: worker-1 has owned it for 10s.": {
			Task: stint.TaskInfo{
				State: stint.StateInProgress, Action: "mail", Actor: "worker-1",
				OwnedAt: ago(10 * time.Second),
			},
		},
		"Completed 3s ago by worker-1.": {
			Task: stint.TaskInfo{
				State: stint.StateCompleted, Actor: "worker-1", FinishedAt: ago(3 * time.Second),
			},
		},
		"Aborted 3s ago: an answer said so.": {
			Task: stint.TaskInfo{
				State: stint.StateAborted, Action: stint.External,
				AbortCause: stint.CauseReturned, FinishedAt: ago(3 * time.Second),
			},
		},
		"Aborted 3s ago: it ran out of tries.": {
			Task: stint.TaskInfo{
				State: stint.StateAborted, AbortCause: stint.CauseTries,
				FinishedAt: ago(3 * time.Second),
			},
		},
	}
}

// The first sentence says why a task does not run, or what became of it.
func TestTask_SaysWhyItDoesNotRun(t *testing.T) {
	t.Parallel()
	for want, e := range explanations() {
		e.Now, e.Task.ID, e.TriesLeft = noon, "a", -1
		h := ui.New(aFake{explain: func(context.Context, stint.TaskID) (stint.Explanation, error) {
			return e, nil
		}}, ui.Options{})
		page := text(t, h, "/task?id=a")
		_, rest, _ := strings.Cut(page, `<p class="headline">`)
		headline, _, _ := strings.Cut(rest, "</p>")
		if got := strings.TrimSpace(parse(t, headline).text); got != want {
			t.Errorf("the first sentence is %q, want %q", got, want)
		}
		_, cause, _ := strings.Cut(strings.TrimSuffix(want, "."), " ago: ")
		if said := e.String(); !strings.Contains(said, cause) { // which the command prints
			t.Errorf("explain says %q, want %q in it", said, cause)
		}
	}
}

// The page of a task says what is left of its budgets, or that they are spent, and what they owe.
func TestTask_SaysWhatIsLeftOfBudgets(t *testing.T) {
	t.Parallel()
	budget := stint.Rate{Tasks: 1000, Per: time.Hour, Burst: 1000}
	for _, test := range []struct {
		limits stint.TaskLimits
		want   string
	}{
		{
			stint.TaskLimits{Tokens: 1234.9, KeyTokens: 39},
			"it waits for an actor. Left of the budget of its action: 1,234." +
				"Left of the budget of its key: 39.",
		},
		{
			stint.TaskLimits{Tokens: -21.5, NextAt: in(time.Minute), KeyTokens: 3},
			"the budget of mail is used up, and owes 21: the next task may begin in 1m00s. " +
				"Left of the budget of its key: 3.",
		},
		{
			stint.TaskLimits{Tokens: 5, KeyTokens: 0.5, KeyNextAt: in(time.Minute)},
			"the budget of its key is used up: the next task with the key k may begin in 1m00s. " +
				"Left of the budget of its action: 5.",
		},
	} {
		test.limits.Limits = stint.Limits{Rate: budget, RatePerKey: budget, ByCost: true}
		h := ui.New(aFake{explain: func(context.Context, stint.TaskID) (stint.Explanation, error) {
			return stint.Explanation{
				Task: stint.TaskInfo{
					ID: "a", State: stint.StateReady, Action: "mail", Key: "k",
				},
				Now: noon, AskedAt: ago(time.Second), TriesLeft: -1, Limits: &test.limits,
			}, nil
		}}, ui.Options{})
		got := strings.Join(strings.Fields(parse(t, text(t, h, "/task?id=a")).text), " ")
		if !strings.Contains(got, test.want) {
			t.Errorf("the page lacks %q:\n%s", test.want, got)
		}
	}
}

// In a copy who asks is refused, so nothing is said of workers and their slots.
func TestTask_BlamesNoWorkerInACopy(t *testing.T) {
	t.Parallel()
	for _, actors := range []int{0, 2} {
		e := stint.Explanation{
			Task: stint.TaskInfo{ID: "a", State: stint.StateReady, Action: "mail"}, Now: noon,
			Copy: "it was restored", Actors: actors, AskedAt: ago(time.Hour), TriesLeft: -1,
		}
		h := ui.New(aFake{explain: func(context.Context, stint.TaskID) (stint.Explanation, error) {
			return e, nil
		}}, ui.Options{})
		page := text(t, h, "/task?id=a")
		wantParts(t, page, "Ready: it waits for an actor.", "until somebody runs stint adopt")
		for _, said := range []string{page, e.String()} {
			if strings.Contains(said, "slot") || strings.Contains(said, "obody has asked") {
				t.Errorf("with %d actors of a copy:\n%s", actors, said)
			}
		}
	}
}

// Proves G232.
func TestTask_ShowsHeadersWhichLeadToTheTasksThatHaveThem(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store,
		stint.Task{ID: "a", Action: "mail", Headers: map[string]string{"tenant": "<acme>"}},
		stint.Task{ID: "b", Action: "mail", Headers: map[string]string{"tenant": "other"}})
	h := ui.New(store, ui.Options{})
	wantParts(t, text(t, h, "/task?id=a"), "Header tenant", "&lt;acme&gt;",
		`href="tasks?header=tenant%3D%3Cacme%3E"`)
	page := text(t, h, "/tasks?header=tenant%3D%3Cacme%3E")
	wantParts(t, page, `href="task?id=a"`, `value="tenant=&lt;acme&gt;"`, "stint ls --header=")
	if strings.Contains(page, `href="task?id=b"`) {
		t.Error("the list has a task with another header")
	}
	if code := get(t, h, "/tasks?header=%00").StatusCode; code != http.StatusBadRequest {
		t.Errorf("a header that cannot be is answered by %d", code)
	}
}

// Whoever looks at the last task of a network learns where it went wrong.
func TestTask_GoesBackToWhereItBegan(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "scan", Action: "scan"},
		stint.Task{ID: "page", Action: "page", After: []stint.TaskID{"scan"}},
		stint.Task{ID: "book", Action: "book", After: []stint.TaskID{"page"}})
	h := ui.New(store, ui.Options{})
	wantParts(t, text(t, h, "/task?id=book"), "In the end it waits for",
		`<li data-key="origin scan">`, "Depends on 1 task", `href="task?id=page"`)
	_, err := store.AbortTasks(t.Context(), []stint.TaskID{"scan"}, "the film is lost")
	wantNil(t, err)
	wantParts(t, text(t, ui.New(store, ui.Options{}), "/task?id=book"), "It began with",
		`<li data-key="origin scan">`, "it was cancelled: the film is lost", "Because of")
}

func TestTask_TellsItsTries(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail", Key: "shop", MaxTries: 2, Priority: 3})
	for try := range 2 {
		owned := own(t, store, "mail")[0]
		verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
			ID: "a", Token: owned.Token, Code: stint.StatusPending,
			Status: fmt.Sprintf("no route, %d", try), Log: "line one\nline two",
		}})
		wantNil(t, errors.Join(append(verdicts, err)...))
	}
	page := text(t, ui.New(store, ui.Options{}), "/task?id=a")
	wantParts(t, page, "it ran out of tries", "no route, 0", "no route, 1", "line one\nline two",
		"2 of 2", "Priority", "stint retry a")
	if strings.Contains(page, "There were more tries") {
		t.Error("the page says that tries are missing")
	}
	if strings.Index(page, "no route, 1</pre>") > strings.Index(page, "no route, 0</pre>") {
		t.Error("the newest try is not the first")
	}
}

func TestTask_OffersCommandsThatAShellTakes(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "-it's; rm -rf /", Action: "mail"})
	page := text(t, ui.New(store, ui.Options{}), "/"+address("task", "-it's; rm -rf /"))
	wantParts(t, page, `stint abort -- &#39;-it&#39;\&#39;&#39;s; rm -rf /&#39;`)
}

// Whoever follows the pages of a list sees each task once.
func TestTasks_GoesOnFromPageToPage(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	const tasks = 120
	var all []stint.Task
	for i := range tasks {
		all = append(all, stint.Task{ID: stint.TaskID(fmt.Sprintf("t/%03d", i)), Action: "mail"})
	}
	insert(t, store, all...)
	h := ui.New(store, ui.Options{})
	for _, first := range []string{
		"tasks", "tasks?prefix=t/", "tasks?state=ready&state=blocked", "tasks?order=newest",
		"tasks?action=mail&age=1h&size=50",
	} {
		seen, pages := map[string]bool{}, 0
		for next := first; next != ""; pages++ {
			found := parse(t, text(t, h, "/"+next))
			next = ""
			for _, link := range found.links {
				at, err := url.Parse(link)
				wantNil(t, err)
				id := at.Query().Get("id")
				switch {
				case at.Path == "task" && seen[id]:
					t.Errorf("%s lists %s twice", first, id)
				case at.Path == "task":
					seen[id] = true
				case at.Query().Get("after") != "":
					next = link
				}
			}
		}
		if len(seen) != tasks || pages != 3 {
			t.Errorf("%s has %d tasks on %d pages", first, len(seen), pages)
		}
	}
}

// A look that the store cut says how far it went.
func TestTasks_SaysHowFarItLooked(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{list: func(context.Context, stint.Filter) (stint.TaskPage, error) {
		return stint.TaskPage{Next: "further", Looked: 10_000}, nil
	}}, ui.Options{})
	wantParts(t, text(t, h, "/tasks?key=rare"), "looked at 10,000 tasks, of which none passes",
		"Look further", "None so far")
}

// Where the store can go straight to some tasks, the page does not have it look through all.
func TestTasks_AsksForWhatItShows(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]stint.Filter{
		"":                      {NewestFirst: true, Limit: 50},
		"state=ready&size=200":  {States: []stint.State{stint.StateReady}, Limit: 200},
		"actor=w&size=50":       {Actor: "w", Limit: 50},
		"prefix=a&order=newest": {IDPrefix: "a", NewestFirst: true, Limit: 50},
		"key=k&age=1d%2B":       {Key: "k", MinAge: 24 * time.Hour, NewestFirst: true, Limit: 50},
		"message=gone":          {Status: "gone", NewestFirst: true, Limit: 50},
		"body=%24.n":            {Body: "$.n", NewestFirst: true, Limit: 50},
		"header=tenant%3Da%3Db": {
			Headers: map[string]string{"tenant": "a=b"}, NewestFirst: true, Limit: 50,
		},
		"state=&age=&size=&action=": {NewestFirst: true, Limit: 50},
	} {
		var got stint.Filter
		note := func(_ context.Context, filter stint.Filter) (stint.TaskPage, error) {
			got = filter
			return stint.TaskPage{}, nil
		}
		h := ui.New(aFake{list: note}, ui.Options{})
		text(t, h, "/tasks?"+query)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q asks for %+v, want %+v", query, got, want)
		}
	}
}
