package stint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
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
// session is established. With PollOnly there is no session, and the call does nothing.
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
	return s.changeActors(ctx, func(actors map[ActorID][]string) {
		actors[actor] = slices.Clone(actions)
	})
}

// UnregisterActor undoes [Store.RegisterActor]. The tasks that the actor still owns are handed on
// when their leases expire.
func (s *Store) UnregisterActor(ctx context.Context, actor ActorID) error {
	if err := checkText("actor", string(actor), actorBytesMax); err != nil {
		return fmt.Errorf("unregister actor: %w", err)
	}
	err := s.changeActors(ctx, func(actors map[ActorID][]string) { delete(actors, actor) })
	if err != nil {
		return fmt.Errorf("unregister actor: %w", err)
	}
	return nil
}

// changeActors changes who is registered, and waits until the database knows.
func (s *Store) changeActors(ctx context.Context, change func(map[ActorID][]string)) error {
	if s.tx != nil {
		return argumentError("store", "must not be in a transaction; actors are registered at once")
	}
	if err := s.checkUsable(ctx); err != nil || s.session == nil {
		return err
	}
	n := s.session
	n.mutex.Lock()
	change(n.actors)
	s.changeSession()
	return s.awaitSession(ctx, n.wanted)
}

// awaitSession waits until the database knows of so many changes of the session, or there can be
// none. It unlocks the mutex, which is held.
func (s *Store) awaitSession(ctx context.Context, wanted int) error {
	n := s.session
	for n.known < wanted && !n.pooled {
		learned := n.learned
		n.mutex.Unlock()
		select {
		case <-learned:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return ErrClosed
		}
		n.mutex.Lock()
	}
	n.mutex.Unlock()
	return nil
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
	err := s.run(ctx, step{
		name: "list_actors",
		read: func(rows pgx.Rows) error {
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
