package wire

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// AuthorHeader and ReasonHeader are the headers of calls whose changes are noted: for whom the
// caller makes them, and why. They may be percent-encoded.
const (
	AuthorHeader = "Stint-Author"
	ReasonHeader = "Stint-Reason"
)

// KeyHeader is the header of calls that take effect once, however often they are repeated: random,
// and new for each call.
const KeyHeader = "Idempotency-Key"

// RepeatedHeader is the header of callers that say whether a call was made before and got no
// answer: it is "true" or "false".
const RepeatedHeader = "Stint-Repeated"

// FromChanges returns a page of changes as a message.
func FromChanges(page stint.ChangePage) *stintv1.ListChangesResponse {
	message := &stintv1.ListChangesResponse{Next: string(page.Next)}
	for _, c := range page.Changes {
		message.Changes = append(message.Changes, &stintv1.Change{
			At: fromTime(c.At), By: c.By, Reason: c.Reason, Verb: c.Verb, Action: c.Action,
			Items: Int32(c.Items), Names: c.Names, Others: Int32(c.Others), Detail: c.Detail,
		})
	}
	return message
}

// ToChanges undoes [FromChanges].
func ToChanges(message *stintv1.ListChangesResponse) stint.ChangePage {
	page := stint.ChangePage{Next: stint.Cursor(message.GetNext())}
	for _, m := range message.GetChanges() {
		page.Changes = append(page.Changes, stint.Change{
			At: toTime(m.GetAt()), By: m.GetBy(), Reason: m.GetReason(), Verb: m.GetVerb(),
			Action: m.GetAction(), Items: int(m.GetItems()), Names: m.GetNames(),
			Others: int(m.GetOthers()), Detail: m.GetDetail(),
		})
	}
	return page
}
