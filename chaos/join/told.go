package join

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/work"
)

// judgeTold looks for ends that were not told to whoever has followed them, were told and never
// were, or in another order.
func (j *joiner) judgeTold() {
	if j.in.Followed == nil {
		return
	}
	latest := map[string]int64{} // of what each process was told
	for i := range j.in.Calls {
		call := &j.in.Calls[i]
		if work.KindOf(call.Verb) != work.Ends {
			continue
		}
		for k := range call.Items {
			item := &call.Items[k]
			if item.Number < latest[call.Process] {
				j.violated(said{call, item, call.Outcome},
					"it was told behind an end that was later")
			}
			latest[call.Process] = item.Number
		}
	}
	for id, end := range j.in.Followed {
		if !ended(end) || end.Cause == string(stint.CauseReplaced) {
			continue
		}
		l := j.lives[id]
		if l == nil || !slices.ContainsFunc(l.told, func(s said) bool {
			return s.item.Said == string(end.State) && s.item.Number == end.At
		}) {
			j.found.Violations = append(j.found.Violations, Violation{
				Task: id, Text: fmt.Sprintf("its end, %s, was told to nobody who follows ends",
					end.State),
			})
		}
	}
}

func ended(end End) bool {
	switch end.State {
	case stint.StateCompleted, stint.StateAborted, stint.StateSkipped:
		return true
	default:
		return false
	}
}

// judgeFences looks for fences that are not greater than all that were drawn for earlier fetches.
func (j *joiner) judgeFences(l *life, deeds map[performance]*deed) {
	drawn := slices.DeleteFunc(slices.Clone(l.fences), func(s said) bool {
		return s.outcome != work.OK || deeds[performanceOf(s.item)].of().fetched == 0
	})
	order := func(s said) int { return deeds[performanceOf(s.item)].order }
	slices.SortStableFunc(drawn, func(a, b said) int { return cmp.Compare(order(a), order(b)) })
	var before, greatest int64 // of earlier fetches, and of this one as well
	for i, s := range drawn {
		if i > 0 && order(s) != order(drawn[i-1]) {
			before = greatest
		}
		if s.item.Number <= before {
			j.violated(s, "it drew %d, and an earlier owner %d", s.item.Number, before)
		}
		greatest = max(greatest, s.item.Number)
	}
}

// judgeReceipts looks for rows that callers committed together with the end of a task, without that
// end, and the other way round.
func (j *joiner) judgeReceipts(deeds map[performance]*deed) {
	receipts := map[performance]int{}
	for i := range j.in.Receipts {
		item := &j.in.Receipts[i]
		p := performanceOf(item)
		if receipts[p]++; receipts[p] > deeds[p].of().ended {
			j.found.Violations = append(j.found.Violations, Violation{
				Task: item.ID, Text: fmt.Sprintf("a receipt was committed, and its end %d times",
					deeds[p].of().ended),
			})
		}
	}
	for _, l := range j.lives {
		for _, s := range l.returns {
			p := performanceOf(s.item)
			if s.call.Verb == work.FinishTask && s.outcome != work.Refused &&
				strings.HasPrefix(string(s.item.ID), j.in.Prefix) &&
				receipts[p] < deeds[p].of().ended {
				j.violated(s, "its end was committed, and its receipt was not")
			}
		}
	}
}
