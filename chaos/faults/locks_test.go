//go:build linux

package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestLockTables_KeepsAllOthersOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("lock-tables", func() {
		r.eventually("a stranger has a table for itself", func() bool {
			return r.number(r.query("exclusive_locks")) > 0
		})
	})
	if n := r.number(r.query("exclusive_locks")); n != 0 {
		t.Errorf("afterwards %d tables are locked", n)
	}
}

func TestWaitingAlter_MakesReadersWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("waiting-alter", func() {
		r.eventually("a reader waits behind who wants to alter", func() bool {
			table := r.text(r.query("waiting_alter"))
			if table == "" {
				return false
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/5)
			defer cancel()
			_, err := r.through.Exec(ctx, "SELECT count(*) FROM "+table)
			return err != nil
		})
	})
	if n := r.number("SELECT count(*) FROM pg_attribute WHERE attname = 'chaos'"); n != 0 {
		t.Errorf("%d tables were altered", n)
	}
	if table := r.text(r.query("waiting_alter")); table != "" {
		t.Errorf("afterwards somebody wants to alter %s", table)
	}
}

func TestDeadlocks_EndWhoWaitsInACircle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill()
	r.during("deadlocks", func() {
		r.eventually("a transaction is the victim of a deadlock", func() bool {
			err := pgx.BeginFunc(t.Context(), r.through, func(tx pgx.Tx) error {
				for _, table := range []string{"tasks", "ready", "leased", "leases"} {
					_, err := tx.Exec(t.Context(), "SELECT FROM stint."+table+" FOR UPDATE")
					if err != nil {
						return err
					}
				}
				return nil
			})
			return code(err) == "40P01"
		})
	})
	noErr(t, r.exec(r.through, "SELECT FROM stint.ready FOR UPDATE NOWAIT"))
}

func TestLockRows_LetsNobodyChangeThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill()
	r.during("lock-rows", func() {
		r.eventually("a row is locked", func() bool {
			return code(r.exec(r.through, "SELECT FROM stint.ready FOR UPDATE NOWAIT")) == "55P03"
		})
	})
	noErr(t, r.exec(r.through, "SELECT FROM stint.ready FOR UPDATE NOWAIT"))
}

func TestUpkeep_MakesFilesAnew(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{
		"vacuum-full": "r", "reindex": "i", "reindex-concurrently": "i",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.changes(name, r.query("files"), kind)
			if n := r.number("SELECT count(*) FROM pg_index WHERE NOT indisvalid"); n != 0 {
				t.Errorf("%d indexes are left half made", n)
			}
		})
	}
}

// changes checks that what a query returns becomes another text while a fault is at work.
func (r *rig) changes(name, query string, args ...any) {
	r.t.Helper()
	before := r.text(query, args...)
	r.during(name, func() {
		r.eventually("something is anew", func() bool {
			now := r.text(query, args...)
			return now != before && now != ""
		})
	})
}

func TestVacuumFreeze_Vacuums(t *testing.T) {
	t.Parallel()
	newRig(t).changes("vacuum-freeze", "SELECT sum(vacuum_count)::text FROM pg_stat_all_tables")
}

func TestCheckpoints_AreMade(t *testing.T) {
	t.Parallel()
	newRig(t).changes("checkpoints", "SELECT checkpoint_lsn::text FROM pg_control_checkpoint()")
}

func TestStatistics_AreWrongMeanwhile(t *testing.T) {
	t.Parallel()
	const rows = "SELECT reltuples::bigint FROM pg_class WHERE oid = 'stint.ready'::regclass"
	const columns = "SELECT count(*) FROM pg_stats WHERE schemaname = 'stint'"
	for name, wrong := range map[string]int{"empty-statistics": 0, "wrong-statistics": 1e9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fill()
			noErr(t, r.exec(r.Server.Pool(), "ANALYZE"))
			right := r.number(rows)
			if right == wrong || r.number(columns) == 0 {
				t.Fatal("there are no statistics")
			}
			r.during(name, func() {
				r.eventually("the statistics are wrong", func() bool {
					return r.number(rows) == wrong && r.number(columns) == 0
				})
			})
			if got := r.number(rows); got != right || r.number(columns) == 0 {
				t.Errorf("afterwards there are %d rows, want %d", got, right)
			}
			if got := r.text("SHOW autovacuum"); got != "on" {
				t.Errorf("afterwards autovacuum is %s", got)
			}
		})
	}
}
