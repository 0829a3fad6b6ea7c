//go:build linux

package faults_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/chaos/system"
)

func TestPoolers_ComeAndGo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pooler-restart", "pooler-kill"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.during(name, func() {
				var first string
				r.eventually("a statement goes through the pooler", func() bool {
					pids := r.commands("pgbouncer")
					if len(pids) == 1 {
						first = pids[0]
					}
					return first != "" && r.exec(r.through, "SELECT 1") == nil
				})
				r.eventually("the pooler is another one", func() bool {
					pids := r.commands("pgbouncer")
					return len(pids) == 1 && pids[0] != first
				})
			})
			if pids := r.commands("pgbouncer"); len(pids) > 0 {
				t.Errorf("poolers %v are left", pids)
			}
		})
	}
}

func TestPoolerPause_HoldsTransactionsUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("pooler-pause", func() {
		r.eventually("the pooler is there", func() bool {
			return len(r.commands("pgbouncer")) == 1
		})
		r.eventually("a statement takes long", func() bool {
			began := time.Now()
			err := r.exec(r.through, "SELECT 1")
			return err == nil && time.Since(began) > 50*time.Millisecond
		})
	})
	if pids := r.commands("pgbouncer"); len(pids) > 0 {
		t.Errorf("poolers %v are left", pids)
	}
}

const timeline = "SELECT timeline_id FROM pg_control_checkpoint()"

// The server serves on another timeline, and a row of the synchronous one is there that had been
// acknowledged before.
func TestFailovers_ReplaceTheServer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"failover", "synchronous-failover"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			before := r.number(timeline)
			r.shorter(name, 6*time.Second)
			if now := r.number(timeline); now <= before {
				t.Errorf("the timeline is %d, was %d", now, before)
			}
			if left, _ := filepath.Glob(filepath.Join(r.Dir, "server", "data")); len(left) > 0 {
				t.Errorf("the data of the old server are left")
			}
		})
	}
}

// shorter has a fault run to its end, while rows are inserted, and returns those that were told.
func (r *rig) shorter(name string, d time.Duration) (told []int) {
	r.t.Helper()
	f := fault(r.t, name)
	done := make(chan error, 1)
	go func() { done <- f.Do(r.t.Context(), r.System, newRand(), d) }()
	for {
		select {
		case err := <-done:
			r.skipOrFail(err)
			r.serves()
			if lost := r.lost(told); lost > 0 && !f.Loses {
				r.t.Errorf("%d of %d rows are lost, which were told", lost, len(told))
			}
			return told
		default:
		}
		if n, err := r.insert(); err == nil {
			told = append(told, n)
		}
	}
}

// lost is how many of the rows are not there.
func (r *rig) lost(told []int) (lost int) {
	r.t.Helper()
	rows, err := r.Server.Pool().Query(r.t.Context(), "SELECT n FROM public.kept")
	noErr(r.t, err)
	there, err := pgx.CollectRows(rows, pgx.RowTo[int])
	noErr(r.t, err)
	kept := map[int]bool{}
	for _, n := range there {
		kept[n] = true
	}
	for _, n := range told {
		if !kept[n] {
			lost++
		}
	}
	return lost
}

func TestRestore_ForgetsWhatCameAfterTheBackup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	told := r.shorter("restore", 6*time.Second)
	lost := r.lost(told)
	if lost == 0 || lost == len(told) {
		t.Errorf("%d of %d rows are lost", lost, len(told))
	}
}

func TestRestoreBeside_ServesACopy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n, err := r.insert()
	noErr(t, err)
	r.during("restore-beside", func() {
		r.eventually("a second server has the row", func() bool {
			sockets, _ := filepath.Glob(filepath.Join(r.Dir, "server", "s*", ".s.PGSQL.5432"))
			if len(sockets) == 0 {
				return false
			}
			config, err := pgx.ParseConfig(r.Server.Address())
			noErr(t, err)
			config.Host = filepath.Dir(sockets[0])
			conn, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				return false
			}
			defer conn.Close(t.Context())
			var found int
			const count = "SELECT count(*) FROM public.kept WHERE n = $1"
			err = conn.QueryRow(t.Context(), count, n).Scan(&found)
			return err == nil && found == 1
		})
	})
	if left := r.commands("postgres"); len(left) != 1 {
		t.Errorf("servers %v are left", left)
	}
}

func TestStandbyAddress_RefusesWrites(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("standby-address", func() {
		r.eventually("a write is refused, for the server is a standby", func() bool {
			_, err := r.insert()
			return code(err) == "25006"
		})
	})
}

func TestLostStandby_HoldsCommitsUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
	r.during("lost-standby", func() {
		r.eventually("a commit waits for the standby", func() bool {
			done := make(chan bool)
			go func() {
				_, _ = r.insert()
				close(done)
			}()
			seen := false
			for {
				select {
				case <-done:
					return seen
				default:
					seen = seen || r.number(waiting) > 0
				}
			}
		})
	})
	if got := r.text("SHOW synchronous_standby_names"); got != "" {
		t.Errorf("afterwards commits wait for %s", got)
	}
}

func TestMigrateAgain_MakesTheSchema(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	noErr(t, r.exec(r.Server.Pool(), "DROP SCHEMA stint CASCADE"))
	r.during("migrate-again", func() {
		r.eventually("the schema is there", func() bool {
			return r.text("SELECT to_regclass('stint.tasks')::text") != ""
		})
	})
}

func TestShardDown_StopsOneOfThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	shard, _ := newServer(t)
	r.Shards = []*system.Server{shard}
	answers := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, shard.Address())
		if err == nil {
			_ = conn.Close(ctx)
		}
		return err == nil
	}
	r.during("shard-down", func() {
		r.eventually("the shard does not answer", func() bool { return !answers() })
		if r.number("SELECT 1") != 1 {
			t.Error("the other server does not answer")
		}
	})
	if !answers() {
		t.Error("afterwards the shard does not answer")
	}
}

func TestHostileClients_KeepAServiceBusyAndGo(t *testing.T) {
	t.Parallel()
	var conns, halves, resets atomic.Int64
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols: protocols,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				conns.Add(-1)
			case http.StateActive, http.StateIdle:
			}
		},
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 {
				<-r.Context().Done()
				resets.Add(1)
				return
			}
			if _, err := r.Body.Read(make([]byte, 100)); err == nil {
				_, err = r.Body.Read(make([]byte, 2000))
				if err != nil {
					halves.Add(1)
				}
			}
		}),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	p := process(t, "service", "sleep", "1")
	p.Address = listener.Addr().String()
	r := newRig(t, p)
	r.during("hostile-clients", func() {
		r.eventually("calls come in half, and are broken off", func() bool {
			return conns.Load() > 3 && halves.Load() > 0 && resets.Load() > 100
		})
	})
	r.eventually("all connections are closed", func() bool { return conns.Load() == 0 })
	if err := server.Shutdown(t.Context()); !errors.Is(err, nil) {
		t.Error(err)
	}
}
