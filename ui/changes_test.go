package ui_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/ui"
)

// bothStores are a store, and the client of a service on it.
func bothStores(t *testing.T) (*stint.Store, map[string]ui.Store) {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{History: stint.HistoryOptions{Tries: 10}})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	at, _ := testservice.Start(t, pool, store, service.Options{})
	return store, map[string]ui.Store{
		"store": store, "client": testservice.Client(t, at, client.Options{}),
	}
}

// states are the states of tasks, or that they are gone.
func statesOf(t *testing.T, store *stint.Store, ids ...stint.TaskID) (states []stint.State) {
	t.Helper()
	found, err := store.GetTasks(t.Context(), ids)
	if err != nil && !errors.Is(err, stint.ErrTaskNotFound) {
		t.Fatal(err)
	}
	for _, id := range ids {
		i := slices.IndexFunc(found, func(task stint.TaskInfo) bool { return task.ID == id })
		if i < 0 {
			states = append(states, "gone")
		} else {
			states = append(states, found[i].State)
		}
	}
	return states
}

func wantStates(t *testing.T, store *stint.Store, want stint.State, ids ...stint.TaskID) {
	t.Helper()
	for i, state := range statesOf(t, store, ids...) {
		if state != want {
			t.Errorf("%s is %s, want %s", ids[i], state, want)
		}
	}
}

// Of one task from its page, of those selected in a list, and of all that pass a filter: what the
// page says before is what is changed, with whatever depends on it.
// Proves G221.
func TestChange_DoesWhatWasSaid(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		id := func(short string) stint.TaskID { return stint.TaskID(name + "/" + short) }
		insert(t, store,
			stint.Task{ID: id("a"), Action: name}, stint.Task{ID: id("b"), Action: name},
			stint.Task{ID: id("c"), Action: name, NotBefore: time.Now().Add(time.Hour)},
			stint.Task{ID: id("a+"), Action: "behind", After: []stint.TaskID{id("a")}},
			stint.Task{ID: id("b+"), Action: "behind", After: []stint.TaskID{id("b")}},
			stint.Task{ID: id("b++"), Action: "behind", After: []stint.TaskID{id("b+")}})
		if owned := own(t, store, name); len(owned) != 2 {
			t.Fatalf("%d tasks are owned", len(owned))
		}
		list := "/tasks?prefix=" + name + "/&action=" + name
		selected := func(do string, ids ...string) string {
			page := text(t, h, list)
			form := formWith(t, page, do)
			for i, row := range strings.Split(page, "<tr data-key=")[1:] {
				for _, short := range ids {
					if strings.HasPrefix(row, `"`+name+"/"+short+`"`) {
						form.values.Add("task", form.boxes[i])
					}
				}
			}
			return previewOf(t, h, form)
		}
		all := func(do string) string {
			return previewOf(t, h, formWith(t, text(t, h, list), do), "of", "all")
		}
		one := func(do, short string) string {
			return previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id(short))), do))
		}
		step := func(page, said string) {
			t.Helper()
			if got := sentenceOf(t, page); !strings.HasSuffix(got, " "+said+".") {
				t.Errorf("%s: before, the page says %q, want %q", name, got, said)
			}
			if got := sentenceOf(t, strings.ReplaceAll(agree(t, h, page), `<p class="would">`,
				"")); !strings.HasSuffix(got, " "+said+".") {
				t.Errorf("%s: after, the page says %q, want %q", name, got, said)
			}
		}
		step(all("abort"), "3 tasks, 2 of them in progress, and 3 that depend on them")
		wantStates(t, store, stint.StateAborted, id("a"), id("b"), id("c"), id("a+"), id("b++"))
		step(one("retry", "a"), "1 task, and 1 that were aborted or skipped because of it")
		step(selected("retry", "b", "c"),
			"2 tasks, and 2 that were aborted or skipped because of them")
		wantStates(t, store, stint.StateReady, id("a"), id("b"))
		wantStates(t, store, stint.StateBlocked, id("a+"), id("b+"), id("b++"))
		step(selected("abort", "b"), "1 task, and 2 that depend on it")
		step(all("retry"), "1 task, and 2 that were aborted or skipped because of it")
		step(one("delete", "b++"), "1 task")
		step(all("delete"), "3 tasks, and 2 of which all predecessors are deleted with them")
		wantStates(t, store, "gone", id("a"), id("b"), id("c"), id("a+"), id("b+"))
	}
}

