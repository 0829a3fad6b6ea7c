package stint_test

import (
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// They are put, triggered and deleted with the caller's transaction, or not at all.
// Proves G179.
func TestWithTx_SchedulesAreChangedWithTheTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newSchedules(t)
	ctx := t.Context()
	putSchedules(t, store, scheduleOf("old", "@daily"))
	for _, commits := range []bool{false, true} {
		tx, err := pool.Begin(ctx)
		wantErr(t, "Begin", err, nil)
		within := store.WithTx(tx)
		putSchedules(t, within, scheduleOf("new", "@daily"))
		_, err = within.TriggerSchedule(ctx, "new")
		wantErr(t, "TriggerSchedule", err, nil)
		wantErr(t, "PauseSchedules", within.PauseSchedules(ctx, "new"), nil)
		wantErr(t, "DeleteSchedules", within.DeleteSchedules(ctx, "old"), nil)
		if commits {
			wantErr(t, "Commit", tx.Commit(ctx), nil)
		} else {
			wantErr(t, "Rollback", tx.Rollback(ctx), nil)
		}
		all, err := store.ListSchedules(ctx)
		wantErr(t, "ListSchedules", err, nil)
		tasks := yields[int](t, pool, `SELECT count(*) FROM stint.tasks`)
		switch {
		case len(all) != 1 || commits != (all[0].Name == "new"):
			t.Errorf("commits %t: the schedules are %+v", commits, all)
		case commits != (tasks == 1) || commits == all[0].PausedSince.IsZero():
			t.Errorf("commits %t: %d tasks, %+v", commits, tasks, all[0])
		}
	}
}

// Wherever a process dies, the next look finds the occurrence either fired or due.
// Proves G173.
func TestSchedules_CutAnywhereOccurOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, cut := range map[string]struct {
		at    pgcut.Instant
		match pgcut.Match
	}{
		"look":            {pgcut.AtReply, pgcut.Executes("due_schedule")},
		"insert, request": {pgcut.AtRequest, pgcut.Executes("insert_tasks")},
		"insert, reply":   {pgcut.AtReply, pgcut.Executes("insert_tasks")},
		"note, request":   {pgcut.AtRequest, pgcut.Executes("advance_schedule")},
		"note, reply":     {pgcut.AtReply, pgcut.Executes("advance_schedule")},
		"commit, request": {pgcut.AtRequest, pgcut.Commits("advance_schedule")},
		"commit, reply":   {pgcut.AtReply, pgcut.Commits("advance_schedule")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			truth, pool := newSchedules(t)
			midnight := today(t, pool)
			schedule := scheduleOf("s", "@daily")
			schedule.Tasks = append(schedule.Tasks, stint.Task{ID: "b", Action: "act"})
			schedule.Tasks[0].ID = "a"
			putSchedules(t, truth, schedule)
			dueSince(t, pool, "s", midnight)
			proxy := pgcut.New(t, pool)
			store := openStore(t, proxy.Pool(t, 1), stint.Options{
				Maintenance: stint.MaintainNever, PollOnly: true,
			})
			trap := proxy.Cut(cut.at, cut.match)
			if err := fireSchedules(store)(t.Context()); err == nil || !trap.Sprung() {
				t.Errorf("it was not cut: %v", err)
			}
			maintain(t, truth)
			prefix := nameAt("s", midnight)
			wantInserted(t, pool, prefix+"/a", prefix+"/b")
			if got := scheduleNamed(t, truth, "s"); !got.LastAt.Equal(midnight) ||
				!got.NextAt.After(midnight) {
				t.Errorf("the schedule is %+v", got)
			}
		})
	}
}
