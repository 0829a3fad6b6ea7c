package ui_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// attentionOf is what an overview says that needs attention.
func attentionOf(t *testing.T, page string) (said []string) {
	t.Helper()
	_, list, _ := strings.Cut(page, `<ul class="notices">`)
	list, _, _ = strings.Cut(list, "</ul>")
	for _, item := range strings.SplitAfter(list, "</li>") {
		if strings.Contains(item, "<li") {
			said = append(said, strings.Join(strings.Fields(parse(t, item).text), " "))
		}
	}
	return said
}

var seconds = regexp.MustCompile(`\d+s ago`)

// What is paused is said with since when, by whom and why, and is resumed from there.
func TestOverview_SaysWhoPausedWhat(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	insert(t, store, stint.Task{ID: "a", Action: "mail", Key: "shop"},
		stint.Task{ID: "b", Action: "scan"})
	wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{{
		Name: "nightly", Spec: "@daily", Tasks: []stint.Task{{Action: "mail"}},
	}}))
	by := stint.WithAuthor(t.Context(), stint.Author{Name: "ann", Reason: "the relay is down"})
	wantNil(t, store.PauseKeys(by, "mail", "shop", "other"))
	wantNil(t, store.Pause(by, "mail"))
	wantNil(t, store.PauseSchedules(by, "nightly"))
	wantNil(t, store.Pause(t.Context(), "scan")) // nobody says who
	_, err = pool.Exec(t.Context(), `
		UPDATE stint.limits SET paused_at = paused_at - interval '30 hours' WHERE action = 'mail'`)
	wantNil(t, err)
	_, err = pool.Exec(t.Context(), `
		UPDATE stint.changes SET changed_at = changed_at - interval '30 hours'
		WHERE verb = 'Pause'`)
	wantNil(t, err)
	h := ui.New(store, open())
	page := text(t, h, "/")
	got := strings.Join(attentionOf(t, page), "\n")
	for _, want := range []string{
		"mail was paused 1d ago by ann (“the relay is down”): 1 task ready.",
		"The key shop of mail was paused 0s ago by ann (“the relay is down”).",
		"The schedule nightly was paused 0s ago by ann (“the relay is down”).",
		"scan was paused 0s ago: 1 task ready.",
	} {
		if !strings.Contains(seconds.ReplaceAllString(got, "0s ago"), want) {
			t.Errorf("the overview lacks %q:\n%s", want, got)
		}
	}
	wantParts(t, page, `href="changes?action=mail"`, `<li data-key="paused mail" class="bad">`,
		`<li data-key="paused scan" class="note">`)
	agree(t, h, previewOf(t, h, formWith(t, page, "resume")))
	limits, err := store.ListLimits(t.Context(), "mail")
	wantNil(t, err)
	if !limits[0].PausedSince.IsZero() || len(limits[0].PausedKeys) != 2 {
		t.Errorf("after the action is resumed: %+v", limits[0])
	}
}

// What waits by mistake is named: what starts in years, what others have taken with them, what
// nobody maintains, and owners that may be gone.
func TestOverview_NamesWhatWaitsInSilence(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	now := time.Now()
	tasks := []stint.Task{
		{ID: "soon", Action: "mail", NotBefore: now.Add(300 * 24 * time.Hour)},
		{ID: "far", Action: "mail", NotBefore: now.Add(4000 * 24 * time.Hour)},
		{ID: "render", Action: "render"},
		{ID: "long", Action: "scan"},
		{ID: "brief", Action: "scan"},
		{ID: "bind", Action: "bind", After: []stint.TaskID{"render"}},
	}
	for i := range 90 {
		tasks = append(tasks, stint.Task{
			ID: stint.TaskID(fmt.Sprint("mail/", i)), Action: "mail",
			After: []stint.TaskID{"render"},
		})
	}
	insert(t, store, tasks...)
	returned := own(t, store, "render")
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
		ID: "render", Token: returned[0].Token, Code: stint.StatusAborted, Status: "no template",
	}})
	wantNil(t, err)
	wantNil(t, verdicts[0])
	for _, lease := range []time.Duration{10 * 24 * time.Hour, time.Minute} {
		if _, err := store.OwnTasks(t.Context(), "gone", 1, []string{"scan"}, lease); err != nil {
			t.Fatal(err)
		}
	}
	page := text(t, ui.New(store, open()), "/")
	got := strings.Join(attentionOf(t, page), "\n")
	for _, want := range []string{
		"1 task is scheduled for more than a year from now: far starts in 10y.",
		"mail: 90 tasks, bind: 1 task were aborted since tasks that they depend on were.",
		"1 task is owned by processes that nobody watches: if these are gone, the last lease, " +
			"of gone, expires in 9d.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the overview lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "Nobody maintains") {
		t.Errorf("nothing is late yet:\n%s", got)
	}
	wantParts(t, page, `href="tasks?after=`)
	for _, link := range parse(t, page).links {
		if strings.HasPrefix(link, "tasks?after=") {
			if list := text(t, ui.New(store, open()), "/"+link); strings.Count(list,
				"<tr data-key=") != 1 {
				t.Errorf("the link leads to other tasks:\n%s", list)
			}
		}
	}
	wantNobodyMaintains(t, store, pool)
}

