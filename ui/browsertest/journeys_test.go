package browsertest

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// A scope is where forms are: on the pages of a store, or of all shards, of which it is one.
type scope struct {
	*scene
	folder, shard string
}

// id is the ID of a task of this scope in the store.
func (sc *scope) id(name string) stint.TaskID {
	return stint.TaskID("forms" + sc.folder + name)
}

// shown is the same on its pages.
func (sc *scope) shown(name string) string { return sc.shard + string(sc.id(name)) }

// of is the address of a page about a task.
func (sc *scope) of(page, name string) string {
	return page + "?id=" + url.QueryEscape(sc.shown(name))
}

// with is the address of the list of the tasks whose IDs begin so.
func (sc *scope) with(name string) string {
	return "tasks?prefix=" + url.QueryEscape(sc.shown(name))
}

// action is one of this scope.
func (sc *scope) action(name string) string { return "form-" + sc.shard + name }

// insert inserts the tasks that the forms are about.
func (sc *scope) insert(t *testing.T) {
	t.Helper()
	later := time.Now().Add(time.Hour)
	var tasks []stint.Task
	add := func(name, action string, edit ...func(*stint.Task)) {
		task := stint.Task{ID: sc.id(name), Action: sc.action(action), Body: []byte("x")}
		for _, e := range edit {
			e(&task)
		}
		tasks = append(tasks, task)
	}
	scheduled := func(task *stint.Task) { task.NotBefore = later }
	for _, name := range []string{"one", "list", "all"} {
		for _, do := range []string{"abort", "retry", "delete", "change", "move"} {
			add(name+"-"+do, "plain")
		}
		add(name+"-run", "plain", scheduled)
	}
	add("alike-retry", "alike")
	for i, edit := range []func(*stint.Task){
		func(*stint.Task) {},
		func(task *stint.Task) { task.Action = sc.action("other") },
		func(task *stint.Task) { task.ID = sc.id("unlike") },
		func(task *stint.Task) { task.Key = "other" },
		func(task *stint.Task) { task.Headers = map[string]string{"tenant": "other"} },
		func(task *stint.Task) { task.Body = []byte(`{"n": 8}`) },
		func(*stint.Task) {}, // of which another message tells
	} {
		add(fmt.Sprint("filter-", i), "filtered", func(task *stint.Task) {
			task.Key, task.Headers = "k 1", map[string]string{"tenant": "acme"}
			task.Body = []byte(`{"n": 7}`)
		}, edit)
	}
	external := func(task *stint.Task) { task.Action, task.PostResult = stint.External, true }
	for _, where := range []string{"one", "list"} {
		for _, code := range []string{"completed", "aborted", "skipped"} {
			add(where+"-answer-"+code, "", external, func(task *stint.Task) {
				if code == "completed" {
					task.AnswerKey = "a secret of ours"
				}
			})
		}
	}
	for _, name := range sc.settable() {
		add(name, name, func(task *stint.Task) { task.Key = "k" })
	}
	wantNil(t, sc.store.InsertTasks(t.Context(), tasks))
	owned, err := sc.store.OwnTasks(t.Context(), "former", 9,
		[]string{sc.action("filtered"), sc.action("other")}, time.Hour)
	wantNil(t, err)
	if len(owned) != 7 {
		t.Fatalf("%d tasks are owned", len(owned))
	}
	for _, task := range owned {
		message := "It waits for Ann: 50%"
		if task.ID == sc.id("filter-6") {
			message = "It waits for Ann: 500"
		}
		wantNil(t, sc.store.SetStatus(t.Context(), task, message, 0))
	}
	_, err = sc.store.AbortTasks(t.Context(), []stint.TaskID{
		sc.id("one-retry"), sc.id("list-retry"), sc.id("all-retry"),
	}, "")
	wantNil(t, err)
	failed, err := sc.store.OwnTasks(t.Context(), "former", 1, []string{sc.action("alike")},
		time.Hour)
	wantNil(t, err)
	wantNil(t, sc.store.ReturnTask(t.Context(), failed[0].ID, failed[0].Token, "it is torn",
		stint.StatusAborted))
	sc.insertSettings(t)
}

