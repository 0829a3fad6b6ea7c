package join

import (
	"slices"

	"github.com/stint-tasks/stint/chaos/work"
	"github.com/stint-tasks/stint/docs/design"
)

// busy is the kind of error of a return that locks held up.
const busy = "ErrBusy"

// A deed is what was committed of a performance.
type deed struct {
	fetched, ended, left int
	// order is how many moves came before its first fetch.
	order int
	// forgotten says that the task was retried, replaced or deleted after the performance ended it.
	// A return that is repeated then is refused.
	forgotten bool
}

// judgeMoves compares journals with moves.
func (j *joiner) judgeMoves() {
	deeds, seen := map[performance]*deed{}, map[string]bool{}
	finished := map[int64]*deed{} // by the keys of tasks
	for i, m := range j.in.Moves {
		seen[string(m.ID)] = true
		if d := finished[m.Key]; d != nil {
			d.forgotten = true
			delete(finished, m.Key)
		}
		p := performance{m.Key, m.Claim}
		d := deeds[p]
		if d == nil {
			d = &deed{order: i}
			deeds[p] = d
		}
		switch {
		case m.To.Name == "in progress":
			d.fetched++
		case m.To == design.State{Name: "completed"},
			m.To == design.State{Name: "aborted", Note: "returned"}:
			d.ended++
			finished[m.Key] = d
		default:
			d.left++
		}
	}
	for id, l := range j.lives {
		for _, s := range l.inserts {
			if s.outcome == work.OK && !seen[string(id)] {
				j.violated(s, "it was acknowledged, and nothing was committed of the task")
			}
		}
		for _, s := range l.fetches {
			if s.outcome == work.OK && deeds[performanceOf(s.item)].of().fetched == 0 {
				j.violated(s, "it gave a task under a claim that was not committed")
			}
		}
		j.compareReturns(l, deeds)
		j.judgeFences(l, deeds)
	}
	j.judgeUnasked(deeds)
	j.judgeReceipts(deeds)
}

// judgeUnasked looks for ends under the claim of an owner who did not ask for them. A process that
// was killed may have asked for one, and not have come to write it down.
func (j *joiner) judgeUnasked(deeds map[performance]*deed) {
	asked, fetched := map[performance]bool{}, map[performance]said{}
	for _, l := range j.lives {
		for _, s := range l.fetches {
			fetched[performanceOf(s.item)] = s
		}
		for _, s := range l.returns {
			late := deeds[performanceOf(s.item)].of().forgotten && l.changedBefore(s)
			if isFinal(s) && (s.outcome != work.Refused || late) {
				asked[performanceOf(s.item)] = true
			}
		}
	}
	for p, d := range deeds {
		if s, known := fetched[p]; known && d.ended > 0 && !asked[p] && !j.killed[s.call.Process] {
			j.violated(s, "an end was committed under its claim, and nobody asked for it")
		}
	}
}

// of is the deed, or one of nothing.
func (d *deed) of() deed {
	if d == nil {
		return deed{}
	}
	return *d
}

// changedBefore says whether somebody asked to change the task before a call was answered.
func (l *life) changedBefore(s said) bool {
	return slices.ContainsFunc(l.changes, func(c said) bool {
		return c.call.Begin < s.call.End
	})
}

// compareReturns compares the returns of a task with what was committed of them.
func (j *joiner) compareReturns(l *life, deeds map[performance]*deed) {
	type outcomes struct {
		ok, unknown, refused int
		last                 said
	}
	finals := map[performance]*outcomes{}
	for _, s := range l.returns {
		if !isFinal(s) {
			if s.outcome == work.OK && deeds[performanceOf(s.item)].of().left == 0 {
				j.violated(s, "it was accepted, and the task has not left its owner")
			}
			continue
		}
		p := performanceOf(s.item)
		o := finals[p]
		if o == nil {
			o = &outcomes{}
			finals[p] = o
		}
		o.last = s
		switch s.outcome {
		case work.OK:
			o.ok++
		case work.Unknown:
			o.unknown++
		case work.Refused:
			o.refused++
		}
	}
	for p, o := range finals {
		d := deeds[p].of()
		ended := d.ended
		switch {
		case o.ok > 0 && ended == 0:
			j.violated(o.last, "it was accepted, and no end was committed under its claim")
		case o.ok == 0 && o.unknown == 0 && ended > 0 &&
			(!d.forgotten || !l.changedBefore(o.last)) &&
			// Who is busy tries again.
			(o.last.item.Error != busy || !j.killed[o.last.call.Process]):
			j.violated(o.last, "it was refused, and an end was committed under its claim")
		case ended > 1:
			j.violated(o.last, "%d ends were committed under one claim", ended)
		}
	}
}
