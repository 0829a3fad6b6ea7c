package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// Where a service grants less, the page says so.
func TestChange_SaysWhatAServiceRefuses(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"})
	h := ui.New(refusing{store}, open())
	page := previewOf(t, h, formWith(t, text(t, h, "/action?name=mail"), "pause"))
	response := send(t, h, agreement(t, page))
	if content := body(t, response); response.StatusCode != http.StatusForbidden ||
		!strings.Contains(content, "You may not do that") {
		t.Errorf("a refused change: %s\n%s", response.Status, content)
	}
}

// refusing is a store that lets nobody pause.
type refusing struct{ *stint.Store }

func (refusing) Pause(context.Context, ...string) error {
	return fmt.Errorf("pause: %w", stint.ErrRefused)
}

// A list that has found nothing so far still offers to change all that pass its filter.
func TestChange_IsOfferedWhereAListWasCut(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	h := ui.New(store, open())
	tasks := []stint.Task{{ID: "first", Action: "mail"}}
	for i := range 10_001 {
		tasks = append(tasks, stint.Task{ID: stint.TaskID(fmt.Sprint(i)), Action: "other"})
	}
	insert(t, store, tasks[0])
	insert(t, store, tasks[1:]...)
	list := text(t, h, "/tasks?action=mail&order=newest")
	wantParts(t, list, "None so far")
	wantParts(t, previewOf(t, h, formWith(t, list, "abort"), "of", "all"), "Aborts 1 task.")
}
