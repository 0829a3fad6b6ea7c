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
	"github.com/stint-tasks/stint/shards"
	"github.com/stint-tasks/stint/ui"
)

var _ ui.Store = (*shards.Merged)(nil)

// A sharding are the shards eu and us.
type sharding struct {
	eu, us *stint.Store
	away   atomic.Bool // us cannot be reached by clusters that have not reached it yet
}

func newSharding(t *testing.T) *sharding {
	t.Helper()
	return &sharding{eu: newStore(t), us: newStore(t)}
}

// A part is the store of a shard, which its cluster does not close.
type part struct{ *stint.Store }

func (part) Close(context.Context) error { return nil }

// cluster returns a cluster of the shards.
func (s *sharding) cluster(t *testing.T) *shards.Cluster {
	t.Helper()
	topology, err := shards.Static(map[string]string{
		"eu": "postgres://secret-host/eu", "us": "postgres://secret-host/us",
	})
	wantNil(t, err)
	c, err := shards.New(topology, shards.Options{
		Logger: slog.New(slog.DiscardHandler),
		Connect: func(_ context.Context, shard, url string) (shards.Store, error) {
			switch {
			case shard == "eu":
				return part{s.eu}, nil
			case s.away.Load():
				return nil, errors.New("dial " + url + ": connection refused")
			}
			return part{s.us}, nil
		},
	})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, c.Close(context.WithoutCancel(t.Context()))) })
	return c
}

// pages are pages that show all shards.
func (s *sharding) pages(t *testing.T, options ui.Options) http.Handler {
	t.Helper()
	return ui.New(s.cluster(t).Merged(), options)
}

// insert inserts eu/save, us/mail behind it, and eu/log behind that one; and eu/mail and us/mail/2.
func (s *sharding) insert(t *testing.T) {
	t.Helper()
	task := func(shard, id, action string, after ...shards.ID) shards.Task {
		return shards.Task{
			Shard: shard, Task: stint.Task{ID: stint.TaskID(id), Action: action}, After: after,
		}
	}
	wantNil(t, s.cluster(t).InsertTasks(t.Context(), []shards.Task{
		task("eu", "save", "save"),
		task("us", "mail", "mail", shards.ID{Shard: "eu", Task: "save"}),
		task("eu", "log", "log", shards.ID{Shard: "us", Task: "mail"}),
		task("eu", "mail", "mail"), task("us", "mail/2", "mail"),
	}))
}

// inFolder are the pages of a folder.
func inFolder(h http.Handler, folder string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = folder + r.URL.Path
		h.ServeHTTP(w, r)
	})
}

// All shards are one store to whoever looks, and each has pages of its own besides.
func TestShards_AreShownTogether(t *testing.T) {
	t.Parallel()
	s := newSharding(t)
	s.insert(t)
	insert(t, s.us, stint.Task{ID: "approve", Action: stint.External})
	wantNil(t, s.us.Pause(t.Context(), "mail"))
	h := s.pages(t, open())
	for target, parts := range map[string][]string{
		"/shards":                {`href="shard/eu/"`, `href="shard/us/"`, "1 action paused"},
		"/":                      {"us: ", `href="shard/us/action?name=mail"`, `href="shards"`},
		"/tasks?action=mail":     {"eu/mail", "us/mail", "us/mail/2"},
		"/tasks?prefix=us%2F":    {"us/mail/2"},
		"/task?id=us%2Fmail":     {"eu/save", "eu/log", `href="shard/us/task?id=mail"`},
		"/network?id=eu%2Flog":   {"us/mail", "eu/save"},
		"/action?name=mail":      {"Paused on", `href="shard/us/action?name=mail"`},
		"/waiting":               {"us/approve", `by the end of <a href="task?id=eu%2Fsave">`},
		"/shard/eu/":             {"Stint, eu", `href="../../shards"`},
		"/shard/us/task?id=mail": {"stint.remote/eu/save", `"../../task?id=us%2Fmail"`},
		"/shard/us/limits":       {"mail"},
		"/shard/us/schedules":    {"No schedules"},
		"/shard/us/check":        {"Check now"},
	} {
		page := text(t, h, target)
		wantParts(t, page, parts...)
		parse(t, page)
	}
	if page := text(t, h, "/shard/eu/tasks"); strings.Contains(page, ">mail/2<") {
		t.Errorf("the pages of a shard show tasks of another:\n%s", page)
	}
	// A command would mean a task of that name on some shard, or be refused with a filter.
	form := formWith(t, text(t, h, "/tasks?action=mail"), "abort")
	silent := []string{previewOf(t, h, form, "of", "all")}
	for _, target := range []string{"task?id=mail", "tasks?action=mail", "check"} {
		silent = append(silent, text(t, h, "/shard/us/"+target))
	}
	for _, page := range silent {
		if strings.Contains(page, "in a terminal") || strings.Contains(page, "The command") {
			t.Errorf("the page names a command:\n%s", page)
		}
	}
	for _, target := range []string{
		"/shard/asia/", "/shard/asia/tasks", "/shard/eu", "/shard/%20/tasks", "/shard/../tasks",
	} {
		if response := get(t, h, target); response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", target, response.Status)
		}
	}
	if response := get(t, h, "/limits"); response.StatusCode != http.StatusNotFound {
		t.Errorf("limits of all shards: %s", response.Status)
	}
}

