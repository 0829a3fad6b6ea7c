package stint_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// byAnn is a context in which ann changes something.
func byAnn(t *testing.T) context.Context {
	t.Helper()
	return stint.WithAuthor(t.Context(), stint.Author{Name: "ann", Reason: "a test"})
}

// changesOf are the changes of a filter, without their times, the newest first.
func changesOf(t *testing.T, store *stint.Store, filter stint.ChangeFilter) []stint.Change {
	t.Helper()
	page, err := store.ListChanges(t.Context(), filter)
	wantErr(t, "ListChanges", err, nil)
	for i := range page.Changes {
		if at := page.Changes[i].At; at.IsZero() || i > 0 && at.After(page.Changes[i-1].At) {
			t.Errorf("change %d is of %v", i, at)
		}
	}
	for i := range page.Changes {
		page.Changes[i].At = time.Time{}
	}
	return page.Changes
}

// wantChanges fails unless these changes were made by ann, the newest first.
func wantChanges(t *testing.T, store *stint.Store, of stint.TaskID, want ...stint.Change) {
	t.Helper()
	for i := range want {
		want[i].By, want[i].Reason = "ann", "a test"
	}
	if got := changesOf(t, store, stint.ChangeFilter{ID: of}); len(got)+len(want) > 0 &&
		!reflect.DeepEqual(got, want) {
		t.Errorf("changes of %q:\n%+v\nwant\n%+v", of, got, want)
	}
}

func ofTasks(verb, action string, others int, names ...string) stint.Change {
	return stint.Change{
		Verb: verb, Action: action, Items: len(names), Names: names, Others: others,
	}
}

// Proves G225.
func TestListChanges_TellsWhoHasChangedTasksAlsoWhenTheyAreGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, ann := newStore(t), byAnn(t)
	insert(t, store, after("a"), after("b"), after("c", "a"), after("d", "c"),
		stint.Task{ID: "x", Action: "other"}, stint.Task{ID: "ask", Action: stint.External})
	abort := func(ids ...stint.TaskID) {
		_, err := store.AbortTasks(ann, ids, "why")
		wantErr(t, "AbortTasks", err, nil)
	}
	abort("b", "a", "x")
	abort("a", "b") // changes nothing
	verdicts, err := store.AnswerTasks(ann, "ann", []stint.Answer{
		{ID: "ask", Code: stint.StatusCompleted}, {ID: "none", Code: stint.StatusCompleted},
	})
	wantErr(t, "AnswerTasks", err, nil)
	wantErr(t, "the answer", verdicts[0], nil)
	wantErr(t, "the other answer", verdicts[1], stint.ErrTaskNotFound)
	for range 2 { // the second one finds the task open
		_, err = store.RetryTasks(ann, []stint.TaskID{"a"})
		wantErr(t, "RetryTasks", err, nil)
	}
	for range 2 { // the second one finds it so
		_, err = store.ChangeTasks(ann, []stint.TaskID{"c"},
			stint.TaskChanges{Priority: new(int16(5))})
		wantErr(t, "ChangeTasks", err, nil)
	}
	for _, want := range []error{nil, stint.ErrTaskNotFound} {
		_, err = store.DeleteTasks(ann, []stint.TaskID{"a", "x"})
		wantErr(t, "DeleteTasks", err, want)
	}
	aborted := ofTasks("AbortTasks", "act", 2, "a", "b")
	deleted := ofTasks("DeleteTasks", "act", 2, "a")
	retried := ofTasks("RetryTasks", "act", 2, "a")
	answered := ofTasks("AnswerTasks", stint.External, 0, "ask")
	abortedOther := ofTasks("AbortTasks", "other", 0, "x")
	deletedOther := ofTasks("DeleteTasks", "other", 0, "x")
	wantChanges(t, store, "a", deleted, retried, aborted)
	wantChanges(t, store, "b", aborted)
	wantChanges(t, store, "x", deletedOther, abortedOther)
	wantChanges(t, store, "ask", answered)
	wantChanges(t, store, "c", ofTasks("ChangeTasks", "act", 0, "c"))
	wantChanges(t, store, "none")
	got := changesOf(t, store, stint.ChangeFilter{})
	if len(got) != 7 || got[3].Verb != "RetryTasks" || got[4].Verb != "AnswerTasks" {
		t.Errorf("all changes: %+v", got)
	}
	got = changesOf(t, store, stint.ChangeFilter{Actions: []string{"other", "none"}})
	if len(got) != 2 || !reflect.DeepEqual(got[0].Names, []string{"x"}) {
		t.Errorf("changes of one action: %+v", got)
	}
}