// insertSettings sets limits, pauses and schedules that the forms are about.
func (sc *scope) insertSettings(t *testing.T) {
	t.Helper()
	var all []stint.Schedule
	for _, name := range sc.settable() {
		if strings.HasPrefix(name, "list") || strings.HasPrefix(name, "task") {
			wantNil(t, sc.store.SetLimits(t.Context(), sc.action(name),
				stint.Limits{Concurrency: 5}))
		}
		if strings.HasSuffix(name, "-resume") {
			wantNil(t, sc.store.Pause(t.Context(), sc.action(name)))
		}
		if strings.HasSuffix(name, "-resume-key") {
			wantNil(t, sc.store.PauseKeys(t.Context(), sc.action(name), "k"))
		}
	}
	for _, name := range []string{"pause", "resume", "trigger", "schedule", "gone"} {
		all = append(all, stint.Schedule{
			Name: sc.action(name), Spec: "0 3 * * *", Tasks: []stint.Task{{Action: "x"}},
		})
	}
	wantNil(t, sc.store.PutSchedules(t.Context(), all))
	wantNil(t, sc.store.PauseSchedules(t.Context(), sc.action("resume")))
}

// settable are names of actions that forms pause and limit: on the overview, on their pages, in the
// list of limits, and on the page of a task.
func (sc *scope) settable() (names []string) {
	for _, where := range []string{"top", "one", "list", "task"} {
		for _, do := range []string{
			"pause", "resume", "resume-key", "pause-key", "limit", "order",
		} {
			names = append(names, where+"-"+do)
		}
	}
	return names
}

// A journey begins at a page, and fills in one form after the other. The check looks at the tables.
type journey struct {
	name, page string
	alone      bool // only the pages of a store have it
	steps      []step
	check      func(tab *tab)
}

// button is the form with a button.
func button(do string) step {
	return step{form: `main form:has(button[value="` + do + `"])`, do: do}
}

// agreeing agrees to what is asked, with a reason.
func agreeing(fill map[string]string) step {
	all := map[string]string{"reason": "for " + fill["reason"]}
	for name, value := range fill {
		if name != "reason" {
			all[name] = value
		}
	}
	return step{form: `form[action="change"]`, fill: all}
}

// waits are how tasks are to wait, as a form has it.
func waits(fill map[string]string) step {
	return step{form: `form.agree[action="preview"]`, fill: fill}
}

func journeys(sc *scope) []journey {
	return slices.Concat(sc.lists(), sc.tasks(), sc.answers(), sc.settings(), sc.limits(),
		sc.inserts(), sc.timings(), sc.mends())
}

// lists are those of the forms that show something.
func (sc *scope) lists() []journey {
	rows := func(tab *tab, want ...string) {
		tab.t.Helper()
		got := eval[string](tab, `[...document.querySelectorAll("main tbody tr")].
			map((row) => row.dataset.key).sort().join("\n")`)
		if got != strings.Join(want, "\n") {
			tab.t.Errorf("at %s are the rows\n%s\nwant\n%s",
				eval[string](tab, "location.href"), got,
				strings.Join(want, "\n"))
		}
	}
	filtering := map[string]string{
		"state": "in-progress", "action": sc.action("filtered"), "prefix": sc.shown("filter-"),
		"key": "k 1", "header": "tenant=acme", "actor": "former", "age": "1h",
		"body": "$.n == 7", "message": "for ann: 50%",
		"order": "newest", "size": "200", "with-key": "true", "with-priority": "true",
		"with-took": "true",
	}
	if sc.shard == "" { // otherwise the beginnings of bodies cannot be read
		filtering["with-body"] = "true"
	}
	begun := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	return []journey{{
		name: "find", page: "actors",
		steps: []step{{form: "form.find", fill: map[string]string{"prefix": sc.shown("all-r")}}},
		check: func(tab *tab) { rows(tab, sc.shown("all-retry"), sc.shown("all-run")) },
	}, {
		name: "filter tasks", page: "tasks",
		steps: []step{{form: "form.filter", fill: filtering}},
		check: func(tab *tab) {
			rows(tab, sc.shown("filter-0"))
			const chosen = `["age", "order", "size"].map((name) =>
				document.querySelector("form.filter [name=" + name + "]").value).join()`
			if got := eval[string](tab, chosen); got != "1h,newest,200" {
				tab.t.Errorf("the form has %s", got)
			}
		},
	}, {
		name: "filter actions", page: "actions",
		steps: []step{{form: "form.filter", fill: map[string]string{
			"part": strings.ToUpper(sc.action("filter")),
		}}},
		check: func(tab *tab) { rows(tab, sc.action("filtered")) },
	}, {
		name: "filter changes", page: "changes", alone: true,
		steps: []step{{form: "form.filter", fill: map[string]string{
			"id": "mail/10039", "action": "mail",
		}}},
		check: func(tab *tab) {
			const said = `[...document.querySelectorAll("main tbody tr")].` +
				`map((r) => r.innerText).join()`
			if got := eval[string](tab, said); strings.Count(got, "mail/10039") != 1 ||
				!strings.Contains(got, "not sent any more") {
				tab.t.Errorf("the changes are %q", got)
			}
		},
	}, {
		name: "check", page: "check",
		steps: []step{{form: `form[action="begin-check"]`}},
		check: func(tab *tab) {
			tab.await(`document.querySelector("main .details time")?.dateTime > "` + begun + `"`)
		},
	}}
}