// Counts of an action are those of all shards.
func TestShards_AreCountedTogether(t *testing.T) {
	t.Parallel()
	s := newSharding(t)
	s.insert(t)
	stats, err := s.cluster(t).Merged().Stats(t.Context())
	wantNil(t, err)
	for _, a := range stats.Actions {
		if a.Action == "mail" && (a.Ready != 2 || a.Blocked != 1) {
			t.Errorf("of mail there are %+v", a)
		}
	}
}

// A shard that is away is named, on each page that lacks its tasks, and the others are shown. Where
// its database is, nobody learns from a page.
func TestShards_OneThatIsAwayIsNamed(t *testing.T) {
	t.Parallel()
	s := newSharding(t)
	s.insert(t)
	s.away.Store(true)
	h := s.pages(t, open())
	for target, part := range map[string]string{
		"/shards": "it cannot be reached", "/": "save", "/tasks": "eu/save",
		"/problems": "Problems",
	} {
		page := text(t, h, target)
		wantParts(t, page, "Shard us is away", part)
		if strings.Contains(page, "secret-host") {
			t.Errorf("%s says where the database is:\n%s", target, page)
		}
	}
	response := get(t, h, "/shard/us/tasks")
	page := body(t, response)
	if response.StatusCode != http.StatusBadGateway || strings.Contains(page, "secret-host") {
		t.Errorf("the pages of a shard that is away: %s\n%s", response.Status, page)
	}
	wantParts(t, page, "The shard us does not answer", `href="../../shards"`)
	style := parse(t, page).links
	for _, link := range style {
		if strings.HasSuffix(link, ".css") {
			if got := get(t, inFolder(h, "/shard/us"), "/"+link); got.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", link, got.Status)
			}
		}
	}
	s.away.Store(false)
	wantParts(t, text(t, h, "/shard/us/tasks"), "mail/2")
}

// Changes of tasks go to the shards that hold them, and say before what they do.
// Proves G221.
func TestShards_AreChangedWhereTasksAre(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	h := s.pages(t, open())
	list := func(do string) string {
		t.Helper()
		return previewOf(t, h, formWith(t, text(t, h, "/tasks?action=mail"), do), "of", "all")
	}
	page := list("abort")
	wantParts(t, page, "Aborts 3 tasks", "Each shard changes its part for itself")
	wantStates(t, s.us, stint.StateReady, "mail/2")
	wantParts(t, agree(t, h, page), "Aborted 3 tasks")
	wantStates(t, s.eu, stint.StateAborted, "mail")
	wantStates(t, s.us, stint.StateAborted, "mail", "mail/2")
	wantParts(t, agree(t, h, list("retry")), "Retried 3 tasks")
	wantStates(t, s.eu, stint.StateReady, "mail")
	wantStates(t, s.us, stint.StateReady, "mail/2")
	wantStates(t, s.us, stint.StateBlocked, "mail")
	// From the pages of a shard, too, a deletion takes with it what waits on another one.
	us := inFolder(h, "/shard/us")
	page = previewOf(t, us, formWith(t, text(t, us, "/task?id=mail"), "delete"))
	wantParts(t, page, "Deletes 1 task", "on other shards", "are not counted")
	agree(t, us, page)
	wantStates(t, s.us, "gone", "mail")
	wantStates(t, s.eu, "gone", "log")
	found, err := s.cluster(t).Check(t.Context())
	if wantNil(t, err); len(found) > 0 {
		t.Errorf("the check finds %v", found)
	}
	// What is of one shard, its pages change.
	agree(t, us, previewOf(t, us, formWith(t, text(t, us, "/action?name=mail"), "pause")))
	if limitsOf(t, s.us, "mail").PausedSince.IsZero() ||
		!limitsOf(t, s.eu, "mail").PausedSince.IsZero() {
		t.Error("not us alone is paused")
	}
	for _, store := range []*stint.Store{s.eu, s.us} {
		insert(t, store, stint.Task{ID: "approve", Action: stint.External})
	}
	answer := func(h http.Handler, id stint.TaskID) {
		t.Helper()
		form := formWith(t, text(t, h, "/"+address("task", id)), "answer")
		agree(t, h, previewOf(t, h, form), "code", "completed")
	}
	answer(h, "eu/approve")
	wantStates(t, s.eu, stint.StateCompleted, "approve")
	wantStates(t, s.us, stint.StateReady, "approve")
	answer(us, "approve")
	wantStates(t, s.us, stint.StateCompleted, "approve")
}

