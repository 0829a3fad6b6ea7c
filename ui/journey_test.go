package ui_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// A journey is that of somebody who knows that mails do not go out, and looks for the cause: from
// the overview on, by links of the pages alone.
type journey struct {
	*testing.T

	store *stint.Store
	pages http.Handler
	page  string // where it is
	steps int
}

func newJourney(t *testing.T) *journey {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{
		History: stint.HistoryOptions{Tries: 10}, Maintenance: stint.MaintainNever,
	})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	return &journey{T: t, store: store, pages: ui.New(store, open())}
}

// begin opens the overview.
func (j *journey) begin() {
	j.Helper()
	j.page = text(j.T, j.pages, "/")
}

// follow follows the first link of the page whose address has a part.
func (j *journey) follow(part string) {
	j.Helper()
	for _, link := range parse(j.T, j.page).links {
		if strings.Contains(link, part) {
			j.steps++
			j.page = text(j.T, j.pages, "/"+strings.TrimPrefix(link, "./"))
			return
		}
	}
	j.Fatalf("no link to %q on\n%s", part, j.page)
}

// says checks that the page says something.
func (j *journey) says(parts ...string) {
	j.Helper()
	said := strings.Join(strings.Fields(parse(j.T, j.page).text), " ")
	for _, part := range parts {
		if !strings.Contains(said, part) {
			j.Errorf("the page lacks %q:\n%s", part, said)
		}
	}
}

// mend has the page do something, and agrees to what that would do.
func (j *journey) mend(do string, changed ...string) {
	j.Helper()
	j.steps += 2
	agree(j.T, j.pages, previewOf(j.T, j.pages, formWith(j.T, j.page, do)), changed...)
}

// owned are how many mails a worker gets now.
func (j *journey) owned() int {
	j.Helper()
	return len(own(j.T, j.store, "mail"))
}

// arrived checks that mails go out again, and that it did not take many steps.
func (j *journey) arrived(mails int) {
	j.Helper()
	if n := j.owned(); n != mails {
		j.Errorf("%d mails go out now, want %d", n, mails)
	}
	const most = 6
	if j.steps > most {
		j.Errorf("it took %d pages, want %d at most", j.steps, most)
	}
}

func mail(id stint.TaskID) stint.Task {
	return stint.Task{ID: id, Action: "mail", Key: "shop", MaxTries: 2}
}

func pausedKey(j *journey) {
	insert(j.T, j.store, mail("mail/1"))
	wantNil(j.T, j.store.PauseKeys(j.Context(), "mail", "shop"))
	j.begin()
	j.follow("action?name=mail")
	j.says("Paused key", "shop, ")
	j.follow("tasks?action=mail&key=shop")
	j.follow("task?id=mail")
	j.says("Ready, but the key shop was paused")
	j.follow("action?name=mail")
	j.mend("resume")
	j.arrived(1)
}

func deadAction(j *journey) {
	insert(j.T, j.store, mail("mail/1"))
	j.begin()
	j.follow("action?name=mail")
	j.says("none registered for it")
	j.follow("action=mail&state=ready")
	j.follow("task?id=mail")
	j.says("Ready, but nobody asks for mail", "There is no worker for this action")
	j.arrived(1) // a worker is started
}

func fullLimit(j *journey) {
	insert(j.T, j.store, mail("mail/1"), mail("mail/2"))
	wantNil(j.T, j.store.SetLimits(j.Context(), "mail", stint.Limits{Concurrency: 1}))
	if n := j.owned(); n != 1 {
		j.Fatalf("%d mails are owned", n)
	}
	j.begin()
	j.follow("action?name=mail")
	j.says("1 of 1 full")
	j.follow("state=ready")
	j.follow("task?id=mail")
	j.says("Ready, but the limit is full: 1 of 1 tasks of mail are in progress")
	j.follow("action?name=mail")
	j.mend("limit", "concurrency", "2")
	j.arrived(1)
}

func poisonedTask(j *journey) {
	insert(j.T, j.store, mail("mail/1"))
	for range 2 {
		owned := own(j.T, j.store, "mail")
		verdicts, err := j.store.ReturnTasks(j.Context(), []stint.Return{{
			ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusPending,
			Status: "no route to host",
		}})
		wantNil(j.T, err)
		wantNil(j.T, verdicts[0])
	}
	j.begin()
	j.says("mail: 1 task failed or was given back: “no route to host”")
	j.follow("task?id=mail")
	j.says("Aborted", "no route to host", "2 of 2")
	j.mend("retry")
	j.arrived(1)
}

func failedPredecessor(j *journey) {
	insert(j.T, j.store, stint.Task{ID: "render", Action: "render"},
		stint.Task{ID: "mail/1", Action: "mail", After: []stint.TaskID{"render"}})
	owned := own(j.T, j.store, "render")
	verdicts, err := j.store.ReturnTasks(j.Context(), []stint.Return{{
		ID: "render", Token: owned[0].Token, Code: stint.StatusAborted,
		Status: "the template is gone",
	}})
	wantNil(j.T, err)
	wantNil(j.T, verdicts[0])
	j.begin()
	j.follow("action=mail&state=aborted")
	j.follow("task?id=mail")
	j.says("render", "the template is gone")
	j.follow("task?id=render")
	j.mend("retry")
	wantStates(j.T, j.store, stint.StateBlocked, "mail/1")
	j.arrived(0) // it waits for what is performed again
}

// From the overview to the cause why mails do not go out, and to its mend, it is a few pages.
// Proves G224.
func TestPages_LeadToTheCauseAndItsMend(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, walk := range map[string]func(j *journey){
		"a paused key":         pausedKey,
		"a dead action":        deadAction,
		"a full limit":         fullLimit,
		"a poisoned task":      poisonedTask,
		"a failed predecessor": failedPredecessor,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJourney(t)
			begun := time.Now()
			walk(j)
			t.Logf("%d pages, %v", j.steps, time.Since(begun))
		})
	}
}
