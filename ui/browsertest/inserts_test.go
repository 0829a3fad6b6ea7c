package browsertest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// inserts are those of the forms that insert tasks.
func (sc *scope) inserts() (all []journey) {
	agrees := step{form: `form[action="change"]`}
	add := func(id, page string, fill map[string]string, ok func(task *stint.TaskInfo) bool) {
		all = append(all, journey{
			name: id, page: page, alone: true, steps: []step{button("insert"), waits(fill), agrees},
			check: func(tab *tab) {
				found, err := sc.store.GetTasks(tab.t.Context(), []stint.TaskID{sc.id(id)})
				wantNil(tab.t, err)
				if !ok(&found[0]) {
					tab.t.Errorf("the form has made: %+v", found[0])
				}
				graph, err := sc.store.Graph(tab.t.Context(), sc.id(id))
				wantNil(tab.t, err)
				of := func(c stint.EdgeCondition) bool { return c.Dependent == sc.id(id) }
				i := slices.IndexFunc(graph.Conditions, of)
				_, isAny := fill["any-of"]
				if i < 0 || graph.Conditions[i].After != sc.id("filter-1") ||
					graph.Conditions[i].Any != isAny || len(graph.Conditions[i].States) != 2 {
					tab.t.Errorf("the form has made the conditions %+v", graph.Conditions)
				}
			},
		})
	}
	when := `[{"after": ` + quoted(sc.id("filter-1")) + `, "states": ["completed", "aborted"]}]`
	typed := func(id string) map[string]string {
		return map[string]string{
			"new-id": string(sc.id(id)), "new-action": sc.action("new"), "new-key": "k 'ä' <b>",
			"new-body": "{\n \"a\": 1\n}", "new-priority": "-7", "new-max-tries": "3",
			"new-after": string(sc.id("filter-0")), "new-headers": "tenant=a=b\nx=",
			"start": "1h0m0s", "new-cost": "7", "new-deadline": "2099-12-24T18:30:15",
			"new-when": when,
		}
	}
	exact := time.Date(2099, 12, 24, 18, 30, 15, 0, time.UTC)
	isTyped := func(task *stint.TaskInfo) bool {
		return task.Action == sc.action("new") && task.Key == "k 'ä' <b>" &&
			string(task.Body) == "{\n \"a\": 1\n}" && task.Priority == -7 &&
			task.MaxTries == 3 && task.State == stint.StateBlocked &&
			task.Headers["tenant"] == "a=b" && len(task.Headers) == 2 &&
			task.Cost == 7 && task.Deadline.Equal(exact) &&
			time.Until(task.NotBefore).Round(10*time.Minute) == time.Hour
	}
	atTime := func(id string) map[string]string {
		return map[string]string{
			"new-id": string(sc.id(id)), "new-action": sc.action("new"),
			"start-at": "2099-12-24T18:30:15", "new-when": when, "any-of": "true",
		}
	}
	copied := atTime("copy-same")
	copied["same-body"], copied["new-body"] = "true", ""
	page := sc.of("task", "filter-0")
	add("insert-typed", "tasks", typed("insert-typed"), isTyped)
	add("insert-at", "tasks", atTime("insert-at"), func(task *stint.TaskInfo) bool {
		return len(task.Body) == 0 && task.NotBefore.Equal(exact) && task.Key == ""
	})
	add("copy-typed", page, typed("copy-typed"), isTyped)
	add("copy-same", page, copied, func(task *stint.TaskInfo) bool {
		return string(task.Body) == `{"n": 7}` && task.NotBefore.Equal(exact) &&
			task.Key == "k 1" && task.Headers["tenant"] == "acme"
	})
	return all
}

// timings are those of the forms that say when schedules occur, and delete them.
func (sc *scope) timings() []journey {
	timing := map[string]string{
		"spec": "30 4 * * *", "zone": "Europe/Berlin", "catch-up": "2", "window": "2h",
		"overlap": "1", "jitter": "90s", "expire": "true",
	}
	added := maps.Clone(timing)
	maps.Copy(added, map[string]string{
		"new-name": sc.action("added"), "new-action": sc.action("new"), "new-key": "k 'ä' <b>",
		"new-body": "{\n \"a\": 1\n}",
	})
	return []journey{{
		name: "edit schedule", page: "schedules", alone: true,
		steps: []step{
			{form: `tr[data-key="` + sc.action("schedule") + `"] form`, do: "schedule"},
			waits(timing), agreeing(map[string]string{"reason": "edit"}),
		},
		check: func(tab *tab) { sc.wantTimed(tab.t, "schedule", "edit") },
	}, {
		name: "add schedule", page: "schedules", alone: true,
		steps: []step{
			button("new-schedule"), waits(added), agreeing(map[string]string{"reason": "add"}),
		},
		check: func(tab *tab) {
			task := sc.wantTimed(tab.t, "added", "add").Tasks[0]
			if task.Action != sc.action("new") || task.Key != "k 'ä' <b>" ||
				string(task.Body) != "{\n \"a\": 1\n}" {
				tab.t.Errorf("the form has made a schedule of: %+v", task)
			}
		},
	}, {
		name: "delete schedule", page: "schedules", alone: true,
		steps: []step{
			{form: `tr[data-key="` + sc.action("gone") + `"] form`, do: "delete-schedule"},
			agreeing(map[string]string{"reason": "delete"}),
		},
		check: func(tab *tab) {
			found, err := sc.store.ListSchedules(tab.t.Context(), sc.action("gone"))
			wantNil(tab.t, err)
			if len(found) > 0 {
				tab.t.Errorf("the form has left: %+v", found)
			}
			sc.wantNoted(tab.t, stint.ChangeFilter{}, "for delete")
		},
	}}
}

// wantTimed checks that a schedule occurs as a form says, and who has changed it.
func (sc *scope) wantTimed(t *testing.T, name, reason string) stint.Schedule {
	t.Helper()
	found, err := sc.store.ListSchedules(t.Context(), sc.action(name))
	wantNil(t, err)
	got := found[0].Schedule
	if got.Spec != "30 4 * * *" || got.Zone != "Europe/Berlin" || got.Window != 2*time.Hour ||
		got.CatchUp != stint.CatchUpAll || got.Overlap != stint.OverlapSkip || !got.Expire ||
		got.Jitter != 90*time.Second {
		t.Errorf("the form has made of the schedule: %+v", got)
	}
	sc.wantNoted(t, stint.ChangeFilter{}, "for "+reason)
	return got
}

// mends are those of the forms beside what needs attention.
func (sc *scope) mends() (all []journey) {
	for name, of := range map[string]string{
		"top-resume": "paused ", "top-resume-key": "paused key ",
	} {
		key := of + sc.action(name)
		if strings.HasSuffix(of, "key ") {
			key += " k"
		}
		all = append(all, journey{
			name: "mend " + name, page: "", alone: true,
			steps: []step{
				{form: `li[data-key="` + key + `"] form`, do: "resume"},
				agreeing(map[string]string{"reason": name}),
			},
			check: func(tab *tab) {
				now := sc.limitsOf(tab.t, name)
				if !now.PausedSince.IsZero() || len(now.PausedKeys) > 0 {
					tab.t.Errorf("%s has the limits %+v", name, now)
				}
			},
		})
	}
	return all
}
