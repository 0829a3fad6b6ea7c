package ui_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// limitsOf are the limits and pauses of an action.
func limitsOf(t *testing.T, store *stint.Store, action string) stint.ActionLimits {
	t.Helper()
	found, err := store.ListLimits(t.Context(), action)
	wantNil(t, err)
	if len(found) == 0 {
		return stint.ActionLimits{}
	}
	return found[0]
}

func TestChange_PausesAndResumes(t *testing.T) {
	t.Parallel()
	store, stores := bothStores(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail", Key: "k"},
		stint.Task{ID: "b", Action: "mail"})
	for _, shown := range stores {
		h := ui.New(shown, open())
		press := func(page, do string, changed ...string) string {
			t.Helper()
			before := limitsOf(t, store, "mail")
			would := previewOf(t, h, formWith(t, text(t, h, page), do), changed...)
			after := limitsOf(t, store, "mail")
			if len(after.PausedKeys) != len(before.PausedKeys) ||
				after.PausedSince != before.PausedSince {
				t.Errorf("the preview of %s has changed something", do)
			}
			return agree(t, h, would)
		}
		wantParts(t, press("/action?name=mail", "pause"), "Paused the action")
		if limitsOf(t, store, "mail").PausedSince.IsZero() {
			t.Error("the action is not paused")
		}
		wantParts(t, press("/task?id=b", "resume"), "Resumed the action")
		if !limitsOf(t, store, "mail").PausedSince.IsZero() {
			t.Error("the action is still paused")
		}
		forms := formsOf(t, text(t, h, "/action?name=mail"))
		i := slices.IndexFunc(forms, func(f sentForm) bool { return f.names["typed"] != "" })
		forms[i].values.Set("do", "pause")
		agree(t, h, previewOf(t, h, forms[i], "typed", "k"))
		if _, ok := limitsOf(t, store, "mail").PausedKeys["k"]; !ok {
			t.Error("the key is not paused")
		}
		wantParts(t, press("/limits", "resume"), "Resumed the key k of")
		if len(limitsOf(t, store, "mail").PausedKeys) > 0 {
			t.Error("the key is still paused")
		}
	}
}

// Limits are set as the form says; what the store refuses is said in the form, and what somebody
// else has set meanwhile stays.
func TestChange_SetsLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"})
	for _, shown := range stores {
		wantNil(t, store.SetLimits(t.Context(), "mail", stint.Limits{
			Concurrency: 3, RatePerKey: stint.Rate{Tasks: 5, Per: 15 * time.Minute},
		}))
		h := ui.New(shown, open())
		page := previewOf(t, h, formWith(t, text(t, h, "/action?name=mail"), "limit"))
		wantParts(t, page, `name="concurrency" value="3"`, `value="15m0s" selected`,
			"In progress now: 0")
		for name, wrong := range map[string][2]string{
			"no number": {"concurrency", "many"}, "a negative one": {"rate", "-1"},
			"more than allowed": {"per-key", "1001"}, "a burst alone": {"burst", "5"},
			"no time": {"rate-per", "soon"},
		} {
			response := send(t, h, agreement(t, page), wrong[0], wrong[1], "reason", "too many")
			if content := body(t, response); response.StatusCode != http.StatusBadRequest ||
				!strings.Contains(content, `role="alert"`) ||
				!strings.Contains(content, `value="too many"`) ||
				!strings.Contains(content, `name="`+wrong[0]) {
				t.Errorf("%s: %s\n%s", name, response.Status, content)
			}
		}
		form := agreement(t, page)
		wantParts(t, agree(t, h, page, "concurrency", "40", "rate", "100", "rate-per", "1m0s",
			"burst", "7", "fair", "true", "fair-group", "tenants"), "Set the limits of")
		want := stint.Limits{
			Concurrency: 40, Fair: true, FairGroup: "tenants",
			Rate:       stint.Rate{Tasks: 100, Per: time.Minute, Burst: 7},
			RatePerKey: stint.Rate{Tasks: 5, Per: 15 * time.Minute, Burst: 1},
		}
		if got := limitsOf(t, store, "mail").Limits; got != want {
			t.Errorf("the limits are %+v, want %+v", got, want)
		}
		response := send(t, h, form, "concurrency", "50")
		if content := body(t, response); response.StatusCode != http.StatusConflict ||
			!strings.Contains(content, "Somebody has changed") {
			t.Errorf("limits that were changed meanwhile: %s\n%s", response.Status, content)
		}
		if got := limitsOf(t, store, "mail").Limits; got != want {
			t.Errorf("the limits are %+v, want %+v", got, want)
		}
		page = previewOf(t, h, formWith(t, text(t, h, "/action?name=mail"), "limit"))
		wantParts(t, agree(t, h, page, "fair", "", "fair-group", "",
			"ordered", "true", "by-cost", "true"), "Set the limits of")
		want.Fair, want.FairGroup, want.Ordered, want.ConcurrencyPerKey = false, "", true, 1
		want.ByCost = true
		if got := limitsOf(t, store, "mail").Limits; got != want {
			t.Errorf("the limits are %+v, want %+v", got, want)
		}
		page = previewOf(t, h, formWith(t, text(t, h, "/action?name=mail"), "limit"))
		wantParts(t, agree(t, h, page, "burst", ""), "Set the limits of")
		want.Rate.Burst = 1 // of 100 a minute
		if got := limitsOf(t, store, "mail").Limits; got != want {
			t.Errorf("without a burst the limits are %+v, want %+v", got, want)
		}
		wantParts(t, text(t, h, "/action?name=mail"), "tasks of a key one at a time")
		wantParts(t, text(t, h, "/action?name=mail"), "count what tasks cost")
		wantParts(t, text(t, h, "/limits"), "ordered", "by cost")
	}
}

