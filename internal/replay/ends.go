package replay

import "strings"

// The bits of edge.accepts.
const (
	acceptsCompleted = 1
	acceptsAborted   = 2
	acceptsSkipped   = 4
	firstOfSeveral   = 8
)

// A verdict is what an edge says of its dependent.
type verdict struct {
	waits  bool // its predecessor has not ended
	met    bool
	spoils bool // the predecessor was aborted, or skipped, and no condition says what then
	gone   bool // its predecessor is not there any more
	first  bool // it is one of several, of which the first to be met starts the dependent
}

// judge says what an edge from a predecessor decides by how the predecessor has ended.
func (s *state) judge(after int64, e edge) verdict {
	v := verdict{first: e.accepts&firstOfSeveral != 0}
	if s.tasks[after] == nil {
		v.gone, v.met = true, true
		return v
	}
	end := s.rows[finished].at(after)
	if end == nil {
		v.waits = true
		return v
	}
	switch end.cause {
	case 0:
		v.met = e.accepts == 0 || e.accepts&acceptsCompleted != 0 &&
			(e.results == "" || strings.Contains(e.results, arrayed(end.result)))
	case skipped:
		v.met = e.accepts&acceptsSkipped != 0
		v.spoils = e.accepts == 0
	default:
		v.met = e.accepts&acceptsAborted != 0
		v.spoils = e.accepts == 0
	}
	return v
}

// arrayed is a result as an element of an array, of which the server doubles each backslash. None
// is as an empty one.
func arrayed(result string) string {
	if result == "" {
		result = `\x`
	}
	return `"` + strings.ReplaceAll(result, `\`, `\\`) + `"`
}

// checkSettled checks what the ends of its predecessors say of a task that waits no longer.
func (h *History) checkSettled(t *txn, key int64, to *row) {
	if to == nil {
		return
	}
	of := h.definition(t, key)
	if of == nil {
		return
	}
	edges := map[int64]edge{}
	for after, e := range t.cut[key] {
		edges[after] = e
	}
	for after, e := range h.state.edges[key] {
		edges[after] = e
	}
	starts := to.table == ready || to.table == scheduled || to.table == finished && to.cause == 0
	ends := to.table == finished && (to.cause == 3 || to.cause == skipped)
	if !starts && !ends {
		return
	}
	h.counts.Settled++
	some, firsts, unmet, spoilt, left := false, false, false, false, false
	for after, e := range edges {
		v := h.state.judge(after, e)
		left = left || v.gone || v.waits
		if v.first {
			firsts, some = true, some || v.met
			continue
		}
		unmet = unmet || !v.waits && !v.met && !v.spoils
		spoilt = spoilt || v.spoils
		if starts && v.waits {
			h.violate(t, key, "may start, and waits for %q", h.state.tasks[after].id)
		}
	}
	spoilt = spoilt && !of.runsAnyway
	switch {
	case starts && (unmet || spoilt):
		h.violate(t, key, "may start, though a predecessor did not end as it asks for")
	case starts && firsts && !some:
		h.violate(t, key, "may start, though none of several predecessors ended as it asks for")
	case ends && !unmet && !spoilt && (!firsts || some) && !left:
		h.violate(t, key, "ended as %s, though its predecessors ended as it asks for",
			words(to.state()))
	}
}