// What has begun since it was shown waiting is left out, and told as changed: from the page of the
// task, of those selected in a list, and of all that pass a filter.
// Proves G317.
func TestChange_LeavesOutWhatHasBegunSinceItWasShown(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		begun, waits := stint.TaskID(name+"/begun"), stint.TaskID(name+"/waits")
		insert(t, store, stint.Task{ID: begun, Action: name},
			stint.Task{ID: waits, Action: name, NotBefore: time.Now().Add(time.Hour)})
		list := text(t, h, "/tasks?action="+name)
		ofAll := previewOf(t, h, formWith(t, list, "abort"), "of", "all")
		selected := formWith(t, list, "abort")
		selected.values["task"] = selected.boxes
		ofSome := previewOf(t, h, selected)
		ofOne := previewOf(t, h, formWith(t, text(t, h, "/"+address("task", begun)), "abort"))
		if got := own(t, store, name); len(got) != 1 {
			t.Fatalf("%d tasks are owned", len(got))
		}
		for of, page := range map[string]string{"one": ofOne, "all": ofAll, "some": ofSome} {
			said := agree(t, h, page)
			if !strings.Contains(said, "begun or changed since they were seen") {
				t.Errorf("%s: abort of %s says\n%s", name, of, said)
			}
			wantStates(t, store, stint.StateInProgress, begun)
		}
		wantStates(t, store, stint.StateAborted, waits)
		// The next preview shows it in progress, and whoever agrees to that aborts it.
		page := previewOf(t, h, formWith(t, text(t, h, "/"+address("task", begun)), "abort"))
		if got := sentenceOf(t, page); !strings.Contains(got, "in progress") {
			t.Errorf("%s: the page says %q", name, got)
		}
		agree(t, h, page)
		wantStates(t, store, stint.StateAborted, begun)
	}
}

// Proves G316.
func TestPreview_SaysWhatFollows(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		id := func(short string) stint.TaskID { return stint.TaskID(name + "/" + short) }
		insert(t, store, stint.Task{ID: id("flight"), Action: name},
			stint.Task{ID: id("hotel"), Action: "other"},
			stint.Task{
				ID: id("trip"), Action: "other", FailFast: true,
				After: []stint.TaskID{id("flight"), id("hotel")},
			},
			stint.Task{
				ID: id("report"), Action: "other", OnAbort: stint.RunAnyway,
				After: []stint.TaskID{id("flight")},
			},
			stint.Task{
				ID: id("party"), Action: "other", OnAbort: stint.RunAnyway,
				When: []stint.Condition{{After: id("flight"), Results: []string{"yes"}}},
			})
		page := previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id("flight"))), "abort"))
		for _, want := range []string{
			"1 task then waits for no others any more, and begins",
			"1 task is skipped then", "1 task more is aborted within about a second",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the preview lacks %q:\n%s", name, want, page)
			}
		}
	}
}

// Tasks because of which a change is refused are named, and the others are changed.
func TestChange_NamesWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		id := func(short string) stint.TaskID { return stint.TaskID(name + "/" + short) }
		insert(t, store, stint.Task{ID: id("root"), Action: "other"},
			stint.Task{ID: id("behind"), Action: name, After: []stint.TaskID{id("root")}},
			stint.Task{ID: id("free"), Action: name}, stint.Task{ID: id("gone"), Action: name})
		list := text(t, h, "/tasks?action="+name)
		form := formWith(t, list, "delete")
		form.values["task"] = form.boxes
		_, err := store.DeleteTasks(t.Context(), []stint.TaskID{id("gone")})
		wantNil(t, err)
		own(t, store, name) // the free one
		page := previewOf(t, h, form)
		wantParts(t, page, "Deletes 1 task.", "Left out", "1 task: in progress",
			"1 task: gone", string(id("gone")), string(id("free")))
		wantParts(t, agree(t, h, page), "Deleted 1 task.", "Left out", string(id("free")))
		insert(t, store, stint.Task{
			ID: id("behind"), Action: name, After: []stint.TaskID{id("root")},
		})
		_, err = store.AbortTasks(t.Context(), []stint.TaskID{id("root"), id("free")}, "")
		wantNil(t, err)
		form = formWith(t, text(t, h, "/tasks?action="+name), "retry")
		form.values["task"] = form.boxes
		page = previewOf(t, h, form)
		wantParts(t, page, "Retries 1 task.", "behind a task that was aborted, too",
			string(id("root")))
		wantParts(t, agree(t, h, page), "Retried 1 task.", "behind a task")
		wantStates(t, store, stint.StateAborted, id("behind"))
		form = formWith(t, text(t, h, "/tasks?action="+name), "abort")
		wantParts(t, previewOf(t, h, form), "No task is selected")
		form.values["task"] = form.boxes
		wantParts(t, previewOf(t, h, form), "Aborts 1 task.", "1 task: ended already")
	}
}

