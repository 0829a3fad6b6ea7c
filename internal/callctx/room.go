package callctx

import "context"

// A Room lets OwnTasks ask whether there is memory for bodies before it reads them. The service
// uses it to bound the bytes that it holds for its callers. It waits until a call may hold so many
// bytes. If it returns an error there is no room, and the call fails with that.
type Room func(ctx context.Context, bytes int64) error

type roomKey struct{}

// WithRoom returns a context in which fetches under a claim ask for room.
func WithRoom(ctx context.Context, room Room) context.Context {
	return context.WithValue(ctx, roomKey{}, room)
}

// RoomOf returns what the context asks for room, or nil.
func RoomOf(ctx context.Context) Room {
	room, _ := ctx.Value(roomKey{}).(Room)
	return room
}
