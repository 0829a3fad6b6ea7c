package replay

import "strings"

const (
	// leastLosses is the least option MaxLosses of a store.
	leastLosses = 3

	// unknownLosses is how often a task was lost that was there before the history began.
	unknownLosses = -1

	// clusterActions begins the actions of clusters of shards, whose tasks are never given up.
	clusterActions = "stint."
)

// countLoss counts how many owners in a row have lost a task, by the steps that it makes. A try
// that was returned ends the row, since the next one that is lost does not follow the last one; one
// that was given back leaves no gap.
func (h *History) countLoss(t *txn, key int64, from, to *row) {
	of := h.definition(t, key)
	if of == nil || of.lost == unknownLosses || from == nil || to == nil {
		return
	}
	switch {
	case from.table == finished, to.tries < of.lostTry && from.table != leased && !from.late:
		of.lost, of.lostTry = 0, 0 // it begins anew
	case from.table == leased && to.table == ready && to.late:
		of.lose(from.tries)
		if most := h.options.MaxLosses; most > 0 && of.lost >= most &&
			!strings.HasPrefix(of.action, clusterActions) {
			h.violate(t, key, "is ready, though %d owners in a row have lost it, of at most %d",
				of.lost, most)
		}
	case from.late && to.table == leased && from.claim == to.claim && of.lostTry == from.tries:
		of.lost, of.lostTry = of.lost-1, of.lostTry-1 // its owner has come back
	case from.table == leased && to.table == finished && to.cause == lost:
		of.lose(from.tries)
		if least := max(h.options.MaxLosses, leastLosses); of.lost < least {
			h.violate(t, key, "was aborted as lost, and owners have lost it %d times in a row",
				of.lost)
		}
	}
}

// lose counts the loss of a try.
func (of *task) lose(try int) {
	if of.lostTry != try-1 {
		of.lost = 0
	}
	of.lost, of.lostTry = of.lost+1, try
}