// tasks are those of the forms that change tasks: of one, of those that are selected in a list, and
// of all that pass its filter.
func (sc *scope) tasks() (all []journey) {
	type waiting map[string]string
	exact := time.Date(2099, 12, 24, 18, 30, 15, 0, time.UTC)
	for where, page := range map[string]func(name string) string{
		"one":  func(name string) string { return sc.of("task", name) },
		"list": sc.with, "all": sc.with,
	} {
		for name, typed := range map[string]waiting{
			"abort": nil, "delete": nil, "retry": nil, "run": nil,
			"change": {
				"start": "1h0m0s", "set-priority": "-7", "set-max-tries": "3",
				"set-key": "k 'ä' <b>",
			},
			"move": {"start-at": "2099-12-24T18:30:15", "set-priority": "5", "no-key": "true"},
		} {
			do := name
			if typed != nil {
				do = "change"
			}
			id := where + "-" + name
			first := button(do)
			switch where {
			case "list":
				first.fill = map[string]string{"task": "*"}
			case "all":
				first.fill = map[string]string{"of": "all"}
			}
			steps := []step{first}
			if typed != nil {
				steps = append(steps, waits(typed))
			}
			all = append(all, journey{
				name: id, page: page(id),
				steps: append(steps, agreeing(map[string]string{"reason": id})),
				check: func(tab *tab) { sc.wantTask(tab.t, id, name, exact) },
			})
		}
	}
	const alike = "alike-retry"
	return append(all, journey{
		name:  alike,
		page:  "alike?error=it+is+torn&action=" + url.QueryEscape(sc.action("alike")),
		steps: []step{button("retry"), agreeing(map[string]string{"reason": alike})},
		check: func(tab *tab) { sc.wantTask(tab.t, alike, "retry", exact) },
	})
}

// wantTask checks what a form has made of a task.
func (sc *scope) wantTask(t *testing.T, id, did string, exact time.Time) {
	t.Helper()
	found, err := sc.store.GetTasks(t.Context(), []stint.TaskID{sc.id(id)})
	if did == "delete" {
		if err == nil {
			t.Errorf("%s is not deleted", id)
		}
	} else {
		wantNil(t, err)
		task, ok := found[0], false
		switch did {
		case "abort":
			ok = task.State == stint.StateAborted && strings.Contains(task.Status, "for "+id)
		case "retry", "run":
			ok = task.State == stint.StateReady
		case "change":
			ok = task.Priority == -7 && task.MaxTries == 3 && task.Key == "k 'ä' <b>" &&
				time.Until(task.NotBefore).Round(10*time.Minute) == time.Hour
		case "move":
			ok = task.Priority == 5 && task.Key == "" && task.NotBefore.Equal(exact)
		}
		if !ok {
			t.Errorf("the form has made of %s: %+v", id, task)
		}
	}
	sc.wantNoted(t, stint.ChangeFilter{ID: sc.id(id)}, "for "+id)
}

