// Package ahead lets OwnTasks ask, by its context, whether there is memory for bodies before it
// reads them. The service uses it to bound the bytes that it holds for its callers.
package ahead

import "context"

// A Room waits until a call may hold so many bytes. If it returns an error there is no room, and
// the call fails with that.
type Room func(ctx context.Context, bytes int64) error

type key struct{}

// With returns a context in which hand-outs under a claim ask for room.
func With(ctx context.Context, room Room) context.Context {
	return context.WithValue(ctx, key{}, room)
}

// Of returns what the context asks for room, or nil.
func Of(ctx context.Context) Room {
	room, _ := ctx.Value(key{}).(Room)
	return room
}
