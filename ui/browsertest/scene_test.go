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

	"github.com/chromedp/chromedp"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/shards"
	"github.com/stint-tasks/stint/ui"
)

// hostile is an ID with everything awkward.
const hostile = `<script>alert("x")</script> ?a=b#c%2f/` + "\u202e\x01 שלום 任务"

// A scene is a store in which something of everything happens, with its pages. It is also the shard
// eu of a cluster, whose pages are in the folder all.
type scene struct {
	store   *stint.Store
	cluster *shards.Cluster
	url     string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	store := openStore(t)
	mux := http.NewServeMux()
	options := ui.Options{
		Title: "Shop, staging", Logger: slog.New(slog.DiscardHandler),
		Authorize: func(*http.Request, ui.Verb) bool { return true },
		User:      func(*http.Request) string { return "ann@example.com" },
	}
	cluster := newCluster(t, store)
	all := ui.New(cluster.Merged(), options)
	options.Check = findings
	pages := ui.New(store, options)
	for folder, shown := range map[string]http.Handler{"": pages, "all/": all} {
		mux.Handle("/"+folder, shown)
		mux.Handle("/a/b/"+folder, shown)
		mux.Handle("/cut/"+folder, http.StripPrefix("/cut", shown))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &scene{store, cluster, server.URL}
}

func openStore(t *testing.T) *stint.Store {
	t.Helper()
	store, err := stint.New(testdb.New(t), stint.Options{History: stint.HistoryOptions{Tries: 10}})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	return store
}

// A part is the store of a shard, which its cluster does not close.
type part struct{ *stint.Store }

func (part) Close(context.Context) error { return nil }

// newCluster returns a cluster of the shards eu, us and ap, of which the last is away.
func newCluster(t *testing.T, eu *stint.Store) *shards.Cluster {
	t.Helper()
	stores := map[string]*stint.Store{"eu": eu, "us": openStore(t)}
	topology, err := shards.Static(map[string]string{
		"eu": "postgres://a/eu", "us": "postgres://b/us", "ap": "postgres://c/ap",
	})
	wantNil(t, err)
	cluster, err := shards.New(topology, shards.Options{
		Logger: slog.New(slog.DiscardHandler),
		Connect: func(_ context.Context, shard, _ string) (shards.Store, error) {
			if stores[shard] == nil {
				return nil, errors.New("connection refused")
			}
			return part{stores[shard]}, nil
		},
	})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, cluster.Close(context.WithoutCancel(t.Context()))) })
	return cluster
}

// findings are something of everything that a check may find.
func findings(context.Context) ([]ui.Finding, error) {
	return []ui.Finding{
		{
			Severity: "error", Topic: "consistency", ID: hostile,
			Text: `each task is in exactly one state: task ` + hostile + `: it is in two; if ` +
				`nobody has changed the tables by hand, it is a bug of stint: please report it`,
		},
		{
			Severity: "warning", Topic: "transactions", Text: "process 4711 of role app has " +
				"had a transaction open for 3h12m, which keeps vacuum from removing dead rows; " +
				"end it with pg_terminate_backend(4711)",
		},
		{Severity: "note", Topic: "server", Text: "PostgreSQL 15.14"},
	}, nil
}

// check has the store checked, and waits for what is found.
func (s *scene) check(t *testing.T) {
	t.Helper()
	tab := open(t, look{})
	tab.visit(s.url + "/check")
	tab.do(chromedp.Click("main form button"))
	tab.arrive("/check")
	tab.await(`document.querySelector("main .findings") !== null`)
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
	tasks = append(tasks, article()...)
	add(hostile, hostile)
	add("long/"+strings.Repeat("abcdefghij-", 40), "mail")
	wantNil(t, store.InsertTasks(ctx, tasks))
	s.fillShards(t)
	s.give(t, "order", 1, stint.StatusCompleted, "")
	s.give(t, "review", 1, stint.StatusCompleted, "not yet")
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
	s.check(t)
}

// article is a network of which one branch is skipped.
func article() []stint.Task {
	return []stint.Task{{ID: "article/review", Action: "review", MaxTries: 3}, {
		ID: "article/publish", Action: "publish",
		When: []stint.Condition{{After: "article/review", Results: []string{"yes"}}},
	}, {
		ID: "article/rework", Action: "rework",
		When: []stint.Condition{{After: "article/review", Results: []string{"no", ""}}},
	}, {
		ID: "article/first", Action: "tell",
		WhenAny: []stint.Condition{{After: "article/rework"}, {After: "article/publish"}},
	}}
}

// fillShards has tasks wait for others of another shard.
func (s *scene) fillShards(t *testing.T) {
	t.Helper()
	var tasks []shards.Task
	for i := range 5 {
		pay := shards.ID{Shard: "eu", Task: stint.TaskID(fmt.Sprintf("order/%d/pay", i))}
		tasks = append(tasks, shards.Task{
			Shard: pay.Shard, Task: stint.Task{ID: pay.Task, Action: "pay"},
		}, shards.Task{
			Shard: "us", After: []shards.ID{pay},
			Task: stint.Task{ID: stint.TaskID(fmt.Sprintf("order/%d/pack", i)), Action: "pack"},
		})
	}
	wantNil(t, s.cluster.InsertTasks(t.Context(), tasks))
	us, err := s.cluster.Store(t.Context(), "us")
	wantNil(t, err)
	wantNil(t, us.(part).Pause(t.Context(), "pack"))
	wantNil(t, us.InsertTasks(t.Context(), []stint.Task{
		{ID: "order/9/approve", Action: stint.External},
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
