package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// Who has changed a task, and why, is on its page, also when it is gone, and in the list of all.
// Proves G223, G225.
func TestChanges_TellWhoHasChangedWhat(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		options := open()
		options.User = func(*http.Request) string { return "ann <" + name + ">" }
		h := ui.New(shown, options)
		id := stint.TaskID(name + "/a&b")
		insert(t, store, stint.Task{ID: id, Action: name},
			stint.Task{ID: id + "+", Action: name, After: []stint.TaskID{id}})
		change := func(do, reason string) {
			page := text(t, h, "/"+address("task", id))
			agree(t, h, previewOf(t, h, formWith(t, page, do)), "reason", reason)
		}
		change("abort", "no <longer> needed")
		change("retry", "")
		page := text(t, h, "/"+address("task", id))
		wantParts(t, page, "Aborted with 1 other by ann &lt;"+name+"&gt;",
			"no &lt;longer&gt; needed", "Retried with 1 other by ann &lt;"+name+"&gt;")
		if strings.Index(page, "Retried with") > strings.Index(page, "Aborted with") {
			t.Errorf("the newest change is not the first:\n%s", page)
		}
		change("delete", "a mistake")
		response := get(t, h, "/"+address("task", id))
		page = body(t, response)
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("the page of a task that is gone: %s", response.Status)
		}
		wantParts(t, page, "Deleted with 1 other by ann &lt;"+name+"&gt;", ": a mistake")
		list := text(t, h, "/changes")
		wantParts(t, list, "aborted 1 task of "+name, "deleted 1 task of "+name+" and 1 other",
			`href="task?id=`+strings.ReplaceAll(string(id), "/a&b", "%2fa%26b")+`"`,
			"a mistake", "no reason")
		for _, filter := range []string{"?action=" + name, "?id=" + name + "/a%26b"} {
			wantParts(t, text(t, h, "/changes"+filter), "retried 1 task of "+name)
		}
		if other := text(t, h, "/changes?action=other"); !strings.Contains(other, "No changes") {
			t.Errorf("the changes of another action:\n%s", other)
		}
		// A task that has taken the ID since has a life of its own.
		insert(t, store, stint.Task{ID: id, Action: name})
		page = text(t, ui.New(shown, options), "/"+address("task", id))
		if strings.Contains(page, "Deleted with") {
			t.Errorf("the new task shows what became of the old one:\n%s", page)
		}
	}
}

// Proves G225.
func TestChanges_GoFromPageToPage(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	h := ui.New(store, ui.Options{})
	for i := range 130 {
		by := stint.WithAuthor(t.Context(), stint.Author{Name: fmt.Sprintf("author-%03d", i)})
		id := stint.TaskID(fmt.Sprint("t", i))
		insert(t, store, stint.Task{ID: id, Action: "mail"})
		_, err := store.DeleteTasks(by, []stint.TaskID{id})
		wantNil(t, err)
	}
	first := text(t, h, "/changes?action=mail")
	wantParts(t, first, "author-129", "author-030", ">Older</a>")
	_, next, _ := strings.Cut(first, `rel="next" href="`)
	next, _, _ = strings.Cut(next, `"`)
	second := text(t, h, "/"+strings.ReplaceAll(next, "&amp;", "&"))
	wantParts(t, second, "author-029", "author-000", `href="changes?action=mail"`)
	if strings.Contains(second, "author-030") || strings.Contains(second, ">Older</a>") {
		t.Errorf("the second page:\n%s", second)
	}
	response := get(t, h, "/changes?after=x")
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("a bad cursor: %s", response.Status)
	}
	if page := text(t, ui.New(aFake{}, ui.Options{}), "/"); strings.Contains(page, `"changes"`) {
		t.Errorf("a store that lists no changes has a page of them:\n%s", page)
	}
}
