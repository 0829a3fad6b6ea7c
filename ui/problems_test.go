package ui_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// fail has the owner of all tasks of an action return them as aborted, with what is said of each.
func fail(t *testing.T, store *stint.Store, action string, said func(i int) string) {
	t.Helper()
	for n := 0; ; {
		owned := own(t, store, action)
		if len(owned) == 0 {
			return
		}
		var returns []stint.Return
		for _, task := range owned {
			returns = append(returns, stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusAborted, Status: said(n),
			})
			n++
		}
		verdicts, err := store.ReturnTasks(t.Context(), returns)
		wantNil(t, err)
		for _, verdict := range verdicts {
			wantNil(t, verdict)
		}
	}
}

// However often tasks of one action fail, the pages tell of the failures of another one, and each
// number of a group of errors leads to its tasks.
//
// Proves G314.
func TestProblems_HideNoAction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	insert(t, store, stint.Task{ID: "pay/1", Action: "pay"}, stint.Task{ID: "pay/2", Action: "pay"})
	fail(t, store, "pay", func(i int) string { return fmt.Sprint("the bank ", i, " is away") })
	for name, shown := range stores {
		h := ui.New(shown, open())
		for _, page := range []string{"/", "/problems", "/action?name=pay"} {
			wantParts(t, text(t, h, page), "the bank")
		}
		wantParts(t, text(t, h, groupLink(t, text(t, h, "/problems"), "pay")), "2 tasks", "pay/1",
			"pay/2")
		if name == "" {
			t.Error("a store has no name")
		}
	}
	failMails(t, store, "first", 1100)
	for _, shown := range stores {
		wantParts(t, text(t, ui.New(shown, open()), "/problems"), "the bank", "550",
			"Of all tasks that failed and are kept")
	}
	wantHiddenNamed(t)
}

// wantHiddenNamed checks that an action of which no group of errors tells is named, and leads to
// its errors.
func wantHiddenNamed(t *testing.T) {
	t.Helper()
	failed := stint.TaskInfo{
		ID: "pay/1", Action: "pay", State: stint.StateAborted, AbortCause: stint.CauseReturned,
		Status: "the bank 7 is away",
	}
	h := ui.New(aFake{
		problems: func(context.Context, int) (stint.Problems, error) {
			return stint.Problems{ErrorsCut: true, Errors: []stint.ErrorGroup{
				{Action: "mail", Tasks: 10_000, Error: "mailbox full", Example: "mail/7"},
			}}, nil
		},
		stats: func(context.Context) (stint.Stats, error) {
			return stint.Stats{Actions: []stint.ActionStats{
				{Action: "mail", Aborted: 12_000}, {Action: "pay", Aborted: 2},
			}}, nil
		},
		list: func(context.Context, stint.Filter) (stint.TaskPage, error) {
			return stint.TaskPage{Tasks: []stint.TaskInfo{failed, failed}, Looked: 2}, nil
		},
	}, open())
	wantParts(t, text(t, h, "/"), `href="action?name=pay"`, "no group of errors tells")
	wantParts(t, text(t, h, "/problems"), "Not in these groups", `href="action?name=pay"`,
		"2 aborted tasks", "Of the last 10,000 tasks that failed")
	wantParts(t, text(t, h, "/action?name=mail"), "Of the last 10,000 tasks that failed at most")
	page := text(t, h, "/action?name=pay")
	wantParts(t, page, "the bank", "Of its last 1,000 aborted tasks at most.")
	wantParts(t, text(t, h, groupLink(t, page, "pay")), "2 tasks", "pay/1", "the bank")
}

// Tasks may have failed though nobody said why.
func TestProblems_OfFailuresWithoutAWordAreNotDenied(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{problems: func(context.Context, int) (stint.Problems, error) {
		return stint.Problems{Failed: []stint.TaskInfo{{ID: "a", State: stint.StateAborted}}}, nil
	}}, ui.Options{})
	page := text(t, h, "/problems")
	wantParts(t, page, "Nobody said why tasks failed.", "Failed last")
	if strings.Contains(page, "No task has failed.") {
		t.Errorf("no task has failed, says\n%s", page)
	}
}

