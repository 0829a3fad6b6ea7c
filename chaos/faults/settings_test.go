//go:build linux

package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestSettings_ApplyToSessionsThatStand(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ setting, value string }{
		"serializable":    {"default_transaction_isolation", "serializable"},
		"repeatable-read": {"default_transaction_isolation", "repeatable read"},
		"short-timeouts":  {"statement_timeout", "50ms"},
		"generic-plans":   {"plan_cache_mode", "force_generic_plan"},
		"no-index-scans":  {"enable_indexscan", "off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			conn := r.conn()
			show := func() (value string) {
				_ = conn.QueryRow(t.Context(), "SHOW "+want.setting).Scan(&value)
				return value
			}
			before := show()
			r.during(name, func() {
				r.eventually("the session has the value", func() bool {
					return show() == want.value
				})
			})
			r.eventually("the session has the value of before", func() bool {
				return show() == before
			})
		})
	}
}

func TestReadOnly_RefusesToWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("read-only", func() {
		r.eventually("a write is refused", func() bool {
			_, err := r.insert()
			return code(err) == "25006"
		})
	})
}

func TestShortTimeouts_EndStatements(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("short-timeouts", func() {
		r.eventually("a statement takes too long", func() bool {
			return code(r.exec(r.through, "SELECT pg_sleep(0.5)")) == "57014"
		})
	})
}

func TestNoConnections_RefusesClients(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serves()
	r.during("no-connections", func() {
		r.eventually("a client is refused", func() bool {
			conn, err := pgx.Connect(t.Context(), r.Server.Address())
			if err == nil {
				_ = conn.Close(t.Context())
			}
			return code(err) == "53300"
		})
	})
}

// Rows that were deleted stay on their pages as long as somebody could see them.
func (r *rig) cannotCleanUp() bool {
	noErr(r.t, r.exec(r.Server.Pool(), "DELETE FROM public.kept"))
	noErr(r.t, r.exec(r.Server.Pool(), "VACUUM public.kept"))
	return r.number("SELECT pg_relation_size('public.kept')") > 0
}

func TestSnapshots_KeepDeletedRows(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"old-snapshot", "prepared-transaction"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			noErr(t, r.exec(r.through, "INSERT INTO public.kept SELECT generate_series(1, 1000)"))
			held := r.query("held")
			r.during(name, func() {
				r.eventually("something is held", func() bool { return r.number(held) > 0 })
				if !r.cannotCleanUp() {
					t.Error("the rows were removed")
				}
			})
			r.eventually("the rows are removed", func() bool { return !r.cannotCleanUp() })
		})
	}
}

func TestAbandonedSlots_KeepWAL(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const slots = "SELECT count(*) FROM pg_replication_slots WHERE restart_lsn IS NOT NULL"
	r.during("abandoned-slots", func() {
		r.eventually("there are slots that keep WAL", func() bool { return r.number(slots) == 2 })
	})
	if n := r.number(slots); n != 0 {
		t.Errorf("%d slots are left", n)
	}
}

func TestServerClock_Jumps(t *testing.T) {
	t.Parallel()
	const far, near = 5 * time.Second, 2 * time.Second
	r := newRig(t)
	off := func() time.Duration {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var there time.Time
		err := r.Server.Pool().QueryRow(ctx, "SELECT statement_timestamp()").Scan(&there)
		if err != nil {
			return 0
		}
		return time.Since(there).Abs()
	}
	r.during("server-clock", func() {
		r.eventually("the clock is off", func() bool { return off() > far })
	})
	if got := off(); got > near {
		t.Errorf("afterwards the clock is off by %v", got)
	}
	wantWithout(t, r.Server.PostmasterPID(), "clock.so")
}
