package ui_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// aChange is a way to change something: the button of a page, what is said on the page with the
// form of how, if there is one, and what is said by whoever agrees.
type aChange struct {
	page, do    string
	says, agree []string
}

func someChanges() []aChange {
	return []aChange{
		{page: "/task?id=a", do: "abort"},
		{page: "/task?id=a", do: "delete"},
		{page: "/task?id=failed", do: "retry"},
		{page: "/task?id=later", do: "run"},
		{page: "/task?id=a", do: "change", says: []string{"set-priority", "3"}},
		{page: "/tasks?prefix=later", do: "change", says: []string{"set-priority", "3"}},
		{page: "/tasks?prefix=a", do: "abort"},
		{page: "/action?name=mail", do: "pause"},
		{page: "/action?name=sms", do: "resume"},
		{page: "/action?name=mail", do: "limit", agree: []string{"concurrency", "9"}},
		{page: "/schedules", do: "trigger"},
		{page: "/schedules", do: "delete-schedule"},
		{page: "/schedules", do: "new-schedule", says: []string{
			"new-name", "hourly", "new-action", "mail", "spec", "@hourly",
		}},
		{page: "/task?id=ask", do: "answer", agree: []string{"code", "completed"}},
	}
}

// Each form is refused that lacks a field or has another one: the page names it, and nothing was
// changed.
//
// Proves G310.
func TestForms_RefuseOtherFieldsByName(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"}, stint.Task{ID: "failed", Action: "f"},
		stint.Task{ID: "later", Action: "mail", NotBefore: soon()},
		stint.Task{ID: "ask", Action: stint.External})
	_, err := store.AbortTasks(t.Context(), []stint.TaskID{"failed"}, "")
	wantNil(t, err)
	wantNil(t, store.Pause(t.Context(), "sms"))
	wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{
		{Name: "nightly", Spec: "0 3 * * *", Tasks: []stint.Task{{Action: "report"}}},
	}))
	h := ui.New(store, open())
	for _, c := range someChanges() {
		form := formWith(t, text(t, h, c.page), c.do)
		if form.names["of"] != "" {
			form.values.Set("of", "all")
		}
		wantFieldsGuarded(t, h, c, form)
		page := previewOf(t, h, form)
		if c.says != nil {
			form := asking(t, page)
			wantFieldsGuarded(t, h, c, form)
			page = body(t, send(t, h, form, c.says...))
		}
		form = agreement(t, page)
		for i := 0; i < len(c.agree); i += 2 {
			form.values.Set(c.agree[i], c.agree[i+1])
		}
		wantFieldsGuarded(t, h, c, form)
	}
	wantStates(t, store, stint.StateReady, "a", "ask")
	wantStates(t, store, stint.StateAborted, "failed")
	wantStates(t, store, stint.StateScheduled, "later")
	for _, query := range []string{
		"/tasks?colour=red", "/tasks?status=ready", "/changes?colour=red",
		"/tasks?action=a&action=b", "/tasks?state=redy", "/tasks?age=2d", "/tasks?order=oldest",
		"/tasks?size=7", "/tasks?header=tenant",
	} {
		response := get(t, h, query)
		name, value, _ := strings.Cut(query[strings.Index(query, "?")+1:], "=")
		said := body(t, response)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(said, name) {
			t.Errorf("%s: %s does not refuse %s of %s", query, response.Status, value, name)
		}
	}
	filter := formWith(t, text(t, h, "/tasks?action=mail"), "abort")
	filter.values.Set("of", "all")
	for _, wrong := range []string{"colour=red", "state=redy", "action=mail&action=sms"} {
		filter.values.Set("filter", wrong)
		if got := send(t, h, filter).StatusCode; got != http.StatusBadRequest {
			t.Errorf("a form with the filter %q: %d", wrong, got)
		}
	}
}

// wantFieldsGuarded checks that a form is taken as it is, and refused with another field, with one
// more than once, and without any of those that it always has.
func wantFieldsGuarded(t *testing.T, h http.Handler, c aChange, form sentForm) {
	t.Helper()
	try := func(what, name string, edit func(url.Values)) {
		values := maps.Clone(form.values)
		edit(values)
		response := post(t, h, "/"+form.action, values.Encode())
		said := body(t, response)
		_, said, _ = strings.Cut(said, `<main`)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(said, name) ||
			!strings.Contains(said, "Nothing was changed") {
			t.Errorf("%s of %s: %s with %s: %s\n%s", c.do, c.page, form.action, what,
				response.Status, said)
		}
	}
	for _, other := range []string{"priority", "colour", "<b>"} {
		try("the field "+other, strings.Trim(other, "<>"), func(v url.Values) { v.Set(other, "7") })
	}
	for name, kind := range form.names {
		if kind == "checkbox" || kind == "radio" {
			continue
		}
		if name != "task" {
			try("two of "+name, name, func(v url.Values) { v[name] = slices.Repeat(v[name], 2) })
		}
		if name != "of" && name != "typed" { // what is said then is no part of the form
			try("no "+name, name, func(v url.Values) { v.Del(name) })
		}
	}
}

func soon() time.Time { return time.Now().Add(time.Hour) }
