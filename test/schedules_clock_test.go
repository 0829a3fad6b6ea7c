package stint_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// The clocks of processes do not matter: one whose clock shows the year 2000 fires what is due by
// the clock of the database, and nothing else.
func TestSchedules_OccurByTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	for _, name := range []string{"due", "later"} {
		wantErr(t, "PutSchedules", store.PutSchedules(t.Context(), []stint.Schedule{{
			Name: name, Spec: "@yearly", Tasks: []stint.Task{{Action: "act"}},
		}}), nil)
	}
	exec(t, pool, "UPDATE stint.schedules SET next_at = statement_timestamp() WHERE name = 'due'")
	config := pool.Config()
	synctest.Test(t, func(t *testing.T) {
		if year := time.Now().Year(); year != 2000 {
			t.Fatalf("it is %d, want 2000", year)
		}
		other, err := pgxpool.NewWithConfig(t.Context(), config)
		wantErr(t, "NewWithConfig", err, nil)
		behind, err := stint.New(other, stint.Options{
			Maintenance: stint.MaintainNever, PollOnly: true,
		})
		wantErr(t, "New", err, nil)
		fire := fireSchedules(behind)
		for range 2 {
			wantErr(t, "fire", fire(t.Context()), nil)
		}
		wantErr(t, "Close", behind.Close(t.Context()), nil)
		other.Close()
	})
	infos, err := store.ListSchedules(t.Context())
	wantErr(t, "ListSchedules", err, nil)
	for _, info := range infos {
		if fired := !info.LastAt.IsZero(); fired != (info.Name == "due") {
			t.Errorf("%s occurred at %v", info.Name, info.LastAt)
		}
	}
	next := infos[0].NextAt.Sub(infos[0].LastAt)
	if len(infos[0].LastIDs) != 1 || next <= 0 || next > 366*24*time.Hour {
		t.Errorf("the next occurrence is %v behind the last one, of %v", next, infos[0].LastIDs)
	}
}

// Each occurrence expires at the next one, also among several that are caught up with; and what is
// missed is counted in all.
func TestSchedules_ExpireAndCountEachOccurrence(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newSchedules(t)
	all, last := scheduleOf("all", "@daily"), scheduleOf("last", "@daily")
	all.CatchUp, all.Expire, all.Window = stint.CatchUpAll, true, 100*time.Hour
	last.CatchUp = stint.CatchUpLast
	putSchedules(t, store, all, last)
	midnight := today(t, pool)
	for _, missed := range []int64{2, 4} {
		dueSince(t, pool, "all", midnight.AddDate(0, 0, -2))
		dueSince(t, pool, "last", midnight.AddDate(0, 0, -2))
		maintain(t, store)
		if got := scheduleNamed(t, store, "last").Missed; got < missed || got > missed+1 {
			t.Errorf("%d are missed, want %d", got, missed)
		}
	}
	for day := -2; day <= 0; day++ {
		at := midnight.AddDate(0, 0, day)
		deadline := yields[time.Time](t, pool, "SELECT deadline FROM stint.tasks WHERE id = $1",
			nameAt("all", at))
		if want := at.AddDate(0, 0, 1); !deadline.Equal(want) {
			t.Errorf("that of %s expires at %s, want %s", at, deadline, want)
		}
	}
}

// Lists are read in pages of a thousand.
func TestListSchedules_ListsAll(t *testing.T) {
	t.Parallel()
	store, _ := newSchedules(t)
	schedules := make([]stint.Schedule, 2001)
	for i := range schedules {
		schedules[i] = scheduleOf(fmt.Sprintf("s%04d", i), "@yearly")
	}
	putSchedules(t, store, schedules...)
	all, err := store.ListSchedules(t.Context())
	wantErr(t, "ListSchedules", err, nil)
	for i := range all {
		if all[i].Name != schedules[i].Name {
			t.Fatalf("the schedule at %d is %q", i, all[i].Name)
		}
	}
	if len(all) != len(schedules) {
		t.Errorf("%d schedules, want %d", len(all), len(schedules))
	}
}

// An occurrence that is due once more, as after a clock that was ahead, is not in its own way.
//
// Proves G183.
func TestSchedules_DoNotOverlapWithThemselves(t *testing.T) {
	t.Parallel()
	for _, overlap := range []stint.Overlap{
		stint.OverlapSkip, stint.OverlapWait, stint.OverlapAbort,
	} {
		t.Run(fmt.Sprint(overlap), func(t *testing.T) {
			t.Parallel()
			store, pool := newSchedules(t)
			schedule := scheduleOf("s", "@daily")
			schedule.Overlap = overlap
			putSchedules(t, store, schedule)
			midnight := today(t, pool)
			for range 2 {
				dueSince(t, pool, "s", midnight)
				maintain(t, store)
			}
			wantState(t, store, stint.StateReady, stint.TaskID(nameAt("s", midnight)))
			if skipped := scheduleNamed(t, store, "s").Skipped; skipped > 0 {
				t.Errorf("%d were skipped", skipped)
			}
		})
	}
}
