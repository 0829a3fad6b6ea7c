package wire

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// FromFilter returns a filter as a message.
func FromFilter(f stint.Filter) *stintv1.ListTasksRequest {
	message := &stintv1.ListTasksRequest{
		Actions: f.Actions, IdPrefix: f.IDPrefix, Actor: string(f.Actor), Key: f.Key,
		Headers: f.Headers, Body: f.Body, Status: f.Status,
		MinAge: FromDuration(f.MinAge), MaxAge: FromDuration(f.MaxAge),
		NewestFirst: f.NewestFirst, After: string(f.After), Limit: Int32(f.Limit),
	}
	for _, state := range f.States {
		message.States = append(message.States, string(state))
	}
	return message
}

// ToFilter undoes [FromFilter].
func ToFilter(m *stintv1.ListTasksRequest) stint.Filter {
	filter := stint.Filter{
		Actions: m.GetActions(), IDPrefix: m.GetIdPrefix(), Actor: stint.ActorID(m.GetActor()),
		Key: m.GetKey(), Headers: m.GetHeaders(), Body: m.GetBody(), Status: m.GetStatus(),
		MinAge: m.GetMinAge().AsDuration(), MaxAge: m.GetMaxAge().AsDuration(),
		NewestFirst: m.GetNewestFirst(),
		After:       stint.Cursor(m.GetAfter()), Limit: int(m.GetLimit()),
	}
	for _, state := range m.GetStates() {
		filter.States = append(filter.States, stint.State(state))
	}
	return filter
}
