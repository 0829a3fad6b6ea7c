package ui_test

import (
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
	const n = 1100
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint("mail/", i)), Action: "mail"}
	}
	insert(t, store, tasks...)
	fail(t, store, "mail", func(i int) string {
		return fmt.Sprint([]string{"no route to host ", "mailbox full "}[i%2], i)
	})
	for _, shown := range stores {
		h := ui.New(shown, open())
		wantParts(t, text(t, h, "/"), `href="action?name=pay"`, "no group of errors tells")
		problems := text(t, h, "/problems")
		wantParts(t, problems, "Not in these groups", `href="action?name=pay"`, "2 aborted tasks")
		page := text(t, h, "/action?name=pay")
		wantParts(t, page, "the bank")
		wantParts(t, text(t, h, groupLink(t, page, "pay")), "2 tasks", "pay/1", "pay/2", "the bank")
		alike := text(t, h, groupLink(t, problems, "mail"))
		wantParts(t, alike, "500 tasks", "more, among")
		if strings.Contains(alike, "route to host") == strings.Contains(alike, "mailbox full") {
			t.Errorf("the page of a group has tasks of another one:\n%s", alike)
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
		wantParts(t, page, "Retry where it began")
		would := previewOf(t, h, formWith(t, page, "retry"))
		wantParts(t, would, "Retries 2 tasks, and 2 that were aborted because of them.")
		agree(t, h, would)
		wantStates(t, store, stint.StateReady, id("a"), id("b"))
		wantStates(t, store, stint.StateBlocked, id("c"), id("d"))
	}
}
