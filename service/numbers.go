package service

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/stint-tasks/stint"
)

// numberOf returns a number that a caller has chosen for an actor, as the store knows it: of a
// claim, or of the session of the actor's process. The same number means another thing for every
// principal, and for every actor of one, at all services alike. So whoever knows a claim or a
// session of others can neither ask for the tasks that were fetched under it, nor give them
// back, nor end the presence of their actor. 0, which is no number, stays so.
func (c caller) numberOf(actor string, number uint64) uint64 {
	if c.principal == nil || number == 0 {
		return number
	}
	text := binary.BigEndian.AppendUint64(nil, uint64(len(c.principal.Name)))
	text = append(append(text, c.principal.Name...), actor...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, number))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// remote is the actor of a call, whose process has made the number of its session.
func (c caller) remote(actor string, session int64) stint.RemoteActor {
	number := c.numberOf(actor, uint64(session)) //nolint:gosec // the bits are what counts
	return stint.RemoteActor{
		Actor: stint.ActorID(actor), Session: int64(number), //nolint:gosec // as above
	}
}
