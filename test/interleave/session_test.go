package interleave_test

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testing/pgcut"
)

//go:embed sql/waits.sql
var waitsFor string

//go:embed sql/locked.sql
var locked string

// A session makes a call, and stops ahead of each of its statements.
type session struct {
	name  string // "A" or "B"
	proxy *pgcut.Proxy
	pool  *pgxpool.Pool // of one connection, through the proxy

	// These are of the call that is under way.
	stepper *pgcut.Stepper
	done    chan string
	stop    *pgcut.Stop // where it waits to be let go on; nil if it does not
	ended   bool
	answer  string
	pid     uint32
	begun   footprint // of its transaction
}

func newSession(tb testing.TB, name string, pool *pgxpool.Pool) *session {
	tb.Helper()
	proxy := pgcut.New(tb, pool)
	return &session{name: name, proxy: proxy, pool: proxy.Pool(tb, 1)}
}

// start begins a call, which stops ahead of its first statement.
func (s *session) start(call func() string) {
	s.stepper = s.proxy.Step(matters)
	s.done, s.stop, s.ended, s.answer = make(chan string, 1), nil, false, ""
	go func() { s.done <- call() }()
}

// matters picks the statements that others can notice, or that notice others: those that name the
// schema, and those that end a transaction.
func matters(statement string) bool {
	switch title(statement) {
	case "schema_version", "allocate_blocks":
		return false
	}
	return isEnd(statement) || strings.Contains(statement, `"stint".`)
}

// title is how a statement is called.
func title(statement string) string {
	first, _, _ := strings.Cut(statement, "\n")
	return strings.TrimPrefix(first, "-- name: ")
}

// atRest reports whether the session has stopped or the call has ended, if need be soon.
func (s *session) atRest(wait <-chan time.Time) bool {
	if s.stop != nil || s.ended {
		return true
	}
	select {
	case stop := <-s.stepper.Stops():
		s.stop, s.pid = &stop, stop.PID
	case s.answer = <-s.done:
		s.ended = true
		s.stepper.End()
	case <-wait:
		return false
	}
	return true
}

// A duel is two sessions, one step of one of them at a time.
type duel struct {
	sessions [2]*session
	observer *pgx.Conn
	steps    []string // what was let go on, for people to read
	// whole says that no session goes on amid a transaction of the other one.
	whole  bool
	within int // the session whose transaction is open; -1: none
}

// settle waits until each session has stopped, has ended, or waits for a lock of the other one. It
// returns those that have stopped.
func (d *duel) settle(ctx context.Context) (open []int, err error) {
	const first, most = 2 * time.Millisecond, time.Minute
	deadline := time.Now().Add(most)
	for pause := first; ; pause = min(2*pause, 10*first) {
		rest := 0
		open = nil
		for i, s := range d.sessions {
			if s.atRest(time.After(pause)) {
				rest++
			}
			if s.stop != nil {
				open = append(open, i)
			}
		}
		if rest == len(d.sessions) {
			return open, nil
		}
		// If both wait, the server ends one of them.
		if rest == 1 {
			running, resting := d.sessions[0], d.sessions[1]
			if running.stop != nil || running.ended {
				running, resting = resting, running
			}
			waits := false
			if resting.stop != nil {
				waits, err = d.waits(ctx, running, resting)
			}
			if err != nil || waits {
				return open, err
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("no session has gone on for %v, behind\n%s", most, d)
		}
	}
}

func (d *duel) waits(ctx context.Context, waiting, holding *session) (waits bool, err error) {
	if waiting.pid == 0 || holding.pid == 0 {
		return false, nil
	}
	err = d.observer.QueryRow(ctx, waitsFor, int32(waiting.pid), int32(holding.pid)).Scan(&waits)
	return waits, err
}

// step lets a session go on.
func (d *duel) step(i int) {
	s := d.sessions[i]
	name := title(s.stop.Statement)
	d.steps = append(d.steps, s.name+" "+name)
	if d.within = i; isEnd(name) {
		d.within, s.begun = -1, noFootprint()
	}
	stop := s.stop
	s.stop = nil
	stop.Release()
}

// moves are how sessions that have stopped can go on.
func (d *duel) moves(open []int) []move {
	if d.whole && slices.Contains(open, d.within) {
		open = []int{d.within}
	}
	var moves []move
	for _, i := range open {
		s := d.sessions[i]
		does := footprintOf(s.stop.Statement)
		if isEnd(s.stop.Statement) {
			does = noFootprint()
			does.ends = true
			does.add(s.begun)
		}
		does.all = d.whole
		moves = append(moves, move{i, does})
	}
	return moves
}

// A guide says which of the sessions that can goes on, and is told what it has done.
type guide interface {
	choose(open []move) int
	did(what footprint)
}

// run makes two calls at once, under a guide.
func (d *duel) run(ctx context.Context, calls [2]func() string, by guide) error {
	d.steps, d.within = nil, -1
	for i, s := range d.sessions {
		s.begun = noFootprint()
		s.start(calls[i])
	}
	open, err := d.settle(ctx)
	for err == nil && len(open) > 0 {
		moves := d.moves(open)
		i := by.choose(moves)
		does := moves[slices.IndexFunc(moves, func(m move) bool { return m.of == i })].does
		d.step(i)
		if open, err = d.settle(ctx); err != nil {
			break
		}
		if s := d.sessions[i]; !does.ends {
			if s.stop != nil || s.ended { // else it waits, so nobody knows yet
				does, err = d.done(ctx, s, does)
			}
			s.begun.add(does)
		}
		by.did(does)
	}
	return err
}

// done is what a statement has done that a session has executed.
func (d *duel) done(ctx context.Context, s *session, does footprint) (footprint, error) {
	if does.all || len(does.asks)+len(does.writes) == 0 {
		return does, nil
	}
	rows, err := d.observer.Query(ctx, locked, int32(s.pid))
	if err != nil {
		return does, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return does, err
	}
	of := tables{}
	for _, name := range names {
		of[name] = true
	}
	return does.as(of), nil
}

// String is the order of the statements so far.
func (d *duel) String() string { return "\t" + strings.Join(d.steps, "\n\t") }