// A form that is sent again, by a second click, a reload or after a lost answer, changes nothing
// but what was agreed to: tasks that are no longer as they were seen stay as they are.
// Proves G221.
func TestChange_IsMadeOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	ctx := t.Context()
	for name, shown := range stores {
		h := ui.New(shown, open())
		id := stint.TaskID(name)
		insert(t, store, stint.Task{ID: id, Action: name, MaxTries: 1})
		press := func(do string) sentForm {
			return agreement(t, previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id)),
				do)))
		}
		nothing := func(form sentForm) {
			t.Helper()
			response := send(t, h, form)
			wantParts(t, text(t, h, response.Header.Get("Location")[1:]), "Nothing was changed",
				"changed since they were seen")
		}
		abort := press("abort")
		send(t, h, abort)
		wantStates(t, store, stint.StateAborted, id)
		nothing(abort)
		retry := press("retry")
		send(t, h, retry)
		wantStates(t, store, stint.StateReady, id)
		nothing(retry)
		owned := own(t, store, name)
		wantNil(t, store.ReturnTask(ctx, id, owned[0].Token, "failed", stint.StatusAborted))
		nothing(retry) // it has failed anew, which nobody has seen
		wantStates(t, store, stint.StateAborted, id)
		remove := press("delete")
		send(t, h, remove)
		insert(t, store, stint.Task{ID: id, Action: name})
		nothing(remove) // it is another task
		nothing(abort)
		wantStates(t, store, stint.StateReady, id)
	}
}

func TestChange_RefusesOldForms(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"})
	h := ui.New(store, open())
	page := previewOf(t, h, formWith(t, text(t, h, "/task?id=a"), "abort"))
	old := time.Now().Add(-2 * time.Hour).UnixMicro()
	response := send(t, h, agreement(t, page), "at", strconv.FormatInt(old, 10))
	if content := body(t, response); response.StatusCode != http.StatusConflict ||
		!strings.Contains(content, "more than an hour ago") {
		t.Errorf("an old form: %s\n%s", response.Status, content)
	}
	wantStates(t, store, stint.StateReady, "a")
}

// Who aborted a task, and why, is kept with it; and each change is logged.
// Proves G223.
func TestChange_TellsWhoAndWhy(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"}, stint.Task{ID: "b", Action: "mail"},
		stint.Task{ID: "asked", Action: stint.External})
	var log bytes.Buffer
	h := ui.New(store, ui.Options{
		Authorize: everything, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		User: func(*http.Request) string { return "ann\x00\xff@example.com" },
	})
	press := func(id stint.TaskID, do string) string {
		return previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id)), do))
	}
	agree(t, h, press("a", "abort"), "reason", "no longer needed")
	agree(t, h, press("b", "abort"))
	agree(t, h, press("a", "delete"), "reason", "it is wrong")
	agree(t, h, press("asked", "answer"), "code", "completed", "reason", "fine\r\nwith me",
		"result", "a\r\nb")
	found, err := store.GetTasks(t.Context(), []stint.TaskID{"b", "asked"})
	wantNil(t, err)
	if got := found[0].Status; got != "aborted by ann@example.com in the web interface" {
		t.Errorf("the status is %q", got)
	}
	if a := found[1]; a.Actor != "ann@example.com" || a.Status != "fine\nwith me" ||
		string(a.Result) != "a\nb" || a.State != stint.StateCompleted {
		t.Errorf("the answer is %+v", a)
	}
	for _, want := range []string{
		`change=abort by=ann@example.com reason="no longer needed"`, "tasks=1",
		`change=delete by=ann@example.com reason="it is wrong"`,
		"change=answer by=ann@example.com", "task=asked code=completed",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
	if n := strings.Count(log.String(), "changed something"); n != 4 {
		t.Errorf("%d changes are logged:\n%s", n, log.String())
	}
	insert(t, store, stint.Task{ID: "c", Action: "mail"})
	agree(t, ui.New(store, open()), press("c", "abort"), "reason", "why not")
	found, err = store.GetTasks(t.Context(), []stint.TaskID{"c"})
	wantNil(t, err)
	if got := found[0].Status; got != "why not (aborted by the web interface)" {
		t.Errorf("the status is %q", got)
	}
}