// wantNoted checks that a change is noted with its author and reason.
func (sc *scope) wantNoted(t *testing.T, of stint.ChangeFilter, reason string) {
	t.Helper()
	page, err := sc.store.ListChanges(t.Context(), of)
	wantNil(t, err)
	if !slices.ContainsFunc(page.Changes, func(c stint.Change) bool {
		return c.By == "ann@example.com" && c.Reason == reason
	}) {
		t.Errorf("no change of %+v because %q: %+v", of, reason, page.Changes)
	}
}

// answers are those of the forms that answer tasks.
func (sc *scope) answers() (all []journey) {
	for _, where := range []string{"one", "list"} {
		for _, code := range []string{"completed", "aborted", "skipped"} {
			id := where + "-answer-" + code
			page, first := sc.of("task", id), button("answer")
			if where == "list" {
				page = "waiting"
				first.form = `tr[data-key="` + sc.shown(id) + `"] form`
			}
			fill := map[string]string{"code": code, "reason": id}
			if code == "completed" {
				fill["result"], fill["answer-key"] = "yes\nindeed", "a secret of ours"
			}
			all = append(all, journey{
				name: id, page: page, steps: []step{first, agreeing(fill)},
				check: func(tab *tab) {
					t := tab.t
					found, err := sc.store.GetTasks(t.Context(), []stint.TaskID{sc.id(id)})
					wantNil(t, err)
					task, result := found[0], ""
					if code == "completed" {
						result = "yes\nindeed"
					}
					if string(task.State) != code || string(task.Result) != result ||
						task.Status != "for "+id ||
						(task.Actor == "ann@example.com") != (code != "skipped") {
						t.Errorf("the form has made of %s: %+v", id, task)
					}
				},
			})
		}
	}
	return all
}

// settings are those of the forms that pause and resume, and of schedules.
func (sc *scope) settings() (all []journey) {
	add := func(name, page string, first step, check func(t *testing.T)) {
		all = append(all, journey{
			name: name, page: page, alone: true,
			steps: []step{first, agreeing(map[string]string{"reason": name})},
			check: func(tab *tab) {
				check(tab.t)
				of := stint.ChangeFilter{Actions: []string{sc.action(name)}}
				sc.wantNoted(tab.t, of, "for "+name)
			},
		})
	}
	paused := func(name string, action, key bool) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			found := sc.limitsOf(t, name)
			_, isKey := found.PausedKeys["k"]
			if !found.PausedSince.IsZero() != action || isKey != key {
				t.Errorf("%s has the limits %+v", name, found)
			}
		}
	}
	for _, where := range []string{"one", "list", "task"} {
		page := func(do string) string {
			switch where {
			case "one":
				return "action?name=" + url.QueryEscape(sc.action(where+"-"+do))
			case "task":
				return sc.of("task", where+"-"+do)
			}
			return "limits"
		}
		first := func(name, do, within string) step {
			st := button(do)
			if where == "list" {
				st.form = `tr[data-key="` + sc.action(where+"-"+name) + `"] ` + within +
					` form:has(button[value="` + do + `"])`
			}
			return st
		}
		if where != "task" {
			add(where+"-pause", page("pause"), first("pause", "pause", ".offers"),
				paused(where+"-pause", true, false))
		}
		add(where+"-resume", page("resume"), first("resume", "resume", ".offers"),
			paused(where+"-resume", false, false))
		add(where+"-resume-key", page("resume-key"), first("resume-key", "resume", ".paused"),
			paused(where+"-resume-key", false, false))
		if where == "one" {
			add("one-pause-key", page("pause-key"), step{
				form: "main form:has([name=typed])", do: "pause",
				fill: map[string]string{"typed": "k"},
			}, paused("one-pause-key", false, true))
		}
	}
	return append(all, sc.schedules()...)
}