// failMails has so many tasks fail with one of two errors.
func failMails(t *testing.T, store *stint.Store, name string, n int) {
	t.Helper()
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint(name, "/", i)), Action: "mail"}
	}
	insert(t, store, tasks...)
	fail(t, store, "mail", func(i int) string {
		return fmt.Sprintf([]string{"no route to host %d", "mailbox 'box %d' is full"}[i%2], i)
	})
}

// A group of errors leads to all its tasks, a part on each page, which says how far it looked, and
// offers to retry these.
//
// Proves G341.
func TestAlike_LeadsToAllTasksOfAGroup(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	const n = 1100
	failMails(t, store, "m", n)
	for name, shown := range stores {
		h := ui.New(shown, open())
		at := groupLink(t, text(t, h, "/problems"), "mail")
		page, found := text(t, h, at), map[string]bool{}
		said, other := "no route to host", "mailbox"
		if !strings.Contains(page, said) {
			said, other = other, said
		}
		would := previewOf(t, h, formWith(t, page, "retry"))
		wantParts(t, would, "Retries 250 tasks")
		for pages := 1; ; pages++ {
			if strings.Contains(page, other) {
				t.Fatalf("%s: the page of %q has tasks of another group:\n%s", name, said, page)
			}
			wantParts(t, page, "550 tasks", "aborted tasks looked through", "Retry these")
			further := ""
			for _, to := range parse(t, page).links {
				link, err := url.Parse(to)
				switch {
				case err != nil:
				case link.Path == "task":
					found[link.Query().Get("id")] = true
				case link.Path == "alike":
					further = "/" + to
				}
			}
			if further == "" {
				wantParts(t, page, "which are the rest")
				break
			}
			if pages > n {
				t.Fatalf("%s: there is no end of pages", name)
			}
			wantParts(t, page, "Look further back")
			page = text(t, h, further)
		}
		if len(found) != n/2 {
			t.Errorf("%s: the pages of a group lead to %d tasks, want %d", name, len(found), n/2)
		}
	}
}

// groupLink is where the number of the first group of errors of an action leads.
func groupLink(t *testing.T, page, action string) string {
	t.Helper()
	for _, to := range parse(t, page).links {
		at, err := url.Parse(to)
		if err == nil && at.Path == "alike" && at.Query().Get("action") == action {
			return "/" + to
		}
	}
	t.Fatalf("no group of errors of %s has a link on\n%s", action, page)
	return ""
}

// The page of a task that was aborted because of others offers to retry these, with which it is
// opened.
//
// Proves G314.
func TestRetry_BeginsWhereItBegan(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		id := func(short string) stint.TaskID { return stint.TaskID(name + "/" + short) }
		insert(t, store, stint.Task{ID: id("a"), Action: name},
			stint.Task{ID: id("b"), Action: name},
			stint.Task{ID: id("c"), Action: "x", After: []stint.TaskID{id("a"), id("b")}},
			stint.Task{ID: id("d"), Action: "x", After: []stint.TaskID{id("c")}})
		fail(t, store, name, func(int) string { return "no" })
		wantStates(t, store, stint.StateAborted, id("a"), id("b"), id("c"), id("d"))
		h := ui.New(shown, open())
		page := text(t, h, "/"+address("task", id("d")))
		wantParts(t, page, "Retry where it began",
			">stint retry "+string(id("a"))+" "+string(id("b"))+"<")
		would := previewOf(t, h, formWith(t, page, "retry"))
		wantParts(t, would, "Retries 2 tasks, and 2 that were aborted or skipped because of them.")
		agree(t, h, would)
		wantStates(t, store, stint.StateReady, id("a"), id("b"))
		wantStates(t, store, stint.StateBlocked, id("c"), id("d"))
	}
}