func wantNobodyMaintains(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		UPDATE stint.scheduled SET not_before = now() - interval '3 hours'
		WHERE not_before < now() + interval '2 years'`)
	wantNil(t, err)
	_, err = pool.Exec(t.Context(), `
		UPDATE stint.leases SET deadline = now() - interval '2 hours'
		WHERE deadline < now() + interval '1 hour'`)
	wantNil(t, err)
	got := strings.Join(attentionOf(t, text(t, ui.New(store, open()), "/")), "\n")
	want := "Nobody maintains the store, it seems, or something holds that up, since 3h00m " +
		"ago: a scheduled task has not become ready, a lease has expired and is held."
	if !strings.Contains(got, want) {
		t.Errorf("the overview lacks %q:\n%s", want, got)
	}
}

// Tasks that others took with them are told of, also where as many tasks of their action are tried
// again after an error.
func TestOverview_TellsOfAbortedTasksBesideRetries(t *testing.T) {
	t.Parallel()
	const retried, aborted = 60, 50
	failing, gone := make([]stint.TaskInfo, retried), make([]stint.TaskInfo, aborted)
	for i := range failing {
		failing[i] = stint.TaskInfo{
			ID: stint.TaskID(fmt.Sprint("again/", i)), Action: "mail", State: stint.StateReady,
			Status: "no route to host", Tries: 1,
		}
	}
	for i := range gone {
		gone[i] = stint.TaskInfo{
			ID: stint.TaskID(fmt.Sprint("gone/", i)), Action: "mail", State: stint.StateAborted,
			AbortCause: stint.CauseDependency,
		}
	}
	h := ui.New(aFake{
		problems: func(context.Context, int) (stint.Problems, error) {
			return stint.Problems{Failing: failing, Errors: []stint.ErrorGroup{
				{Action: "mail", Tasks: retried, Error: "no route to host", Example: "again/1"},
			}}, nil
		},
		stats: func(context.Context) (stint.Stats, error) {
			return stint.Stats{Actions: []stint.ActionStats{
				{Action: "mail", Ready: retried, Aborted: aborted},
			}}, nil
		},
		list: func(context.Context, stint.Filter) (stint.TaskPage, error) {
			return stint.TaskPage{Tasks: gone}, nil
		},
	}, open())
	got := strings.Join(attentionOf(t, text(t, h, "/")), "\n")
	want := "mail: 50 tasks were aborted since tasks that they depend on were."
	if !strings.Contains(got, want) {
		t.Errorf("the overview lacks %q:\n%s", want, got)
	}
}

// A number of which no more are known says so.
func TestOverview_SaysWhereThereMayBeMore(t *testing.T) {
	t.Parallel()
	const kept = 100
	failing, slow := make([]stint.TaskInfo, kept+1), make([]stint.TaskInfo, kept+1)
	for i := range failing {
		failing[i] = stint.TaskInfo{
			ID: stint.TaskID(fmt.Sprint("last/", i)), Action: "mail", State: stint.StateReady,
			Status: "no route to host", Tries: 1, MaxTries: 2,
		}
		slow[i] = stint.TaskInfo{
			ID: stint.TaskID(fmt.Sprint("slow/", i)), Action: "mail", State: stint.StateInProgress,
			LeaseUntil: time.Now().Add(-time.Hour),
		}
	}
	h := ui.New(aFake{
		problems: func(context.Context, int) (stint.Problems, error) {
			return stint.Problems{Failing: failing, Slow: slow, Errors: []stint.ErrorGroup{
				{Action: "mail", Tasks: kept + 1, Error: "no route to host", Example: "last/1"},
			}}, nil
		},
	}, open())
	got := strings.Join(attentionOf(t, text(t, h, "/")), "\n")
	for _, want := range []string{
		"at least 100 of which have one try left", "at least 100 leases have expired",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the overview lacks %q:\n%s", want, got)
		}
	}
	page := text(t, h, "/alike?action=mail&error=no+route+to+host")
	wantParts(t, page, "These are 100 tasks of them; there may be more.")
}

// far is a store whose newest changes are all of other actions.
type far struct{ aFake }

func (far) ListChanges(context.Context, stint.ChangeFilter) (stint.ChangePage, error) {
	return stint.ChangePage{Next: "next"}, nil
}

// Where nothing was found among the newest changes, there may be some behind them.
func TestChangesPage_SaysThatThereMayBeMore(t *testing.T) {
	t.Parallel()
	page := text(t, ui.New(far{}, open()), "/changes?action=mail")
	wantParts(t, page, "None so far", "Look further back")
	if strings.Contains(page, "No change that is known") {
		t.Error("the page says that there is none")
	}
}
