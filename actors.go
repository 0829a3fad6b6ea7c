package stint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/session"
)

// RegisterActor announces that actor performs tasks with these actions in this process, and binds
// the tasks that it owns through this store from now on to the store's session, a connection to the
// database. If the process dies, or its host is cut off, the session ends, and when [Options.Grace]
// has passed its tasks are handed on as if their leases had expired, within about a second
// altogether (R15). A session that is lost and made anew in time changes nothing.
//
// This only makes the hand-over fast: leases still expire, and tokens still decide who owns a task.
// A process that hangs keeps its session. Some other live store must maintain the schema, as any
// store that owns tasks does.
//
// Registering an actor again changes its actions. The call returns once the session is established.
// If ctx ends earlier, the call returns its error, and the actor is registered as soon as the
// session is. With PollOnly, or behind a pooler, it does nothing. A transaction refuses it.
func (s *Store) RegisterActor(ctx context.Context, actor ActorID, actions []string) error {
	if err := s.registerActor(ctx, actor, actions); err != nil {
		return fmt.Errorf("register actor: %w", err)
	}
	return nil
}

func (s *Store) registerActor(ctx context.Context, actor ActorID, actions []string) error {
	if err := checkActor(actor, actions); err != nil {
		return err
	}
	return s.changeActors(ctx, func(actors map[string][]string) {
		actors[string(actor)] = slices.Clone(actions)
	})
}

// UnregisterActor undoes [Store.RegisterActor]. The tasks that the actor still owns are handed on
// when their leases expire.
func (s *Store) UnregisterActor(ctx context.Context, actor ActorID) error {
	if err := checkText("actor", string(actor), actorBytesMax); err != nil {
		return fmt.Errorf("unregister actor: %w", err)
	}
	err := s.changeActors(ctx, func(actors map[string][]string) {
		delete(actors, string(actor))
	})
	if err != nil {
		return fmt.Errorf("unregister actor: %w", err)
	}
	return nil
}

// changeActors changes who is registered, and waits until the database knows.
func (s *Store) changeActors(ctx context.Context, change func(map[string][]string)) error {
	if err := s.outsideTx("; actors are registered at once"); err != nil {
		return err
	}
	if err := s.db.CheckUsable(ctx); err != nil {
		return err
	}
	return s.session.Register(ctx, change)
}

// An ActorInfo is what the store knows about a registered or attended actor.
type ActorInfo struct {
	Actor   ActorID
	Actions []string
	Tasks   int       // how many it owns through the store at which it is registered, or remotely
	Since   time.Time // when it was registered, or first attended
}

// ListActors returns the registered actors of all live processes and the remote actors that they
// attend, in the order of their IDs. An actor that is registered at several stores is listed once
// for each. A process that dies is gone from the list within a second.
func (s *Store) ListActors(ctx context.Context) ([]ActorInfo, error) {
	var actors []ActorInfo
	err := s.db.Run(ctx, pg.Step{
		Name: "list_actors",
		Read: func(rows pgx.Rows) error {
			var err error
			actors, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ActorInfo])
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("list actors: %w", err)
	}
	return actors, nil
}

// takenOverLeasesMax is how many leases of an actor that is gone one transaction hands on at most.
const takenOverLeasesMax = 100_000

// An otherSession is a row of check_sessions.
type otherSession struct {
	ID      int64
	Watches bool
	Left    *time.Duration
	Actors  []string
}

// checkSessions hands on the tasks of sessions that are gone, and have had their time to come back.
func (s *Store) checkSessions(ctx context.Context, inGrace bool) (seen session.Seen, err error) {
	var all []otherSession
	err = s.db.Run(ctx, pg.Step{
		Name: "check_sessions",
		Read: func(rows pgx.Rows) (err error) {
			all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[otherSession])
			return err
		},
	})
	if err != nil {
		return seen, err
	}
	seen.Watching, seen.Others = 1, len(all) // this store counts too, though it may have no session
	lost := false
	for _, of := range all {
		if of.Watches {
			seen.Watching++
		}
		if of.ID == s.session.ID() {
			seen.Others--
		}
		switch {
		case of.Left == nil || inGrace:
		case *of.Left > 0:
			seen.Note(*of.Left)
		default:
			lost = true
			if err := s.takeOver(ctx, of); err != nil {
				return seen, err
			}
		}
	}
	if lost { // this ends the tasks that have no tries left
		return seen, s.settleDue(ctx)
	}
	return seen, nil
}

// takeOver hands on the tasks of a session's actors, in one transaction per actor, unless the
// session comes back. Leases that somebody locks at this moment are left for the next check.
func (s *Store) takeOver(ctx context.Context, lost otherSession) error {
	for _, actor := range lost.Actors {
		pending, passed, leases := &pg.Notices{}, 0, s.scanLeases(takenOverLeasesMax)
		if err := s.db.Run(ctx, takeOverSteps(lost.ID, actor, leases, &passed)...); err != nil {
			return err
		}
		s.addNotices(leases, pending)
		s.db.Notify(ctx, pending)
	}
	return s.db.Run(ctx, pg.Step{Name: "drop_session", Args: []any{lost.ID}})
}

// takeOverSteps returns steps that hand on the tasks of an actor. They add to passed how many of
// its leases they passed over.
func takeOverSteps(session int64, actor string, leases *dueScan, passed *int) []pg.Step {
	expire := pg.Step{
		Name: "expire_session_leases", Args: []any{session, actor},
		Read: func(rows pgx.Rows) error {
			n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
			*passed += n
			return err
		},
	}
	return []pg.Step{expire, leases.step()}
}

// leave ends the session of a store that is being closed: the tasks that its actors still own are
// handed on at once, since nobody can return them through this store any more. If a call under way
// locks leases, leave waits for them for a while, and then leaves them to the stores that look for
// sessions that are gone.
func (s *Store) leave(
	ctx context.Context, conn *pgx.Conn, session int64, actors []string,
) error {
	const pauseFirst, pauseMax = 5 * time.Millisecond, time.Second
	pending := &pg.Notices{}
	for pause := pauseFirst; ; pause *= 2 {
		passed := 0
		for _, actor := range actors {
			leases := s.scanLeases(takenOverLeasesMax)
			steps := takeOverSteps(session, actor, leases, &passed)
			if err := s.db.RunOn(ctx, conn, nil, steps...); err != nil {
				return err
			}
			s.addNotices(leases, pending)
		}
		if passed == 0 || pause > pauseMax {
			break
		}
		<-time.After(pause)
	}
	if pending.Empty() {
		pending = nil
	}
	drop := pg.Step{Name: "drop_session", Args: []any{session}}
	return s.db.RunOn(ctx, conn, pending, drop)
}