// schedules are those of the forms that pause, resume and trigger schedules.
func (sc *scope) schedules() (all []journey) {
	for _, do := range []string{"pause", "resume", "trigger"} {
		check := func(t *testing.T) {
			t.Helper()
			found, err := sc.store.ListSchedules(t.Context(), sc.action(do))
			wantNil(t, err)
			tasks, err := sc.store.ListTasks(t.Context(), stint.Filter{
				IDPrefix: sc.action(do) + "/",
			})
			wantNil(t, err)
			if found[0].PausedSince.IsZero() != (do != "pause") ||
				(len(tasks.Tasks) == 1) != (do == "trigger") {
				t.Errorf("%s has made of the schedule: %+v, and %+v", do, found[0], tasks.Tasks)
			}
		}
		all = append(all, journey{
			name: do, page: "schedules", alone: true,
			steps: []step{
				{form: `tr[data-key="` + sc.action(do) + `"] form`, do: do},
				agreeing(map[string]string{"reason": do}),
			},
			check: func(tab *tab) {
				check(tab.t)
				sc.wantNoted(tab.t, stint.ChangeFilter{}, "for "+do)
			},
		})
	}
	return all
}

func (sc *scope) limitsOf(t *testing.T, name string) stint.ActionLimits {
	t.Helper()
	found, err := sc.store.ListLimits(t.Context(), sc.action(name))
	wantNil(t, err)
	if len(found) == 0 {
		return stint.ActionLimits{}
	}
	return found[0]
}

// limits are those of the forms that set limits: with fair shares, and in strict order.
func (sc *scope) limits() (all []journey) {
	for _, where := range []string{"one", "list", "task"} {
		for _, do := range []string{"limit", "order"} {
			name := where + "-" + do
			page, first := "action?name="+url.QueryEscape(sc.action(name)), button("limit")
			switch where {
			case "list":
				page = "limits"
				first.form = `tr[data-key="` + sc.action(name) + `"] .offers form`
			case "task":
				page = sc.of("task", name)
			}
			fill := map[string]string{
				"concurrency": "70", "per-key": "3", "rate": "100", "rate-per": "1m0s",
				"burst":    "50",
				"rate-key": "10", "rate-key-per": "1h0m0s", "burst-key": "2", "fair": "true",
				"fair-group": "tenants", "reason": name,
			}
			want := stint.Limits{
				Concurrency: 70, ConcurrencyPerKey: 3, Fair: true, FairGroup: "tenants",
				Rate:       stint.Rate{Tasks: 100, Per: time.Minute, Burst: 50},
				RatePerKey: stint.Rate{Tasks: 10, Per: time.Hour, Burst: 2},
			}
			if do == "order" {
				fill = map[string]string{
					"concurrency": "70", "ordered": "true", "rate": "100", "rate-per": "1m0s",
					"burst": "50", "by-cost": "true", "reason": name,
				}
				want = stint.Limits{
					Concurrency: 70, ConcurrencyPerKey: 1, Ordered: true, ByCost: true,
					Rate: stint.Rate{Tasks: 100, Per: time.Minute, Burst: 50},
				}
			}
			all = append(all, journey{
				name: name, page: page, alone: true, steps: []step{first, agreeing(fill)},
				check: func(tab *tab) {
					if got := sc.limitsOf(tab.t, name).Limits; got != want {
						tab.t.Errorf("%s has set %+v, want %+v", name, got, want)
					}
					sc.wantNoted(tab.t, stint.ChangeFilter{Actions: []string{sc.action(name)}},
						"for "+name)
				},
			})
		}
	}
	return append(all, sc.weights()...)
}

// weights are those of the forms that set the weight of a key, where keys take turns by now.
func (sc *scope) weights() (all []journey) {
	for i, where := range []string{"one", "list"} {
		name, key := where+"-limit", "k 'ä' <b>"
		page, first := "action?name="+url.QueryEscape(sc.action(name)), button("weigh")
		if where == "list" {
			page, first.form = "limits", `tr[data-key="`+sc.action(name)+`"] .offers form`
		}
		all = append(all, journey{
			name: "weigh " + name, page: page, alone: true,
			steps: []step{
				first, waits(map[string]string{"typed": key, "weight": strconv.Itoa(i + 2)}),
				agreeing(map[string]string{"reason": "weigh"}),
			},
			check: func(tab *tab) {
				if got := sc.limitsOf(tab.t, name).Weights; got[key] != i+2 {
					tab.t.Errorf("%s has the weights %v", name, got)
				}
				of := stint.ChangeFilter{Actions: []string{sc.action(name)}}
				sc.wantNoted(tab.t, of, "for weigh")
			},
		})
	}
	return all
}
