package ui_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// recorded is a store that tells of minutes, and may hide other tasks than those of mail.
type recorded struct {
	aFake
	hides bool
}

func (r recorded) ReadsAll(context.Context) (bool, error) { return !r.hides, nil }

func (recorded) Minutes(_ context.Context, action string) ([]stint.Minute, error) {
	until := time.Now()
	m := stint.Minute{
		Since: until.Add(-time.Minute), Until: until, Tries: 12, Completed: 4711, P95: time.Second,
	}
	if action == "mail" {
		m.Completed, m.Tries, m.Retries = 815, -1, -1 // the first minute that was noted
	}
	return []stint.Minute{m}, nil
}

func (recorded) ListChanges(context.Context, stint.ChangeFilter) (stint.ChangePage, error) {
	return stint.ChangePage{Changes: []stint.Change{
		{At: time.Now().Add(-time.Hour), By: "ann", Verb: "Pause", Action: "mail", Items: 1},
		{At: time.Now().Add(-time.Hour), By: "bob", Verb: "AbortTasks", Action: "mail", Items: 1},
	}}, nil
}

// ListActors has three that came with a deploy, one that came later, and one of another action.
func (recorded) ListActors(context.Context) ([]stint.ActorInfo, error) {
	deploy := time.Now().Add(-2 * time.Hour)
	actors := []stint.ActorInfo{{Actor: "e", Actions: []string{"other"}, Since: deploy}}
	for i, actor := range []stint.ActorID{"c", "b", "a"} {
		actors = append(actors, stint.ActorInfo{
			Actor: actor, Actions: []string{"mail"},
			Since: deploy.Add(time.Duration(3-i) * 20 * time.Second),
		})
	}
	return append(actors, stint.ActorInfo{
		Actor: "d", Actions: []string{"mail"}, Since: deploy.Add(time.Hour),
	}), nil
}

// The overview and the page of an action show the last day, as curves with marks and as a table.
// Where some tasks are hidden, the overview shows nothing of all together.
// Proves G334.
func TestDay_IsShownToThoseWhoMaySeeIt(t *testing.T) {
	t.Parallel()
	stats := func(context.Context) (stint.Stats, error) {
		return stint.Stats{Actions: []stint.ActionStats{{Action: "mail", Ready: 1}}}, nil
	}
	for _, hides := range []bool{false, true} {
		h := ui.New(recorded{aFake{stats: stats}, hides}, ui.Options{})
		all := text(t, h, "/")
		shown := strings.Contains(all, "4,711") && strings.Contains(all, "The last day")
		if shown == hides {
			t.Errorf("with hidden tasks: %t; the overview shows the day: %t", hides, shown)
		}
		one := text(t, h, "/action?name=mail")
		for part, want := range map[string]bool{
			"Fetched: not known yet": true, ">≥ 0<": true, "Fetched, at most": false,
			">815<": true, `class="mark"`: true, "by ann": true, "by bob": false, "4,711": false,
			"3 marks:": true, "3 actors registered within 40s": true, "1 actor registered": true,
		} {
			if strings.Contains(one, part) != want {
				t.Errorf("the page of the action has %q: %t", part, !want)
			}
		}
	}
}
