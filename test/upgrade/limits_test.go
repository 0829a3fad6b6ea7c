//go:build unix

package upgrade_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// olderSessions is how many stores of the old release have made themselves known.
const olderSessions = "SELECT count(*) FROM stint.sessions WHERE schema_version = 1"

// wantLimitingRefused checks that nothing can be limited or paused beside stores of the old
// release, by the store as by the command, and that nothing is.
func wantLimitingRefused(
	t *testing.T, pool *pgxpool.Pool, store *stint.Store, latest release, older int,
) {
	t.Helper()
	ctx := t.Context()
	why := fmt.Sprintf("are connected: %d; replace their processes first", older)
	for verb, err := range map[string]error{
		"SetLimits": store.SetLimits(ctx, "step", stint.Limits{Concurrency: 1}),
		"Pause":     store.Pause(ctx, "step"),
		"PauseKeys": store.PauseKeys(ctx, "step", "key"),
	} {
		wantErr(t, verb, err, stint.ErrSchemaVersion)
		if !strings.Contains(err.Error(), why) {
			t.Errorf("%s = %v, want %q", verb, err, why)
		}
	}
	latest.wantRefused(t, why, "limit", "step", "--concurrency", "1")
	latest.wantRefused(t, why, "pause", "step")
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.limits"); n > 0 {
		t.Errorf("there are limits of %d actions", n)
	}
}

// wantBudget checks that the task "costs" of the old release costs 1, and that what its try has
// really spent is settled.
func wantBudget(t *testing.T, store *stint.Store) {
	t.Helper()
	ctx := t.Context()
	wantErr(t, "SetLimits", store.SetLimits(ctx, "ask", stint.Limits{
		Rate: stint.Rate{Tasks: 100, Per: 24 * time.Hour, Burst: 100}, ByCost: true,
	}), nil)
	wantLeft := func(want float64) {
		t.Helper()
		limits, err := store.ListLimits(ctx, "ask")
		if err != nil || len(limits) != 1 || math.Abs(limits[0].Tokens-want) > 1 {
			t.Errorf("ListLimits = %+v, %v, want %v tokens", limits, err, want)
		}
	}
	asked := side{store, t, "new"}.own("ask", 1, time.Hour)
	wantLeft(99)
	side{store, t, "new"}.end(asked, stint.Return{Code: stint.StatusCompleted, Spent: new(60)})
	more, err := store.OwnTasks(ctx, "new", 1, []string{"ask"}, time.Hour)
	if err != nil || len(more) > 0 {
		t.Errorf("OwnTasks = %v, %v, want nothing", more, err)
	}
	wantLeft(40)
	wantErr(t, "SetLimits", store.SetLimits(ctx, "ask", stint.Limits{}), nil)
}

// Whoever sets limits replaces the processes of the old release first, and learns which are left.
// From then on such processes do not start, until nothing is limited or paused any more.
// Proves G41.
func TestSetLimits_KeepsTheOldReleaseOut(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx, pool := t.Context(), testdb.NewEmpty(t)
	old, latest := oldRelease(t, pool), newRelease(t, pool)
	old.must(t, "", "migrate")
	j := newJournal(t)
	worker, doomed := j.work(old, "step"), j.work(old, "hang")
	old.must(t, hanging("held"), "insert")
	j.wantLine("held,1,old")
	latest.must(t, "", "migrate")
	store := openStore(t, pool)
	eventually(t, "both workers have made themselves known", func() bool {
		return yields[int](t, pool, olderSessions) == 2
	})
	wantLimitingRefused(t, pool, store, latest, 2)
	doomed.kill()
	heir := j.work(latest, "hang")
	j.wantLine("held,2,new") // so the process that was killed is known to be gone
	wantLimitingRefused(t, pool, store, latest, 1)
	old.must(t, `{"id": "beside", "action": "step"}`, "insert")
	j.wantLine("beside,1,old") // who was refused keeps nobody out
	old.must(t, `{"id": "costs", "action": "ask"}`, "insert")

	worker.stop()
	wantErr(t, "SetLimits", store.SetLimits(ctx, "step", stint.Limits{Concurrency: 1}), nil)
	latest.must(t, `{"id": "limited", "action": "step"}
		{"id": "waits", "action": "step"}`, "insert")
	for _, args := range [][]string{
		{"ls"}, {"insert", "--action", "step"}, {"worker", "--dir", j.dir, "--action", "step"},
	} {
		old.wantRefused(t, "2 and up", args...)
	}
	wantBudget(t, store)
	limited := side{store, t, "new"}.own("step", 1, time.Hour)
	if more, err := store.OwnTasks(ctx, "new", 1, []string{"step"}, time.Hour); err != nil ||
		len(more) > 0 {
		t.Errorf("OwnTasks = %v, %v, want nothing above the limit", more, err)
	}

	eventually(t, "those who were refused are known to be gone", func() bool {
		return yields[int](t, pool, olderSessions) == 0
	})
	wantErr(t, "Pause", store.Pause(ctx, "other"), nil)
	wantErr(t, "PauseKeys", store.PauseKeys(ctx, "step", "key"), nil)
	wantErr(t, "SetLimits", store.SetLimits(ctx, "step", stint.Limits{}), nil)
	old.wantRefused(t, "2 and up", "ls") // because of both pauses
	latest.must(t, "", "resume", "other")
	old.wantRefused(t, "2 and up", "ls") // because of the key's
	wantErr(t, "ResumeKeys", store.ResumeKeys(ctx, "step", "key"), nil)
	back := j.work(old, "step")
	j.wantLine("waits,1,old")
	_, c := old.serve(t)
	// The tokens of tasks that were fetched under limits have a bit more.
	err := c.ReturnTask(ctx, limited[0].ID, limited[0].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask to the old release", err, stint.ErrInvalidToken)
	side{store, t, "new"}.complete(limited...)
	side{c, t, "old"}.wantState("completed", "held", "beside", "limited")
	eventually(t, "the end of the last task", func() bool {
		return side{c, t, "old"}.get("waits").State == stint.StateCompleted
	})
	back.stop()
	heir.stop()
	wantClean(t, store, old)
}
