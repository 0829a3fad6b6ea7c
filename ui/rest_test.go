package ui_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// The form with which the script goes on is one that the pages take, and asks for the same change.
func TestPreview_AsksForTheRest(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	h := ui.New(store, open())
	var tasks []stint.Task
	for i := range 10_250 {
		tasks = append(tasks, stint.Task{
			ID: stint.TaskID(fmt.Sprint("t/", i)), Action: "mail",
			NotBefore: time.Now().Add(time.Hour),
		})
	}
	insert(t, store, tasks...)
	for _, one := range []struct{ do, list, said string }{
		{"abort", "/tasks?action=mail", "Aborts 10,000 tasks."}, // nothing was changed: the same
		{"abort", "/tasks", "Aborts 10,000 tasks."},
		{"run", "/tasks?action=mail&state=scheduled", "Starts 250 tasks."},
		{"change", "/tasks", "Changes 250 tasks."},
	} {
		page := previewOf(t, h, formWith(t, text(t, h, one.list), one.do), "of", "all")
		if one.do == "change" {
			page = previewOf(t, h, asking(t, page), "set-priority", "5", "set-max-tries", "7",
				"set-key", "shop")
			wantParts(t, page, "Their priority is 5.", "7 times at most", "Their key is shop.")
		}
		rest := previewOf(t, h, asking(t, page))
		wantParts(t, rest, one.said)
		if one.do == "change" {
			wantParts(t, rest, "Their priority is 5.", "7 times at most", "Their key is shop.")
		}
	}
}
