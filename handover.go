package stint

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/outage"
)

const (
	// How often a store checks whether the sessions of others live. If many stores check, each
	// checks less often, and all together about ten times a second.
	watchEvery    = 250 * time.Millisecond
	watchPerStore = 100 * time.Millisecond

	// A store that could not check for a while may be one of many that could not reach the
	// database. Once it can check again, it gives the sessions of the others this long to come
	// back, which is longer than the pauses between their attempts.
	outageGrace = 5 * time.Second

	// How many leases of an actor that is gone are handed on at most, all in one transaction.
	handedOnLeasesMax = 100_000
)

// watchSessions hands on the tasks of processes that die, until the store is closed.
func (s *Store) watchSessions(ctx context.Context) {
	outages := outage.New(s.logger, "could not look for processes that are gone")
	pause := watchEvery
	grace := time.NewTimer(0) // runs while the others have time to come back
	defer grace.Stop()
	inGrace, failing, lost := true, false, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-grace.C:
			inGrace = false
			continue
		case <-time.After(pause):
		}
		was := lost
		if lost = s.isSessionLost(); lost && !was { // the sessions of others may be lost too
			inGrace = true
			grace.Reset(outageGrace)
		}
		next, err := s.checkSessions(ctx, inGrace)
		switch {
		case s.failed(ctx, outages, err):
			inGrace, failing = true, true
			grace.Stop()
			next = pauseAfterWork(true, pause, watchEvery)
		case failing:
			failing = false
			grace.Reset(outageGrace)
		}
		pause = next
	}
}

// An otherSession is a row of check_sessions.
type otherSession struct {
	ID      int64
	Watches bool
	Left    *time.Duration
	Actors  []string
}

// checkSessions hands on the tasks of sessions that are gone, unless these still have time to come
// back, and returns when to check again.
func (s *Store) checkSessions(ctx context.Context, inGrace bool) (time.Duration, error) {
	var others []otherSession
	err := s.run(ctx, step{
		name: "check_sessions",
		read: func(rows pgx.Rows) error {
			var err error
			others, err = pgx.CollectRows(rows, pgx.RowToStructByPos[otherSession])
			return err
		},
	})
	if err != nil {
		return 0, err
	}
	watching, lost := 1, false // this store counts too, though it may have no session
	for _, session := range others {
		if session.Watches {
			watching++
		}
	}
	pause := around(max(watchEvery, time.Duration(watching)*watchPerStore))
	for _, session := range others {
		switch {
		case session.Left == nil || inGrace:
		case *session.Left > 0:
			pause = min(pause, *session.Left+time.Millisecond)
		default:
			lost = true
			if err := s.handOn(ctx, session); err != nil {
				return 0, err
			}
		}
	}
	if lost { // this ends the tasks that have no tries left
		return pause, s.settleDue(ctx)
	}
	return pause, nil
}

// handOn hands on the tasks of a session's actors, in one transaction per actor, unless the session
// comes back. Leases that somebody locks at this moment are left for the next check.
func (s *Store) handOn(ctx context.Context, lost otherSession) error {
	for _, actor := range lost.Actors {
		pending, passed, leases := &notices{}, 0, s.scanLeases(handedOnLeasesMax)
		if err := s.run(ctx, handOnSteps(lost.ID, actor, leases, &passed)...); err != nil {
			return err
		}
		s.addNotices(leases, pending)
		s.notify(ctx, pending)
	}
	return s.run(ctx, step{name: "drop_session", args: []any{lost.ID}})
}

// handOnSteps returns steps that hand on the tasks of an actor. They add to passed how many of its
// leases they passed over.
func handOnSteps(session int64, actor string, leases *dueScan, passed *int) []step {
	expire := step{
		name: "expire_leases", args: []any{session, actor},
		read: func(rows pgx.Rows) error {
			n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
			*passed += n
			return err
		},
	}
	return []step{expire, leases.step()}
}

// leave ends the session of a store that is being closed: the tasks that its actors still own are
// handed on at once, since nobody can return them through this store any more. If a call under way
// locks leases, leave waits for them for a while, and then leaves them to the stores that look for
// sessions that are gone.
func (s *Store) leave(ctx context.Context, conn *pgx.Conn) error {
	const pauseFirst, pauseMax = 5 * time.Millisecond, time.Second
	s.session.mutex.Lock()
	actors := make([]string, 0, len(s.session.actors))
	for actor := range s.session.actors {
		actors = append(actors, string(actor))
	}
	s.session.mutex.Unlock()
	pending := &notices{}
	for pause := pauseFirst; ; pause *= 2 {
		passed := 0
		for _, actor := range actors {
			leases := s.scanLeases(handedOnLeasesMax)
			steps := handOnSteps(s.session.id, actor, leases, &passed)
			if err := s.sendAlone(ctx, conn, conn, nil, steps); err != nil {
				return err
			}
			s.addNotices(leases, pending)
		}
		if passed == 0 || pause > pauseMax {
			break
		}
		<-time.After(pause)
	}
	if pending.empty() {
		pending = nil
	}
	drop := step{name: "drop_session", args: []any{s.session.id}}
	return s.sendAlone(ctx, conn, conn, pending, []step{drop})
}