// changeStore returns a store in which something of everything can be changed, with the forms of
// the pages for that.
func changeStore(t *testing.T) (*stint.Store, map[string]sentForm) {
	t.Helper()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"},
		stint.Task{ID: "asked", Action: stint.External})
	wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{{
		Name: "nightly", Spec: "0 3 * * *", Tasks: []stint.Task{{Action: "report"}},
	}}))
	wantNil(t, store.Pause(t.Context(), "report"))
	all := ui.New(store, open())
	forms := map[string]sentForm{}
	for page, names := range map[string][]string{
		"/task?id=a": {"abort", "delete", "change"}, "/waiting": {"answer"},
		"/tasks":            {"retry", "run"},
		"/action?name=mail": {"pause", "limit"}, "/limits": {"resume"},
		"/schedules": {"trigger", "schedule", "delete-schedule"},
	} {
		for _, name := range names {
			forms[name] = formWith(t, text(t, all, page), name)
		}
	}
	return store, forms
}

// needs is the verb without which nobody may send a form.
func needs(name string) ui.Verb {
	switch name {
	case "resume":
		return ui.Pause
	case "run":
		return ui.Change
	case "delete-schedule":
		return ui.Schedule
	}
	return ui.Verb(name)
}

// accesses are what people may do: each verb alone, all but it, and so on.
func accesses() map[string][]ui.Verb {
	verbs := []ui.Verb{
		ui.Abort, ui.Retry, ui.Delete, ui.Change, ui.Pause, ui.Limit, ui.Trigger, ui.Answer,
		ui.Schedule, ui.Read, ui.ReadBodies, ui.Check,
	}
	access := map[string][]ui.Verb{"nobody": nil, "all but reading": verbs[:9]}
	for _, verb := range verbs {
		access[string(verb)+" alone"] = []ui.Verb{ui.Read, verb}
		access["all but "+string(verb)] = slices.DeleteFunc(slices.Clone(verbs),
			func(v ui.Verb) bool { return v == verb })
	}
	return access
}

// Nothing but a form that somebody sends who may do so changes anything.
// Proves G222.
func TestChange_IsForThoseWhoMay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, forms := changeStore(t)
	for who, may := range accesses() {
		h := ui.New(store, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
			return slices.Contains(may, verb)
		}})
		for name, form := range forms {
			allowed := slices.Contains(may, ui.Read) && slices.Contains(may, needs(name))
			for _, action := range []string{"preview", "change"} {
				form.action = action
				response := send(t, h, form)
				if forbidden := response.StatusCode == http.StatusForbidden; forbidden == allowed {
					t.Errorf("%s sends %s to %s: %s", who, name, action, response.Status)
				}
			}
			response := get(t, h, "/changed?do="+name, "Sec-Fetch-Site", "cross-site")
			if allowed && response.StatusCode != http.StatusNotFound {
				t.Errorf("a link of another site tells %s of %s: %s", who, name, response.Status)
			}
			response = get(t, h, "/changed?do="+name)
			if forbidden := response.StatusCode == http.StatusForbidden; forbidden == allowed {
				t.Errorf("%s looks at %s: %s", who, name, response.Status)
			}
		}
		if slices.Contains(may, ui.Read) {
			wantOffers(t, h, who, may)
		}
	}
	wantStates(t, store, stint.StateReady, "a", "asked")
}

// wantOffers checks that no page offers more than somebody may do.
func wantOffers(t *testing.T, h http.Handler, who string, may []ui.Verb) {
	t.Helper()
	for _, name := range append(pageNames("a"), "task?id=asked") {
		for _, form := range formsOf(t, body(t, get(t, h, "/"+name))) {
			for _, button := range form.buttons {
				if button != "" && !slices.Contains(may, needs(button)) {
					t.Errorf("%s is offered %s on %q", who, button, name)
				}
			}
		}
	}
}

// By default everybody is a reader, and nothing is offered.
// Proves G222.
func TestChange_IsForNobodyByDefault(t *testing.T) {
	t.Parallel()
	store, forms := changeStore(t)
	h := ui.New(store, ui.Options{})
	for _, name := range pageNames("a") {
		for _, form := range formsOf(t, body(t, get(t, h, "/"+name))) {
			if form.action != "begin-check" { // which changes nothing
				t.Errorf("by default, %q offers %v", name, form)
			}
		}
	}
	for name, form := range forms {
		for _, action := range []string{"preview", "change"} {
			form.action = action
			if r := send(t, h, form); r.StatusCode != http.StatusForbidden ||
				!strings.Contains(body(t, r), "You may not do this. Nothing was changed.") {
				t.Errorf("by default, %s is not refused at %s", name, action)
			}
		}
	}
	wantStates(t, store, stint.StateReady, "a", "asked")
}

