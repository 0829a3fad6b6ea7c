package replay

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-tasks/stint/docs/design"
)

// A Move is a task that a transaction moved from one state to another, or one of several steps if
// the transaction moved it on.
type Move struct {
	Task     string // its ID
	Key      int64
	From, To design.State
	Claim    int64 // under which it is owned from now on, or was until now
	Tries    int
	At       time.Time // of the commit
	LSN      string
}

// A Violation is what a history says that the rules forbid.
type Violation struct {
	LSN  string
	Task string // its ID, if it is about one task
	Text string
}

func (v Violation) String() string {
	if v.Task == "" {
		return v.LSN + ": " + v.Text
	}
	return fmt.Sprintf("%s: task %q %s", v.LSN, v.Task, v.Text)
}

// commit checks what a transaction has done.
func (h *History) commit(t *txn) {
	h.counts.Commits++
	keys := make([]int64, 0, len(t.path))
	for key := range t.path {
		keys = append(keys, key)
	}
	for key := range t.before {
		if t.path[key] == nil {
			keys = append(keys, key)
		}
	}
	for key := range t.dead {
		if t.path[key] == nil && t.before[key] == nil {
			keys = append(keys, key)
		}
	}
	for key := range t.born {
		if t.path[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var fetches []fetch
	for _, key := range keys {
		was, now := h.places(t, key)
		if len(was) > 1 {
			continue // told already
		}
		if len(now) > 1 {
			h.violate(t, key, "is in %d states at once: %s", len(now), listed(now))
			continue
		}
		fetches = append(fetches, h.walk(t, key, only(was), only(now))...)
	}
	h.checkLimits(t, fetches)
}

// places returns the rows that held a key before a transaction and that hold it behind it.
func (h *History) places(t *txn, key int64) (was, now []*row) {
	was = slices.Clip(t.before[key])
	for table := range h.state.rows {
		if r := h.state.rows[table].at(key); r != nil {
			now = append(now, r)
			if r.txn != t.number {
				was = append(was, r)
			}
		}
	}
	return was, now
}

func only(rows []*row) *row {
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}

func listed(rows []*row) string {
	text := ""
	for i, r := range rows {
		if i > 0 {
			text += ", "
		}
		text += words(r.state())
	}
	return text
}

// walk checks the steps of a task within a transaction, and returns the fetches among them.
func (h *History) walk(t *txn, key int64, was, now *row) []fetch {
	h.checkDefinition(t, key, was, now)
	var fetches []fetch
	from := was
	steps := t.path[key]
	if now == nil {
		steps = append(slices.Clip(steps), nil)
	}
	for _, to := range steps {
		if from == nil && to == nil || from != nil && to != nil && from.same(to) {
			from = to
			continue
		}
		if h.step(t, key, from, to) {
			fetches = append(fetches, fetch{key, to})
		}
		from = to
	}
	h.count(key, was, now, h.definition(t, key))
	return fetches
}

// definition returns the definition of a task, also if it is gone with the transaction.
func (h *History) definition(t *txn, key int64) *task {
	if of := h.state.tasks[key]; of != nil {
		return of
	}
	return t.dead[key]
}

// checkDefinition checks that a task has a state if and only if it has a definition. One that was
// replaced has only a state.
func (h *History) checkDefinition(t *txn, key int64, was, now *row) {
	defined := h.state.tasks[key] != nil
	switch {
	case defined && now == nil:
		h.violate(t, key, "is in no state, and was %s", words(was.state()))
	case !defined && now != nil && (now.table != finished || now.cause != 5):
		h.violate(t, key, "is %s and has no definition", words(now.state()))
	}
}

// step checks one step of a task, and reports whether it is a fetch.
func (h *History) step(t *txn, key int64, from, to *row) (fetched bool) {
	a, b := from.state(), to.state()
	owns := to != nil && to.table == leased
	h.countLoss(t, key, from, to)
	sameOwner := owns && from != nil && from.table != leased && from.late && from.claim == to.claim
	h.tell(t, key, from, to)
	if a != b || from != nil && from.table == finished {
		if !h.rules.allow(a, b, sameOwner) && !said(from, to) {
			h.violate(t, key, "moved from %s to %s", words(a), words(b))
		}
	}
	switch {
	case owns && sameOwner:
		if to.tries != from.tries {
			h.violate(t, key, "is owned again for try %d, and was for %d", to.tries, from.tries)
		}
	case owns && from != nil && from.table == leased:
		if to.claim != from.claim {
			h.violate(t, key, "changed its owner without being given back")
		}
	case owns && h.isExternal(t, key): // for the moment in which it is answered
		if now := h.state.rows[leased].at(key); now != nil {
			h.violate(t, key, "is in progress, and is performed outside")
		}
	case owns:
		h.checkFetch(t, key, from, to)
		return true
	case from != nil && from.table == leased:
		h.checkTakenBack(t, key, from, to)
	case from != nil && from.table == blocked:
		h.checkSettled(t, key, to)
	}
	return false
}

// said reports whether a row only says more of a task whose last try has expired: its late owner
// has returned it (R13).
func said(from, to *row) bool {
	return from != nil && to != nil && from.table == finished && to.table == finished &&
		from.cause == to.cause && from.claim == ^to.claim
}

// externalAction is that of tasks that nobody is given.
const externalAction = "stint.External"

// isExternal reports whether a task is performed outside: an answer owns it and returns it, in one
// transaction and without a try.
func (h *History) isExternal(t *txn, key int64) bool {
	of := h.definition(t, key)
	return of != nil && of.action == externalAction
}

// checkFetch checks that a task is owned under a claim that it never had, for its next try.
func (h *History) checkFetch(t *txn, key int64, from, to *row) {
	of := h.definition(t, key)
	if of == nil {
		return // told already
	}
	if slices.Contains(of.claims, to.claim) {
		h.violate(t, key, "is owned under a claim that it had before")
	}
	of.claims = append(of.claims, to.claim)
	of.fetched = t.number
	if from != nil && to.tries != from.tries+1 {
		h.violate(t, key, "is owned for try %d behind try %d", to.tries, from.tries)
	}
	if of.maxTries > 0 && to.tries > of.maxTries {
		h.violate(t, key, "is owned for try %d of %d", to.tries, of.maxTries)
	}
	if !of.deadline.IsZero() && !h.options.ClockJumps {
		if l, found := h.state.leaseOf(t, to); found && l.owned.After(of.deadline) {
			h.violate(t, key, "was fetched %v behind its deadline", l.owned.Sub(of.deadline))
		}
	}
}

// checkTakenBack checks that a task is not taken from its owner ahead of the end of its lease.
func (h *History) checkTakenBack(t *txn, key int64, from, to *row) {
	back := to != nil && to.table == ready && to.late
	ended := to != nil && to.table == finished && (to.cause == 2 || to.cause == lost) &&
		to.hasClaim && to.claim == ^from.claim
	if !back && !ended || h.options.ClockJumps {
		return
	}
	if back && to.tries != from.tries {
		h.violate(t, key, "was taken back from try %d to try %d", from.tries, to.tries)
	}
	h.counts.TakenBack++
	l, found := h.state.leaseOf(t, from)
	if found && !l.deadline.IsZero() && t.stamp.Before(l.deadline) {
		h.violate(t, key, "was taken from its owner %v ahead of the end of its lease",
			l.deadline.Sub(t.stamp))
	}
}

// tell counts a step and tells whoever wants to know of it.
func (h *History) tell(t *txn, key int64, from, to *row) {
	h.counts.Moves++
	if h.OnMove == nil {
		return
	}
	m := Move{Key: key, From: from.state(), To: to.state(), At: t.stamp, LSN: t.lsn}
	if of := h.definition(t, key); of != nil {
		m.Task = of.id
	}
	if to != nil && to.hasClaim {
		m.Claim, m.Tries = to.claim, to.tries
	} else if from != nil && from.hasClaim {
		m.Claim, m.Tries = from.claim, from.tries
	}
	h.OnMove(m)
}

func (h *History) violate(t *txn, key int64, format string, args ...any) {
	v := Violation{LSN: t.lsn, Text: fmt.Sprintf(format, args...)}
	if of := h.definition(t, key); of != nil {
		v.Task = of.id
	} else if key != 0 {
		v.Task = fmt.Sprintf("#%d", key)
	}
	h.counts.Violations++
	if len(h.violations) < violationsMax {
		h.violations = append(h.violations, v)
	}
}
