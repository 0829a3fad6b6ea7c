//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestExplain_SaysWhichLimitsHoldATaskUp(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "mail", Key: "k"},
		stint.Task{ID: "b", Action: "mail", Key: "k"})
	r := db.run(t, "", "explain", "b", "--json").wantExit(t, 0)
	if strings.Contains(r.stdout, "limits") {
		t.Errorf("without limits, explain --json printed %s", r.stdout)
	}
	db.run(t, "", "limit", "mail", "--per-key", "1", "--concurrency", "5").wantExit(t, 0)
	owned, err := db.store.OwnTasks(t.Context(), "actor", 2, []string{"mail"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %+v, %v", owned, err)
	}
	db.run(t, "", "pause", "mail").wantExit(t, 0)
	db.run(t, "", "explain", "b").wantExit(t, 0).wantOutput(t,
		"\"b\" is ready, but\n  \"mail\" has been paused since 2",
		"  1 of 1 tasks with key \"k\" are in progress\n    \"a\", \"actor\" owns it until 2")
	var why struct {
		Limits struct {
			PausedSince time.Time             `json:"paused_since"`
			OfAction    []struct{ ID string } `json:"owned"`
			Busy        int                   `json:"key_in_progress"`
			Owned       []struct{ ID string } `json:"key_owned"`
			Waiting     int                   `json:"key_waiting"`
		}
	}
	db.run(t, "", "explain", "b", "--json").wantExit(t, 0).decode(t, &why)
	if l := why.Limits; l.PausedSince.IsZero() || l.Busy != 1 || l.Waiting != 1 ||
		len(l.Owned) != 1 || l.Owned[0].ID != "a" ||
		len(l.OfAction) != 1 || l.OfAction[0].ID != "a" {
		t.Errorf("explain --json = %+v", l)
	}
}

func TestStats_TellsOfLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "mail", Key: "k"},
		stint.Task{ID: "b", Action: "mail", Key: "k"}, stint.Task{ID: "c", Action: "report"})
	r := db.run(t, "", "stats").wantExit(t, 0)
	if strings.Contains(r.stdout, "PARKED") {
		t.Errorf("without limits, stats printed\n%s", r.stdout)
	}
	db.run(t, "", "limit", "mail", "--per-key", "1", "--concurrency", "7").wantExit(t, 0)
	db.run(t, "", "pause", "idle").wantExit(t, 0)
	_, err := db.store.OwnTasks(t.Context(), "actor", 2, []string{"mail"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r = db.run(t, "", "stats").wantExit(t, 0)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != 4 {
		t.Fatalf("stats printed\n%s", r.stdout)
	}
	for i, want := range []string{"PARKED LIMITS", "0 paused", "1 limited", "0"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasSuffix(got, want) {
			t.Errorf("line %d does not end with %q in\n%s", i, want, r.stdout)
		}
	}
	var stats struct {
		Actions []struct {
			Action          string
			Parked          int
			Limited, Paused bool
			Concurrency     int
		}
	}
	db.run(t, "", "stats", "--json").wantExit(t, 0).decode(t, &stats)
	if a := stats.Actions; len(a) != 3 || !a[0].Paused || a[0].Limited || a[1].Paused ||
		!a[1].Limited || a[1].Parked != 1 || a[1].Concurrency != 7 || a[2].Limited {
		t.Errorf("stats --json = %+v", a)
	}
}

func TestCheck_RemindsOfPausesAndLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.run(t, "", "pause", "mail").wantExit(t, 0)
	db.run(t, "", "pause", "report", "--key", "k").wantExit(t, 0)
	db.run(t, "", "limit", "old", "--concurrency", "1").wantExit(t, 0)
	r := db.run(t, "", "check")
	if strings.Contains(r.stdout, "mail") || strings.Contains(r.stdout, "old") {
		t.Errorf("check reminds of what was just done:\n%s", r.stdout)
	}
	for _, statement := range []string{
		"UPDATE stint.limits SET set_at = set_at - interval '3 days', " +
			"paused_at = paused_at - interval '3 days'",
		"UPDATE stint.limited_keys SET paused_at = paused_at - interval '3 days'",
	} {
		if _, err := db.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	db.run(t, "", "check").wantOutput(t, "stint resume mail", "stint limits report",
		"stint limit old --none")
}
