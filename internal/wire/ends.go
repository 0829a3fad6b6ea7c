package wire

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// FromEnds returns a page of ends as a message.
func FromEnds(page stint.EndPage, text bool) *stintv1.GetEndsResponse {
	return &stintv1.GetEndsResponse{
		Tasks: FromInfos(page.Tasks, text), Large: FromIDs(page.Large), Next: string(page.Next),
		Until: fromTime(page.Until),
	}
}

// ToEnds undoes [FromEnds].
func ToEnds(message *stintv1.GetEndsResponse) stint.EndPage {
	return stint.EndPage{
		Tasks: ToInfos(message.GetTasks()), Large: ToIDs(message.GetLarge()),
		Next: stint.Cursor(message.GetNext()), Until: toTime(message.GetUntil()),
	}
}