// Links, reloads and other sites change nothing, whoever follows them.
// Proves G222.
func TestChange_IsAskedForByTheFormsOfThePages(t *testing.T) {
	t.Parallel()
	store, forms := changeStore(t)
	all := ui.New(store, open())
	for name, form := range forms {
		for _, action := range []string{"preview", "change"} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut} {
				response := ask(t, all, method, "/"+action+"?"+form.values.Encode())
				if response.StatusCode != http.StatusMethodNotAllowed {
					t.Errorf("%s %s of %s: %s", method, action, name, response.Status)
				}
			}
			for _, header := range [][]string{
				{"Sec-Fetch-Site", "cross-site"},
				{"Sec-Fetch-Site", "same-site"},
				{"Origin", "https://evil.example"},
			} {
				response := post(t, all, "/"+action, form.values.Encode(), header...)
				if response.StatusCode != http.StatusForbidden {
					t.Errorf("%v, %s of %s: %s", header, action, name, response.Status)
				}
				wantParts(t, body(t, response), "by another site")
			}
		}
	}
	wantStates(t, store, stint.StateReady, "a", "asked")
}

// Of more tasks than are changed at once, the page says how many are left, and goes on with them.
func TestChange_GoesOnPieceByPiece(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	h := ui.New(store, open())
	const n = 10_250
	var tasks []stint.Task
	for i := range n {
		tasks = append(tasks, stint.Task{ID: stint.TaskID(fmt.Sprint("t/", i)), Action: "mail"})
	}
	insert(t, store, tasks...)
	wantNil(t, store.Maintain(t.Context()))
	page := previewOf(t, h, formWith(t, text(t, h, "/tasks?action=mail&state=ready"), "abort"),
		"of", "all")
	wantParts(t, page, "Aborts 10,000 tasks.", "These are the first 10,000",
		"About 250 more are left",
		"stint abort --state=ready --action=mail")
	told := agree(t, h, page)
	wantParts(t, told, "Aborted 10,000 tasks.", "Go on with the next")
	page = previewOf(t, h, formWith(t, told, "abort"))
	wantParts(t, page, "Aborts 250 tasks.")
	if told = agree(t, h, page); strings.Contains(told, "Go on") {
		t.Errorf("it goes on without end:\n%s", told)
	}
	stats, err := store.Stats(t.Context())
	wantNil(t, err)
	if got := stats.Actions[0]; got.Ready != 0 {
		t.Errorf("%d tasks are still ready", got.Ready)
	}
}

// What is changed may pass the filter all the same: the page goes on behind it.
func TestChange_GoesOnBehindWhatItHasChanged(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	h := ui.New(store, open())
	const n = 10_250
	var tasks []stint.Task
	for i := range n {
		tasks = append(tasks, stint.Task{ID: stint.TaskID(fmt.Sprint("t/", i)), Action: "mail"})
	}
	insert(t, store, tasks...)
	change := func(page, want string, all ...string) string {
		asks := previewOf(t, h, formWith(t, page, "change"), all...)
		preview := body(t, send(t, h, asking(t, asks), "set-priority", "5"))
		wantParts(t, preview, "Changes "+want+" tasks.")
		return agree(t, h, preview)
	}
	told := change(text(t, h, "/tasks?action=mail&state=ready"), "10,000", "of", "all")
	if told = change(told, "250"); strings.Contains(told, "Go on") {
		t.Errorf("it goes on without end:\n%s", told)
	}
}

// A store offers what it can do, and previews: shards and others that cannot offer less.
func TestChange_OffersWhatTheStoreCan(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{}, open())
	for _, name := range pageNames("a") {
		if forms := formsOf(t, body(t, get(t, h, "/"+name))); len(forms) > 0 {
			t.Errorf("%q offers %v", name, forms)
		}
	}
	for _, do := range []string{"abort", "pause", "limit", "trigger", "answer"} {
		response := post(t, h, "/preview", "do="+do+"&task=AWEAAA&action=a")
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", do, response.Status)
		}
	}
}
