package stint_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Five maintainers, which know the schedules as different releases do, begin after nobody was there
// for hours. Their sessions are ended again and again, as those of processes that are killed are.
// Each occurrence is inserted once, none is lost, and the schedules stay as they were put first.
// Proves G173.
func TestSchedules_OccurOnceWhileMaintainersDie(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newSchedules(t)
	const hours = 3
	midnight := today(t, pool)
	var schedules []stint.Schedule
	for i := range 40 {
		schedule := scheduleOf(fmt.Sprintf("s%02d", i), "@hourly")
		schedule.CatchUp, schedule.Window = stint.CatchUpAll, 48*time.Hour
		schedules = append(schedules, schedule)
	}
	putSchedules(t, store, schedules...)
	exec(t, pool, "UPDATE stint.schedules SET next_at = $1", midnight.Add(-hours*time.Hour))

	const dying = "a maintainer that dies"
	var maintainers sync.WaitGroup
	for n := range 5 {
		release := make([]stint.Schedule, len(schedules))
		for i := range release {
			release[i] = schedules[i]
			release[i].Tasks = []stint.Task{{Action: fmt.Sprint("release ", n)}}
		}
		maintainers.Go(func() {
			for done := false; !done; {
				process := poolOf(t, pool, func(config *pgxpool.Config) {
					config.ConnConfig.RuntimeParams["application_name"] = dying
				})
				maintainer, err := stint.New(process, stint.Options{
					Maintenance: stint.MaintainNever, PollOnly: true,
				})
				if err != nil {
					t.Errorf("New = %v", err)
					return
				}
				err = maintainer.EnsureSchedules(t.Context(), release)
				if err == nil {
					err = maintainer.Maintain(t.Context())
				}
				done = err == nil // it was not killed
				process.Close()
			}
		})
	}
	const kills = 50 // of sessions, at whatever they are doing
	killed := 0
	eventuallyEvery(t, time.Minute, 2*time.Millisecond, "the sessions to be ended", func() bool {
		killed += yields[int](t, pool, `SELECT count(pg_terminate_backend(pid))
			FROM pg_stat_activity
			WHERE application_name = '`+dying+`' AND datname = current_database()
			  AND random() < 0.1`)
		open := yields[int](t, pool, "SELECT count(*) FROM stint.schedules WHERE next_at < now()")
		return killed >= kills || open == 0
	})
	maintainers.Wait()
	t.Logf("%d sessions were ended", killed)
	maintain(t, store) // what locked a schedule when the last one looked

	now := yields[time.Time](t, pool, "SELECT max(last_at) FROM stint.schedules")
	var want []string
	for at := midnight.Add(-hours * time.Hour); !at.After(now); at = at.Add(time.Hour) {
		for _, schedule := range schedules {
			want = append(want, nameAt(schedule.Name, at))
		}
	}
	wantInserted(t, pool, want...)
	others := yields[int](t, pool, "SELECT count(*) FROM stint.tasks WHERE action <> 'act'")
	if others > 0 {
		t.Errorf("%d tasks are those of a later release", others)
	}
}