// Tasks that do not stay for a moment leave their changes, too.
// Proves G225.
func TestListChanges_TellsOfTasksThatAreNotKept(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepNone},
	})
	ann := byAnn(t)
	insert(t, store, after("a"), after("b", "a"), stint.Task{ID: "c", Action: stint.External},
		stint.Task{
			ID: "d", Action: stint.External, After: []stint.TaskID{"a"}, OnAbort: stint.RunAnyway,
		})
	_, err := store.AnswerTasks(ann, "ann", []stint.Answer{
		{ID: "c", Code: stint.StatusCompleted}, {ID: "d", Code: stint.StatusCompleted},
	})
	wantErr(t, "AnswerTasks", err, nil)
	_, err = store.AbortTasks(ann, []stint.TaskID{"a"}, "")
	wantErr(t, "AbortTasks", err, nil)
	_, err = store.Prune(t.Context())
	wantErr(t, "Prune", err, nil)
	wantChanges(t, store, "a", ofTasks("AbortTasks", "act", 1, "a"))
	wantChanges(t, store, "c", ofTasks("AnswerTasks", stint.External, 0, "c"))
	wantChanges(t, store, "d") // it could not be answered yet
}

// Proves G225.
func TestListChanges_HasOnlyWhatWasCommitted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	ann := byAnn(t)
	insert(t, store, after("a"), after("b"))
	_, err := store.DryRun().AbortTasks(ann, []stint.TaskID{"a"}, "")
	wantErr(t, "AbortTasks of a dry run", err, nil)
	tx := begin(t, pool)
	_, err = store.WithTx(tx).DeleteTasks(ann, []stint.TaskID{"a"})
	wantErr(t, "DeleteTasks", err, nil)
	wantChanges(t, store.WithTx(tx), "a", ofTasks("DeleteTasks", "act", 0, "a"))
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	_, err = store.DeleteTasks(ann, []stint.TaskID{"b", "none"})
	wantErr(t, "DeleteTasks", err, stint.ErrTaskNotFound)
	_, err = store.DeleteTasks(t.Context(), []stint.TaskID{"a"})
	wantErr(t, "DeleteTasks by nobody", err, nil)
	if got := changesOf(t, store, stint.ChangeFilter{}); len(got) > 0 {
		t.Errorf("changes: %+v", got)
	}
}

