package ui_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// beginCheck presses the button of the page.
func beginCheck(t *testing.T, h http.Handler) {
	t.Helper()
	forms := formsOf(t, text(t, h, "/check"))
	if len(forms) != 1 {
		t.Fatalf("the page has the forms %v", forms)
	}
	response := send(t, h, forms[0])
	if response.StatusCode != http.StatusSeeOther ||
		response.Header.Get("Location") != "./check" {
		t.Fatalf("the check: %s, to %q", response.Status, response.Header.Get("Location"))
	}
}

// checked waits for what a check says.
func checked(t *testing.T, h http.Handler, said string) string {
	t.Helper()
	var page string
	eventually(t, func() bool {
		page = text(t, h, "/check")
		return strings.Contains(page, said)
	})
	parse(t, page)
	return page
}

// A store and a service are checked when somebody asks for it, and not before.
func TestCheck_LooksWhenAsked(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"})
	for name, shown := range stores {
		h := ui.New(shown, open())
		wantParts(t, text(t, h, "/"), "Nobody has checked the tables", `href="check"`)
		beginCheck(t, h)
		page := checked(t, h, "The last check")
		if name == "store" { // a service looks at its server, too
			wantParts(t, page, "Nothing is wrong.")
			wantParts(t, text(t, h, "/"), "nothing is wrong.")
		}
	}
}

// One check is under way at a time, whoever asks for it and goes; what it found is told with the
// worst first, and leads to the task.
func TestCheck_TellsWhatItFound(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	found := make(chan []ui.Finding)
	h := ui.New(aFake{stats: func(context.Context) (stint.Stats, error) {
		return stint.Stats{Actions: []stint.ActionStats{{Action: "mail", Ready: 7}}}, nil
	}}, ui.Options{Check: func(context.Context) ([]ui.Finding, error) {
		asked.Add(1)
		return <-found, nil
	}})
	beginCheck(t, h)
	wantParts(t, text(t, h, "/check"), "has been under way")
	wantParts(t, text(t, h, "/"), "A check of the tables is under way")
	if forms := formsOf(t, text(t, h, "/check")); len(forms) > 0 {
		t.Errorf("another check is offered: %v", forms)
	}
	response := post(t, h, "/begin-check", "") // by somebody who has an older page
	if response.StatusCode != http.StatusSeeOther {
		t.Errorf("a second one: %s", response.Status)
	}
	found <- []ui.Finding{
		{Severity: "note", Topic: "server", Text: "it is small"},
		{Severity: "error", Topic: "consistency", Text: "<b>lost</b>", ID: "a/b"},
	}
	page := checked(t, h, "1 error and 0 warnings")
	wantParts(t, page, "&lt;b&gt;lost", `href="task?id=a%2fb"`)
	if strings.Index(page, "it is small") < strings.Index(page, "lost") {
		t.Errorf("the note comes first:\n%s", page)
	}
	wantParts(t, text(t, h, "/"), "it found 1 error and 0 warnings")
	if n := asked.Load(); n != 1 {
		t.Errorf("the store was checked %d times", n)
	}
}

// A check that fails, or panics, says no more than that, and another one may be begun.
func TestCheck_SaysThatItFailed(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("dial secret-host") },
		"panic": func() error { panic("secret-host") },
	} {
		h := ui.New(aFake{}, ui.Options{
			Logger: slog.New(slog.DiscardHandler),
			Check:  func(context.Context) ([]ui.Finding, error) { return nil, fail() },
		})
		beginCheck(t, h)
		page := checked(t, h, "did not get to the end")
		if strings.Contains(page, "secret-host") || strings.Contains(page, "Nothing is wrong") {
			t.Errorf("%s: the page says\n%s", name, page)
		}
		beginCheck(t, h)
	}
}

// Whoever may not have the store checked sees nothing of it.
func TestCheck_IsForThoseWhoMay(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{}, ui.Options{
		Authorize: func(_ *http.Request, verb ui.Verb) bool { return verb == ui.Read },
		Check: func(context.Context) ([]ui.Finding, error) {
			t.Error("the store is checked")
			return nil, nil
		},
	})
	if page := text(t, h, "/"); strings.Contains(page, `href="check"`) {
		t.Errorf("the overview leads to the check:\n%s", page)
	}
	for _, response := range []*http.Response{
		get(t, h, "/check"), post(t, h, "/begin-check", ""),
		get(t, h, "/begin-check"),
	} {
		if response.StatusCode != http.StatusForbidden &&
			response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("the check: %s", response.Status)
		}
	}
	response := post(t, ui.New(newStore(t), open()), "/begin-check", "",
		"Sec-Fetch-Site", "cross-site")
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("another site begins a check: %s", response.Status)
	}
}