// Limits that hold tasks up are set once somebody was told how many, and others at once.
func TestChange_TellsWhatLimitsHoldUp(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		var tasks []stint.Task
		for i := range 203 {
			tasks = append(tasks, stint.Task{
				ID: stint.TaskID(fmt.Sprint(name, i)), Action: name,
			})
		}
		insert(t, store, tasks...)
		_, err := store.OwnTasks(t.Context(), "worker-1", 3, []string{name}, time.Hour)
		wantNil(t, err)
		set := func(changed ...string) *http.Response {
			t.Helper()
			return send(t, h, agreement(t, previewOf(t, h, formWith(t,
				text(t, h, "/action?name="+name), "limit"))), changed...)
		}
		told := func(response *http.Response, want ...string) string {
			t.Helper()
			page := body(t, response)
			wantParts(t, page, append(want, `value="of it"`)...)
			if got := limitsOf(t, store, name).Limits; response.StatusCode != http.StatusOK ||
				got != (stint.Limits{}) {
				t.Errorf("%s: %s, and the limits are %+v", name, response.Status, got)
			}
			return page
		}
		page := told(set("concurrency", "2", "rate", "1", "reason", "of it"),
			"3 tasks are in progress, and 2 may be: none is fetched until 2 of these have ended.",
			"At this rate, the 200 tasks that are ready take 3m20s.")
		told(set("concurrency", "3", "reason", "of it"),
			"and 3 may be: none is fetched until 1 of these has ended.")
		told(set("rate", "1", "rate-per", "8784h", "reason", "of it"), "take more than 10y.")
		page = told(send(t, h, agreement(t, page), "concurrency", "1"), // which nobody was told of
			"and 1 may be: none is fetched until 3 of these have ended.")
		agree(t, h, page)
		if got := limitsOf(t, store, name).Limits; got.Concurrency != 1 || got.Rate.Tasks != 1 {
			t.Errorf("%s: the limits are %+v", name, got)
		}
		if got := set("concurrency", "2", "rate", "2"); got.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: limits that hold up less: %s\n%s", name, got.Status, body(t, got))
		}
	}
}

// A schedule that is triggered by a form twice, even at once, inserts its tasks once.
// Proves G221.
func TestChange_TriggersOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"})
	const name = "every night/<b>"
	wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{{
		Name: name, Spec: "0 3 * * *", Tasks: []stint.Task{
			{ID: "1", Action: "report"}, {ID: "2", Action: "mail"},
		},
	}}))
	inserted := func() int {
		found, err := store.ListTasks(t.Context(), stint.Filter{IDPrefix: name + "/"})
		wantNil(t, err)
		return len(found.Tasks)
	}
	for _, shown := range stores {
		h := ui.New(shown, open())
		before := inserted()
		page := previewOf(t, h, formWith(t, text(t, h, "/schedules"), "trigger"))
		wantParts(t, page, "Inserts 2 tasks now", "report, mail")
		form := agreement(t, page)
		var clicking sync.WaitGroup
		codes := make(chan int, 2)
		for range cap(codes) {
			clicking.Go(func() { codes <- post(t, h, "/change", form.values.Encode()).StatusCode })
		}
		clicking.Wait()
		if a, b := <-codes, <-codes; a+b != http.StatusSeeOther+http.StatusConflict {
			t.Errorf("two clicks: %d and %d", a, b)
		}
		if n := inserted() - before; n != 2 {
			t.Errorf("%d tasks were inserted", n)
		}
		agree(t, h, previewOf(t, h, formWith(t, text(t, h, "/schedules"), "trigger")))
		if n := inserted() - before; n != 4 {
			t.Errorf("%d tasks were inserted after somebody agreed anew", n)
		}
		agree(t, h, previewOf(t, h, formWith(t, text(t, h, "/schedules"), "pause")))
		wantParts(t, agree(t, h, previewOf(t, h, formWith(t, text(t, h, "/schedules"), "resume"))),
			"Resumed the schedule")
	}
}

// A task is answered once, with what becomes of the others said before.
func TestChange_Answers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const secret = "a-key-of-16-bytes"
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		id := stint.TaskID(name)
		insert(t, store, stint.Task{ID: id, Action: stint.External, AnswerKey: secret},
			stint.Task{ID: id + "+", Action: "mail", After: []stint.TaskID{id}},
			stint.Task{ID: id + "++", Action: "mail", After: []stint.TaskID{id + "+"}})
		page := previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id)), "answer"))
		wantParts(t, page, "If it is aborted, so are 2 tasks behind it.")
		form := agreement(t, page)
		for _, test := range []struct{ name, code, key, says string }{
			{"no code", "", secret, "Choose whether"},
			{"another key", "completed", "guess", "not the key of the task"},
		} {
			response := send(t, h, form, "code", test.code, "answer-key", test.key)
			if content := body(t, response); response.StatusCode < http.StatusBadRequest ||
				response.StatusCode >= http.StatusInternalServerError ||
				!strings.Contains(content, test.says) {
				t.Errorf("%s: %s\n%s", test.name, response.Status, content)
			}
			wantStates(t, store, stint.StateReady, id)
		}
		wantParts(t, agree(t, h, page, "code", "aborted", "answer-key", secret), "is answered")
		wantStates(t, store, stint.StateAborted, id, id+"+", id+"++")
		response := send(t, h, form, "code", "completed")
		if content := body(t, response); response.StatusCode != http.StatusConflict ||
			!strings.Contains(content, "has ended or changed") {
			t.Errorf("a second answer: %s\n%s", response.Status, content)
		}
		if page := text(t, h, "/"+address("task", id)); strings.Contains(page, `value="answer"`) {
			t.Errorf("an answered task is offered to be answered")
		}
	}
}