// Proves G225.
func TestListChanges_TellsWhoHasChangedSettings(t *testing.T) {
	t.Parallel()
	store, ann := newStore(t), byAnn(t)
	daily := stint.Schedule{Name: "daily", Spec: "@daily", Tasks: []stint.Task{{Action: "act"}}}
	changed := daily
	changed.Spec = "@hourly"
	trigger := func() error {
		_, err := store.TriggerSchedule(ann, "daily")
		return err
	}
	limits := stint.Limits{
		Concurrency: 2, Fair: true, RatePerKey: stint.Rate{Tasks: 3, Per: 1500 * time.Millisecond},
	}
	for i, call := range []struct {
		verb, action, names, detail string // the verb is empty if nothing is changed
		do                          error
	}{
		{"Pause", "act", "", "", store.Pause(ann, "act")},
		{"", "", "", "", store.Pause(ann, "act")},
		{"Resume", "act", "", "", store.Resume(ann, "act", "none")},
		{"PauseKeys", "act", "k1 k2", "", store.PauseKeys(ann, "act", "k2", "k1")},
		{"PauseKeys", "act", "k3", "", store.PauseKeys(ann, "act", "k1", "k3")},
		{"ResumeKeys", "act", "k1", "", store.ResumeKeys(ann, "act", "k1", "k7")},
		{"", "", "", "", store.ResumeKeys(ann, "act", "k1")},
		{
			"SetWeights", "act", "k1 k2", "1 → 3, 1 → 2",
			store.SetWeights(ann, "act", map[string]int{"k1": 3, "k2": 2, "k3": 1}),
		},
		{
			"SetLimits", "act", "",
			"none → concurrency 2, rate per key 3 in 1.5 s, burst 2, fair",
			store.SetLimits(ann, "act", limits),
		},
		{"", "", "", "", store.SetLimits(ann, "act", limits)},
		{
			"SetLimits", "act", "",
			"concurrency 2, rate per key 3 in 1.5 s, burst 2, fair → none",
			store.SetLimits(ann, "act", stint.Limits{}),
		},
		{"PutSchedules", "", "daily", "", store.PutSchedules(ann, []stint.Schedule{daily})},
		{"", "", "", "", store.PutSchedules(ann, []stint.Schedule{daily})},
		{"", "", "", "", store.EnsureSchedules(ann, []stint.Schedule{changed})},
		{"PutSchedules", "", "daily", "", store.PutSchedules(ann, []stint.Schedule{changed})},
		{"PauseSchedules", "", "daily", "", store.PauseSchedules(ann, "daily")},
		{"", "", "", "", store.PauseSchedules(ann, "daily")},
		{"ResumeSchedules", "", "daily", "", store.ResumeSchedules(ann, "daily")},
		{"TriggerSchedule", "", "daily", "daily/", trigger()},
		{"DeleteSchedules", "", "daily", "", store.DeleteSchedules(ann, "daily")},
	} {
		wantErr(t, fmt.Sprintf("call %d, %s", i, call.verb), call.do, nil)
	}
	wantSettings(t, store)
}

