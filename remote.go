package stint

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A RemoteActor is an actor in a process that does not reach the database. It asks through
// services, processes with a store, which come and go: its tasks do not depend on any of them. It
// owns tasks by [Store.ClaimTasks] with its session, and its leases are bound to that. The service
// to which it is connected attends it ([Store.AttendActor]), and hands its tasks on when it is gone
// ([Store.DismissActor]).
type RemoteActor struct {
	Actor ActorID

	// Session is a random number that the process has made for itself, other than 0.
	Session int64

	// Epoch counts the connections of the process: each has a larger one than the one before, so
	// that a service that notices late that an earlier connection is gone changes nothing.
	Epoch int64
}

// AttendActor notes that this store attends a connection of a remote actor, so that
// [Store.ListActors] shows it for as long as the process of the store lives. It reports whether the
// connection is the actor's latest; if not, the service should end it. The call may be repeated,
// and should be now and then, since others forget the actor when they believe for a while that this
// process is gone.
//
// With PollOnly, or behind a pooler, the actor is not shown.
func (s *Store) AttendActor(
	ctx context.Context, remote RemoteActor, actions []string,
) (latest bool, err error) {
	if latest, err = s.attendActor(ctx, remote, actions); err != nil {
		return false, fmt.Errorf("attend actor: %w", err)
	}
	return latest, nil
}

func (s *Store) attendActor(
	ctx context.Context, remote RemoteActor, actions []string,
) (latest bool, err error) {
	if err := checkActor(remote.Actor, actions); err != nil {
		return false, err
	}
	if err := s.checkRemote(remote); err != nil {
		return false, err
	}
	attendant, err := s.attendant(ctx)
	if err != nil {
		return false, err
	}
	superseded := false
	err = s.asOwner(&s.reserves.prompt, 0).run(ctx, step{
		name: "attend_actor",
		args: []any{remote.Session, string(remote.Actor), attendant, remote.Epoch, actions},
		read: func(rows pgx.Rows) (err error) {
			superseded, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
			return err
		},
	})
	return !superseded, err
}

// attendant is the number of the store's session, or 0 if it can have none. The actor is noted all
// the same: only that tells which of its connections is the latest.
func (s *Store) attendant(ctx context.Context) (int64, error) {
	if err := s.checkUsable(ctx); err != nil || s.session == nil {
		return 0, err
	}
	s.session.mutex.Lock()
	if !s.session.running {
		s.changeSession()
	}
	if err := s.awaitSession(ctx, 1); err != nil || s.sessionPooled() {
		return 0, err
	}
	return s.session.id, nil
}

// ExtendRemoteOwnership is [Store.ExtendTasksOwnership] for a remote actor. If a lease has expired
// and is extended all the same, it is bound to the actor's session again.
func (s *Store) ExtendRemoteOwnership(
	ctx context.Context, remote RemoteActor, owned []OwnedTask, lease time.Duration,
) ([]bool, error) {
	extended, err := s.extend(ctx, remote.Actor, remote.Session, owned, lease)
	if err != nil {
		return nil, fmt.Errorf("extend remote ownership: %w", err)
	}
	return extended, nil
}

// DismissActor hands on the tasks of a remote actor whose connection is gone, as if their leases
// had expired, unless a later connection of it is attended, at whatever store. Tasks that somebody
// locks at this moment are handed on when the lock is free, if that is soon, or else when their
// leases expire. The call may be repeated after any failure.
func (s *Store) DismissActor(ctx context.Context, remote RemoteActor) error {
	if err := s.dismissActor(ctx, remote); err != nil {
		return fmt.Errorf("dismiss actor: %w", err)
	}
	return nil
}

func (s *Store) dismissActor(ctx context.Context, remote RemoteActor) error {
	const pauseFirst, pauseMax = 5 * time.Millisecond, time.Second
	if err := s.checkRemote(remote); err != nil {
		return err
	}
	for pause := pauseFirst; ; pause *= 2 {
		pending, passed, leases := &notices{}, 0, s.scanLeases(handedOnLeasesMax)
		dismiss := step{
			name: "dismiss_actor",
			args: []any{remote.Session, string(remote.Actor), remote.Epoch},
			read: func(rows pgx.Rows) (err error) {
				passed, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
				return err
			},
		}
		if err := s.run(ctx, dismiss, leases.step()); err != nil {
			return err
		}
		s.addNotices(leases, pending)
		s.notify(ctx, pending)
		if passed == 0 || pause > pauseMax {
			return s.settleDue(ctx) // this ends the tasks that have no tries left
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ForgetActor notes that a remote actor has left, unless a later connection of it is attended. As
// with [Store.UnregisterActor], the tasks that it still owns are handed on when their leases
// expire.
func (s *Store) ForgetActor(ctx context.Context, remote RemoteActor) error {
	err := s.checkRemote(remote)
	if err == nil {
		err = s.run(ctx, step{
			name: "forget_actor",
			args: []any{remote.Session, string(remote.Actor), remote.Epoch},
		})
	}
	if err != nil {
		return fmt.Errorf("forget actor: %w", err)
	}
	return nil
}

// sessionPooled reports whether there can be no session, because of a pooler in between.
func (s *Store) sessionPooled() bool {
	s.session.mutex.Lock()
	defer s.session.mutex.Unlock()
	return s.session.pooled
}

func (s *Store) checkRemote(remote RemoteActor) error {
	switch {
	case s.tx != nil:
		return argumentError("store", "must not be in a transaction; who attends whom is at once")
	case remote.Session == 0:
		return argumentError("RemoteActor.Session", "must not be 0")
	}
	return checkText("actor", string(remote.Actor), actorBytesMax)
}
