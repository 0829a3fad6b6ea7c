package stint

import (
	"context"
	"time"
)

// RegisterActor makes an actor present.
func (s *Store) RegisterActor(ctx context.Context, actor ActorID, actions []string) error {
	return s.usable(ctx)
}

// UnregisterActor is the opposite of RegisterActor.
func (s *Store) UnregisterActor(ctx context.Context, actor ActorID) error {
	return s.usable(ctx)
}

// An ActorInfo is what the store knows of a registered actor.
type ActorInfo struct {
	Actor   ActorID
	Actions []string
	// Tasks is how many tasks the actor owns.
	Tasks int
	// Since is when the actor was registered.
	Since time.Time
}