// wantSettings checks what is told of the changes of settings.
func wantSettings(t *testing.T, store *stint.Store) {
	t.Helper()
	want := []string{
		"DeleteSchedules  [daily] 1", "TriggerSchedule  [daily] 1", "ResumeSchedules  [daily] 1",
		"PauseSchedules  [daily] 1", "PutSchedules  [daily] 1", "PutSchedules  [daily] 1",
		"SetLimits act [] 1", "SetLimits act [] 1", "SetWeights act [k1 k2] 2",
		"ResumeKeys act [k1] 1", "PauseKeys act [k3] 1", "PauseKeys act [k1 k2] 2",
		"Resume act [] 1", "Pause act [] 1",
	}
	got := changesOf(t, store, stint.ChangeFilter{})
	var lines, details []string
	for _, c := range got {
		lines = append(lines, fmt.Sprint(c.Verb, " ", c.Action, " ", c.Names, " ", c.Items))
		if c.Detail != "" {
			details = append(details, c.Detail)
		}
		if c.By != "ann" || c.Reason != "a test" {
			t.Errorf("a change is by %q for %q", c.By, c.Reason)
		}
	}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("changes:\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if len(details) != 4 || !strings.HasPrefix(details[0], "daily/2") ||
		details[1] != "concurrency 2, rate per key 3 in 1.5 s, burst 2, fair → none" ||
		details[2] != "none → concurrency 2, rate per key 3 in 1.5 s, burst 2, fair" ||
		details[3] != "1 → 3, 1 → 2" {
		t.Errorf("details: %q", details)
	}
}

// Proves G225.
func TestListChanges_GoesThroughPages(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	const n = 25
	insert(t, store, numbered("t", n)...)
	for i := range n {
		by := stint.WithAuthor(t.Context(), stint.Author{Name: fmt.Sprint("author ", i)})
		_, err := store.AbortTasks(by, []stint.TaskID{numbered("t", n)[i].ID}, "")
		wantErr(t, "AbortTasks", err, nil)
	}
	// Some have the same time.
	exec(t, pool, "UPDATE stint.changes SET changed_at = date_trunc('minute', changed_at)")
	for _, filter := range []stint.ChangeFilter{{}, {Actions: []string{"act"}}} {
		filter.Limit = 4
		seen := map[string]bool{}
		pages := 0
		for {
			page, err := store.ListChanges(t.Context(), filter)
			wantErr(t, "ListChanges", err, nil)
			pages++
			for _, c := range page.Changes {
				seen[c.By] = true
			}
			if filter.After = page.Next; page.Next == "" {
				break
			}
			if len(page.Changes) != filter.Limit {
				t.Fatalf("page %d has %d changes", pages, len(page.Changes))
			}
		}
		if len(seen) != n || pages != (n+3)/4 {
			t.Errorf("%d changes on %d pages", len(seen), pages)
		}
	}
	for _, bad := range []stint.ChangeFilter{
		{After: "x"},
		{After: "1/x"},
		{After: "1/2/3"},
		{Limit: -1},
		{Limit: 1001},
		{ID: "a\x00"},
		{ID: stint.TaskID(strings.Repeat("a", 3000))},
		{After: "99999999999999999999/1"},
		{After: "9223372036854775807/1"},
	} {
		_, err := store.ListChanges(t.Context(), bad)
		wantErr(t, fmt.Sprintf("ListChanges of %+v", bad), err, stint.ErrInvalidArgument)
	}
}

// Proves G225.
func TestWithAuthor_TakesAnyText(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for i, text := range []string{
		"", "\x00", "\xff\xfe", "line\nline\ttab\x1b[31m", strings.Repeat("é", 5000),
		strings.Repeat("\xff", 5000), "'; DROP TABLE stint.changes; --", "<script>",
	} {
		id := stint.TaskID(fmt.Sprint("t", i))
		insert(t, store, after(id))
		by := stint.WithAuthor(t.Context(), stint.Author{Name: text, Reason: text})
		_, err := store.DeleteTasks(by, []stint.TaskID{id})
		wantErr(t, "DeleteTasks", err, nil)
		got := changesOf(t, store, stint.ChangeFilter{ID: id})
		switch {
		case text == "" && len(got) == 0:
		case len(got) != 1:
			t.Errorf("%.20q: %+v", text, got)
		case len(got[0].By) > 255 || len(got[0].Reason) > 1024 || !utf8.ValidString(got[0].By) ||
			utf8.ValidString(text) && text != "\x00" && !strings.HasPrefix(text, got[0].By):
			t.Errorf("%.20q is by %q for %q", text, got[0].By, got[0].Reason)
		}
	}
}

// Proves G225.
func TestListChanges_NamesTenOfManyTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, ann := newStore(t), byAnn(t)
	const n = 3000
	tasks := numbered("t", n)
	insert(t, store, tasks...)
	_, err := store.AbortTasks(ann, named(tasks), "")
	wantErr(t, "AbortTasks", err, nil)
	got := changesOf(t, store, stint.ChangeFilter{})
	if len(got) != 1 || got[0].Items != n || len(got[0].Names) != 10 ||
		got[0].Names[0] != string(tasks[0].ID) {
		t.Errorf("changes: %+v", got)
	}
	if got := changesOf(t, store, stint.ChangeFilter{ID: tasks[n-1].ID}); len(got) != 1 {
		t.Errorf("changes of the last task: %+v", got)
	}
}

// ageChanges makes changes a day older.
func ageChanges(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, "UPDATE stint.changes SET changed_at = changed_at - interval '1 day'")
}

