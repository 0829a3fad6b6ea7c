package browsertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/ui"
)

// hostile is an ID with everything awkward.
const hostile = `<script>alert("x")</script> ?a=b#c%2f/` + "\u202e\x01 שלום 任务"

// A scene is a store in which something of everything happens, with its pages.
type scene struct {
	store *stint.Store
	url   string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{History: stint.HistoryOptions{Tries: 10}})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	mux := http.NewServeMux()
	pages := ui.New(store, ui.Options{
		Title: "Shop, staging", Logger: slog.New(slog.DiscardHandler),
		Authorize: func(*http.Request, ui.Verb) bool { return true },
		User:      func(*http.Request) string { return "ann@example.com" },
	})
	mux.Handle("/", pages)
	mux.Handle("/a/b/", pages)
	mux.Handle("/cut/", http.StripPrefix("/cut", pages))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &scene{store, server.URL}
}

func wantNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill has something happen of everything.
func (s *scene) fill(t *testing.T) {
	t.Helper()
	ctx, store := t.Context(), s.store
	var tasks []stint.Task
	add := func(id, action string, after ...stint.TaskID) stint.TaskID {
		tasks = append(tasks, stint.Task{
			ID: stint.TaskID(id), Action: action, After: after, MaxTries: 3,
			Body: []byte(`{"id":"` + strings.ReplaceAll(id, `"`, "'") + `","sizes":[100,250]}`),
		})
		return stint.TaskID(id)
	}
	// A network with branches that go differently.
	order := add("export/order", "order")
	var pages []stint.TaskID
	for film := range 6 {
		scan := add(fmt.Sprintf("export/film-%d/scan", film), "scan", order)
		var photos []stint.TaskID
		for photo := range 24 {
			photos = append(photos, add(fmt.Sprintf("export/film-%d/photo-%d", film, photo),
				"develop", scan))
		}
		pages = append(pages, add(fmt.Sprintf("export/film-%d/page", film), "page", photos...))
	}
	add("export/book", "bind", pages...)
	for i := range 40 {
		add(fmt.Sprintf("mail/%d", 10_000+i), "mail")
	}
	for i := range 3 {
		add(fmt.Sprintf("report/2026-11-%d", 20+i), "report")
	}
	add("alone", "nobody-asks")
	tasks = append(tasks, stint.Task{ID: "order/7/approve", Action: stint.External})
	add("order/7/ship", "ship", "order/7/approve")
	add(hostile, hostile)
	add("long/"+strings.Repeat("abcdefghij-", 40), "mail")
	wantNil(t, store.InsertTasks(ctx, tasks))
	s.give(t, "order", 1, stint.StatusCompleted, "")
	s.give(t, "scan", 5, stint.StatusCompleted, "")
	s.give(t, "develop", 60, stint.StatusCompleted, "developed")
	s.give(t, "develop", 3, stint.StatusPending, "smudged: dust on photo 17")
	s.give(t, "develop", 1, stint.StatusAborted, "the negative is torn")
	s.give(t, "mail", 8, stint.StatusPending, "dial tcp 10.0.0.7:25: connect: no route to host")
	s.give(t, "mail", 8, stint.StatusPending, "dial tcp 10.0.0.7:25: connect: no route to host")
	s.give(t, "mail", 8, stint.StatusPending, "dial tcp 10.0.0.7:25: connect: no route to host")
	owned := s.own(t, "develop", 4)
	wantNil(t, store.SetStatus(ctx, owned[0], "half of it is done", 0.5))
	_, err := store.RecordStep(ctx, owned[0], "fixed", []byte("42"))
	wantNil(t, err)
	s.change(t)
	ctx = stint.WithAuthor(ctx, stint.Author{Name: "ann@example.com"})
	wantNil(t, store.SetLimits(ctx, "mail", stint.Limits{Concurrency: 10, ConcurrencyPerKey: 2}))
	rate := stint.Rate{Tasks: 100, Per: time.Minute}
	wantNil(t, store.SetLimits(ctx, "scan", stint.Limits{Rate: rate}))
	wantNil(t, store.Pause(ctx, "report"))
	wantNil(t, store.PauseKeys(ctx, "mail", "customer-7"))
	wantNil(t, store.RegisterActor(ctx, "worker-1", []string{"order", "scan", "develop", "mail"}))
	wantNil(t, store.PutSchedules(ctx, []stint.Schedule{
		{
			Name: "nightly", Spec: "0 3 * * *", Zone: "Europe/Berlin",
			Tasks: []stint.Task{{Action: "report"}},
		},
		{Name: "ping", Spec: "every 90s", Tasks: []stint.Task{{Action: "ping"}}},
	}))
}

// change has people change tasks, for the list of changes.
func (s *scene) change(t *testing.T) {
	t.Helper()
	var old []stint.Task
	ids := []stint.TaskID{stint.TaskID(hostile + "old")}
	for i := range 30 {
		ids = append(ids, stint.TaskID(fmt.Sprintf("newsletter/2026-10/%d", i)))
	}
	for _, id := range ids {
		old = append(old, stint.Task{ID: id, Action: "newsletter"})
	}
	wantNil(t, s.store.InsertTasks(t.Context(), old))
	ann := stint.WithAuthor(t.Context(), stint.Author{
		Name: "ann@example.com", Reason: "the newsletter of October is not sent any more",
	})
	hostileAuthor := stint.WithAuthor(t.Context(), stint.Author{Name: hostile, Reason: hostile})
	_, err := s.store.AbortTasks(ann, ids, "")
	wantNil(t, err)
	_, err = s.store.RetryTasks(hostileAuthor, ids[:2])
	wantNil(t, err)
	_, err = s.store.DeleteTasks(ann, ids)
	wantNil(t, err)
	_, err = s.store.AbortTasks(ann, []stint.TaskID{"mail/10039"}, "sent twice")
	wantNil(t, err)
}

// own owns some tasks of an action.
func (s *scene) own(t *testing.T, action string, most int) []stint.OwnedTask {
	t.Helper()
	owned, err := s.store.OwnTasks(t.Context(), "worker-1", most, []string{action}, time.Hour)
	wantNil(t, err)
	return owned
}

// give owns some tasks of an action and returns them.
func (s *scene) give(t *testing.T, action string, most int, code stint.StatusCode, status string) {
	t.Helper()
	var returns []stint.Return
	for _, task := range s.own(t, action, most) {
		returns = append(returns, stint.Return{
			ID: task.ID, Token: task.Token, Code: code, Status: status,
			Log: "opened\nread\n" + status,
		})
	}
	verdicts, err := s.store.ReturnTasks(t.Context(), returns)
	wantNil(t, errors.Join(append(verdicts, err)...))
}

// finish returns tasks as completed.
func (s *scene) finish(t *testing.T, owned []stint.OwnedTask) {
	t.Helper()
	for _, task := range owned {
		err := s.store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
		wantNil(t, err)
	}
}