// A shard that does not answer keeps the others from nothing, and the page says which part of a
// change is left out.
func TestShards_ChangeInParts(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	h := s.pages(t, open())
	form := formWith(t, text(t, h, "/tasks?action=mail"), "abort")
	form.values["task"] = form.boxes
	before := agreement(t, previewOf(t, h, form))
	s.away.Store(true)
	half := s.pages(t, open())
	page := previewOf(t, half, form)
	wantParts(t, page, "Aborts 1 task", "2 tasks: on a shard that does not answer")
	response := send(t, half, before) // as if it had gone away since the preview
	told := text(t, half, response.Header.Get("Location")[1:])
	wantParts(t, told, "Aborted 1 task", "2 tasks: on a shard that does not answer",
		"may have changed its part, or not")
	wantStates(t, s.eu, stint.StateAborted, "mail")
	wantStates(t, s.us, stint.StateReady, "mail/2")
	// Sent again when the shard is back, the same form changes what is left of it.
	s.away.Store(false)
	response = send(t, half, before)
	wantParts(t, text(t, half, response.Header.Get("Location")[1:]), "Aborted 2 tasks")
	wantStates(t, s.us, stint.StateAborted, "mail", "mail/2")
	// A task that keeps its shard's part from taking place is left out, and named.
	insert(t, s.eu, stint.Task{ID: "busy", Action: "dig"}, stint.Task{ID: "idle", Action: "dig"})
	insert(t, s.us, stint.Task{ID: "idle", Action: "dig"})
	form = formWith(t, text(t, h, "/tasks?action=dig"), "delete")
	form.values["task"] = form.boxes
	if _, err := s.eu.OwnTasks(t.Context(), "w", 1, []string{"dig"}, stint.NoExpiry); err != nil {
		t.Fatal(err)
	}
	page = previewOf(t, h, form)
	wantParts(t, page, "Deletes 2 tasks", "1 task: in progress", "eu/busy")
	agree(t, h, page)
	wantStates(t, s.us, "gone", "idle")
	wantStates(t, s.eu, "gone", "idle")
	wantStates(t, s.eu, stint.StateInProgress, "busy")
}

// The pages of a shard are for those who may see those of all.
// Proves G222.
func TestShards_AskWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	s := newSharding(t)
	s.insert(t)
	nobody := s.pages(t, ui.Options{Authorize: func(*http.Request, ui.Verb) bool { return false }})
	reader := s.pages(t, ui.Options{})
	for _, name := range append(pageNames("mail"), "shards") {
		for _, folder := range []string{"/", "/shard/us/", "/shard/asia/"} {
			response := get(t, nobody, folder+name)
			if content := body(t, response); response.StatusCode != http.StatusForbidden ||
				strings.Contains(content, "mail/2") {
				t.Errorf("nobody gets %s%s: %s\n%s", folder, name, response.Status, content)
			}
			if folder == "/shard/asia/" {
				continue
			}
			for _, form := range formsOf(t, body(t, get(t, reader, folder+name))) {
				if form.action != "begin-check" {
					t.Errorf("a reader is offered %v by %s%s", form, folder, name)
				}
			}
		}
	}
	form := formWith(t, text(t, s.pages(t, open()), "/shard/us/task?id=mail"), "abort")
	for _, action := range []string{"preview", "change"} {
		form.action = action
		if got := send(t, inFolder(reader, "/shard/us"), form); got.StatusCode !=
			http.StatusForbidden {
			t.Errorf("a reader sends %s: %s", action, got.Status)
		}
	}
	response := post(t, s.pages(t, open()), "/shard/us/preview", form.values.Encode(),
		"Sec-Fetch-Site", "cross-site")
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("a form of another site: %s", response.Status)
	}
}
