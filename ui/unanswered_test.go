package ui_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// The tasks that wait for answers are listed page by page, those first that were inserted first,
// and answered from there.
func TestWaiting_ListsTheOldestFirst(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	const n = 120
	var want []string
	for i := range n {
		id := fmt.Sprintf("ask/%d", (i*37)%n) // not in the order of their IDs
		insert(t, store, stint.Task{ID: stint.TaskID(id), Action: stint.External})
		want = append(want, id)
	}
	insert(t, store, stint.Task{ID: "mail", Action: "mail"}, stint.Task{
		ID: "later", Action: stint.External, After: []stint.TaskID{"mail"},
	}, stint.Task{ID: "soon", Action: stint.External, Deadline: time.Now().Add(48 * time.Hour)})
	want = append(want, "soon")
	for name, shown := range stores {
		h := ui.New(shown, open())
		var got []string
		link := regexp.MustCompile(`<td class="id"><a href="task\?id=[^"]*">([^<]*)</a>`)
		next := regexp.MustCompile(`rel="next" href="([^"]*)"`)
		for target := "/waiting"; ; {
			page := text(t, h, target)
			parse(t, page)
			for _, row := range link.FindAllStringSubmatch(page, -1) {
				got = append(got, row[1])
			}
			found := next.FindStringSubmatch(page)
			if found == nil {
				wantParts(t, page, "First page", "in 1d")
				break
			}
			target = "/" + strings.ReplaceAll(found[1], "&amp;", "&")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s lists %q, want %q", name, got, want)
		}
		wantParts(t, text(t, h, "/waiting"), "121 tasks", "1 more</a> waits for other tasks")
		wantParts(t, text(t, h, "/"), "121 tasks wait for an answer", `href="waiting"`)
	}
	h := ui.New(store, open())
	form := formWith(t, text(t, h, "/waiting"), "answer")
	agree(t, h, previewOf(t, h, form), "code", "completed")
	wantStates(t, store, stint.StateCompleted, stint.TaskID(want[0]))
}

// To answer is offered to those who may.
func TestWaiting_OffersAnswersToThoseWhoMay(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, may := range []bool{false, true} {
		h := ui.New(store, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
			return verb == ui.Read || may && verb == ui.Answer
		}})
		if !may {
			insert(t, store, stint.Task{
				ID: "later", Action: stint.External, NotBefore: time.Now().Add(time.Hour),
			})
			wantParts(t, text(t, h, "/waiting"), "Nothing waits for an answer",
				"1 such task</a> waits for other tasks first, or for its time.")
			insert(t, store, stint.Task{ID: "a", Action: stint.External})
			h = ui.New(store, ui.Options{})
		}
		page := text(t, h, "/waiting")
		if got := len(formsOf(t, page)) > 0; got != may {
			t.Errorf("an answer is offered: %t, want %t\n%s", got, may, page)
		}
	}
}
