package wire

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// FromHistory returns a history as a message.
func FromHistory(history stint.History) *stintv1.GetHistoryResponse {
	message := &stintv1.GetHistoryResponse{Steps: FromStepInfos(history.Steps)}
	for _, try := range history.Tries {
		m := &stintv1.Try{
			Number: Int32(try.Number), Outcome: string(try.Outcome), Actor: string(try.Actor),
			EndedAt: fromTime(try.EndedAt), Status: try.Status, Log: try.Log,
		}
		if !try.OwnedAt.IsZero() {
			m.OwnedAt = fromTime(try.OwnedAt)
		}
		message.Tries = append(message.Tries, m)
	}
	return message
}

// ToHistory undoes [FromHistory].
func ToHistory(message *stintv1.GetHistoryResponse) stint.History {
	history := stint.History{Steps: ToStepInfos(message.GetSteps())}
	for _, m := range message.GetTries() {
		history.Tries = append(history.Tries, stint.Try{
			Number: int(m.GetNumber()), Outcome: stint.TryOutcome(m.GetOutcome()),
			Actor: stint.ActorID(m.GetActor()), OwnedAt: toTime(m.GetOwnedAt()),
			EndedAt: toTime(m.GetEndedAt()), Status: m.GetStatus(), Log: m.GetLog(),
		})
	}
	return history
}