// Proves G225.
func TestPrune_ForgetsOldChanges(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{
		Maintenance: stint.MaintainNever,
		Retention: stint.Retention{
			Completed: stint.KeepForever, Aborted: stint.KeepForever, Changes: time.Hour,
		},
	})
	ann := byAnn(t)
	tasks := numbered("t", 5500) // more than one statement forgets
	insert(t, store, append(tasks, after("a"), after("b"))...)
	abort := func(ids ...stint.TaskID) {
		_, err := store.AbortTasks(ann, ids, "")
		wantErr(t, "AbortTasks", err, nil)
	}
	abort(named(tasks)...)
	for range 60 { // and more than one looks at
		wantErr(t, "Pause", store.Pause(ann, "act"), nil)
		wantErr(t, "Resume", store.Resume(ann, "act"), nil)
	}
	abort("a")
	ageChanges(t, pool)
	abort("b")
	wantPruned(t, store, 0)
	if n := yields[int](t, pool, "SELECT count(*)::integer FROM stint.changed_tasks"); n != 1 {
		t.Errorf("%d tasks are left", n)
	}
	got := changesOf(t, store, stint.ChangeFilter{})
	if len(got) != 1 || !reflect.DeepEqual(got[0].Names, []string{"b"}) {
		t.Errorf("changes: %+v", got)
	}
	forever := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever, Retention: stint.Retention{Changes: stint.KeepForever},
	})
	ageChanges(t, pool)
	wantPruned(t, forever, 0)
	wantChanges(t, store, "b", ofTasks("AbortTasks", "act", 0, "b"))
	_, err := stint.New(pool, stint.Options{Retention: stint.Retention{Changes: -5}})
	wantErr(t, "New", err, stint.ErrInvalidArgument)
}

// Proves G226.
func TestWithAuthor_CostsNothingWithoutAnAuthor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newStoreAndPool(t, stint.Options{})
	spied, spy := spyOn(t, pool, 2)
	store := openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, after("a"), after("b"), stint.Task{ID: "c", Action: stint.External})
	daily := stint.Schedule{Name: "daily", Spec: "@daily", Tasks: []stint.Task{{Action: "act"}}}
	calls := func(ctx context.Context) error {
		ids := []stint.TaskID{"a"}
		_, abortErr := store.AbortTasks(ctx, ids, "")
		_, retryErr := store.RetryTasks(ctx, ids)
		_, deleteErr := store.DeleteTasks(ctx, ids)
		_, answerErr := store.AnswerTasks(ctx, "ann", []stint.Answer{
			{ID: "c", Code: stint.StatusCompleted},
		})
		return errors.Join(abortErr, retryErr, deleteErr, answerErr, store.Pause(ctx, "act"),
			store.Resume(ctx, "act"), store.SetLimits(ctx, "act", stint.Limits{Concurrency: 1}),
			store.PutSchedules(ctx, []stint.Schedule{daily}), store.PauseSchedules(ctx, "daily"))
	}
	notes := []string{"note_tasks", "note_others", "note_pauses", "note_limits", "note_change"}
	wantErr(t, "the calls", calls(stint.WithAuthor(t.Context(), stint.Author{})), nil)
	for _, name := range notes {
		if n := spy.count(name); n > 0 {
			t.Errorf("%s was sent %d times", name, n)
		}
	}
	wantErr(t, "Pause", store.Pause(byAnn(t), "act"), nil)
	if n := spy.count("note_pauses"); n != 1 {
		t.Errorf("note_pauses was sent %d times for an author", n)
	}
}

// Of two who add a schedule at once, the one whose schedule it is not is not noted.
func TestChanges_LeaveOutSchedulesThatOthersHaveAdded(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	daily := []stint.Schedule{{
		Name: "daily", Spec: "0 6 * * *", Tasks: []stint.Task{{Action: "act"}},
	}}
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	wantErr(t, "EnsureSchedules", store.WithTx(tx).EnsureSchedules(t.Context(), daily), nil)
	second := start(func() (struct{}, error) {
		return struct{}{}, store.EnsureSchedules(byAnn(t), daily)
	})
	waitForLocks(t, pool, 1)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err = ends(t, "EnsureSchedules", second)
	wantErr(t, "EnsureSchedules", err, nil)
	if got := changesOf(t, store, stint.ChangeFilter{}); len(got) > 0 {
		t.Errorf("a schedule that was not added is noted: %+v", got)
	}
}
