//go:build linux

package faults_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestLostCommit_CommitsAndDoesNotTell(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("lost-commit", func() {
		r.eventually("a transaction commits and its client is not told", func() bool {
			r.n++
			err := pgx.BeginFunc(t.Context(), r.through, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "INSERT INTO public.kept VALUES ($1)", r.n)
				noErr(t, err) // only the commit is cut
				return nil
			})
			return cut(err) && r.has(r.n)
		})
	})
}

func TestLostAnswer_ExecutesAndDoesNotTell(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("lost-answer", func() {
		r.eventually("a row is there and its client is not told", func() bool {
			n, err := r.insert()
			return cut(err) && r.has(n)
		})
	})
}

func TestTornAnswer_TellsHalf(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("torn-answer", func() {
		r.eventually("some rows arrive, and then an error", func() bool {
			got := 0
			rows, err := r.through.Query(t.Context(), "SELECT generate_series(1, 1000)")
			if err != nil {
				return false
			}
			for rows.Next() {
				got++
			}
			return rows.Err() != nil && got > 0 && got < 1000
		})
	})
}

func TestLostRequest_DoesNotExecute(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("lost-request", func() {
		r.eventually("a row is not there, and its client sees an error", func() bool {
			n, err := r.insert()
			return cut(err) && !r.has(n)
		})
	})
}

func TestLateRequest_ExecutesAfterTheClientHasGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("late-request", func() {
		r.eventually("a row comes later than the error of its client", func() bool {
			n, err := r.insert()
			if !cut(err) || r.has(n) {
				return false
			}
			r.eventually("the row is there", func() bool { return r.has(n) })
			return true
		})
	})
}

func TestResetConnections_BreakThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.during("reset-connections", func() {
		r.eventually("a statement breaks off", func() bool {
			return cut(r.exec(r.through, "SELECT pg_sleep(1.5)"))
		})
	})
}

func TestRefusedConnections_LetNobodyIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serves()
	r.during("refused-connections", func() {
		r.eventually("a client is turned away", func() bool {
			var refused *pgconn.ConnectError
			return errors.As(r.exec(r.through, "SELECT 1"), &refused)
		})
	})
}

// pid is the process of a session through the proxy, which is ended when the test ends.
func (r *rig) conn() *pgx.Conn {
	r.t.Helper()
	conn, err := pgx.ConnectConfig(r.t.Context(), r.through.Config().ConnConfig)
	noErr(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(r.t.Context())) })
	return conn
}

func TestHalfOpen_EndsSessionsAndTellsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn, other := r.conn(), r.conn()
	r.during("half-open", func() {
		r.eventually("the session has ended", func() bool {
			return r.number("SELECT count(*) FROM pg_stat_activity WHERE pid = $1",
				conn.PgConn().PID()) == 0
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := conn.Exec(ctx, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("on the connection a statement = %v, want that it hangs", err)
		}
	})
	if err := other.Ping(t.Context()); !cut(err) {
		t.Errorf("in the end a statement = %v, want that the connection is broken", err)
	}
}

// A request that is sent while nothing passes one way or both is answered in the end.
func TestBlocks_KeepWhatIsSent(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{
		"black-hole": false, "requests-vanish": false, "answers-vanish": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const moment, n = time.Second / 4, 77
			r := newRig(t)
			conn := r.conn()
			done := make(chan error, 1)
			r.during(name, func() {
				r.eventually("a statement hangs", func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), moment)
					defer cancel()
					_, err := r.through.Exec(ctx, "SELECT 1")
					return errors.Is(err, context.DeadlineExceeded)
				})
				go func() {
					_, err := conn.Exec(t.Context(), "INSERT INTO public.kept VALUES ($1)",
						pgx.QueryExecModeSimpleProtocol, n) // in one request
					done <- err
				}()
				if arrives {
					r.eventually("the row is there", func() bool { return r.has(n) })
				}
				select {
				case err := <-done:
					t.Errorf("the answer comes at once: %v", err)
				case <-time.After(moment):
				}
				if r.has(n) != arrives {
					t.Errorf("that the row is there is %v", !arrives)
				}
			})
			if err := <-done; err != nil || !r.has(n) {
				t.Errorf("in the end the answer is %v, and that the row is there %v", err, r.has(n))
			}
		})
	}
}

func TestLatency_MakesAnswersComeLater(t *testing.T) {
	t.Parallel()
	const often, least = 20, 2 * time.Millisecond
	r := newRig(t)
	r.serves()
	r.during("latency", func() {
		r.eventually("all answers take milliseconds", func() bool {
			for range often {
				began := time.Now()
				noErr(t, r.exec(r.through, "SELECT 1"))
				if time.Since(began) < least {
					return false
				}
			}
			return true
		})
	})
	r.eventually("an answer comes at once", func() bool {
		began := time.Now()
		return r.exec(r.through, "SELECT 1") == nil && time.Since(began) < least
	})
}
