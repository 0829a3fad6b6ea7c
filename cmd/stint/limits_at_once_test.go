//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// Two that set different limits of an action at the same time both take effect, whether they reach
// the database or a service: each has read the limits before the other one sets its own.
func TestLimit_KeepsWhatOthersSetAtTheSameTime(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, before := range map[string]stint.Limits{
		"none before": {}, "some before": {Fair: true, ConcurrencyPerKey: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			at, _ := testservice.Start(t, db.pool, db.store, service.Options{})
			if err := db.store.SetLimits(t.Context(), "mail", before); err != nil {
				t.Fatal(err)
			}
			release := db.holdLimiting(t)
			local := start(t, newCommand(t, db.env, "limit", "mail", "--concurrency", "40"))
			remote := start(t, newCommand(t, []string{"STINT_SERVER=" + at},
				"limit", "mail", "--rate", "5/m"))
			db.awaitBlocked(t, 2)
			release()
			for _, p := range []*process{local, remote} {
				if err := p.cmd.Wait(); err != nil {
					t.Errorf("%q = %v: %s", p.cmd.Args, err, p.output.String())
				}
			}
			want := before
			want.Concurrency = 40
			want.Rate = stint.Rate{Tasks: 5, Per: time.Minute, Burst: 1}
			if got := db.limits(t).Limits; got != want {
				t.Errorf("the limits are %+v, want %+v", got, want)
			}
		})
	}
}

// holdLimiting lets nobody set limits until release is called.
func (d *database) holdLimiting(t *testing.T) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testdb.URL(d.pool))
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"BEGIN", "SELECT FROM stint.supported FOR UPDATE"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// awaitBlocked waits until so many wait for locks of the database.
func (d *database) awaitBlocked(t *testing.T, n int) {
	t.Helper()
	for blocked := 0; blocked < n; {
		if err := d.pool.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`,
		).Scan(&blocked); err != nil {
			t.Fatal(err)
		}
	}
}
