package worker

import (
	"slices"
	"time"

	"github.com/stint-tasks/stint"
)

// A slot that has to wait for a call stands still. So where handlers take about as long as a call,
// the asker owns more tasks than there are slots: as many as will have one by the time of the next
// answer. If the process is killed, they have lost a try, as those have that it was performing,
// since nobody knows which had begun. So none of them is on its last try (ADR 34), or on one on
// which another loss may abort it.

// How many tasks may wait for a slot: those that have one within the time of so many questions, but
// soon, and no more than there are slots, and some. The asker asks for more when a part is left.
const (
	aheadQuestions = 4
	aheadSoon      = gatherMax / 2
	aheadMore      = 64
	aheadPart      = 4
)

// extra is how many tasks more than there are slots to ask for now, where a question takes so long.
func (g *slotGroup) extra(asks time.Duration) int {
	if !g.more || g.takes == 0 || g.last {
		return 0
	}
	soon := float64(g.slots) * float64(min(aheadQuestions*asks, aheadSoon)) / float64(g.takes)
	most := int(min(soon, float64(g.slots+aheadMore)))
	waiting := g.waiting() + g.coming
	if aheadPart*waiting > most {
		return 0
	}
	return most - waiting
}

// lossesLeast is the least stint.Options.MaxLosses: on an earlier try no task ends by a loss.
const lossesLeast = 3

// onLastTry reports whether a task ends, or may end, if its owner dies.
func onLastTry(task stint.OwnedTask) bool {
	return task.Try >= lossesLeast || task.MaxTries > 0 && task.Try >= task.MaxTries
}

// releaseLast gives back the tasks on their last try that have to wait for a slot.
func (a *asker) releaseLast(g *slotGroup) {
	if !g.last {
		return
	}
	var last []stint.OwnedTask
	for i, b := range g.ahead {
		var others []stint.OwnedTask
		for _, task := range b.owned {
			if onLastTry(task) {
				last = append(last, task)
			} else {
				others = append(others, task)
			}
		}
		g.ahead[i].owned = others
	}
	a.release(last)
	g.ahead = slices.DeleteFunc(g.ahead, func(b fetch) bool { return len(b.owned) == 0 })
}

// smoothed is a mean of durations in which the last ones count most.
func smoothed(mean, next time.Duration) time.Duration {
	const part = 8
	if mean == 0 {
		return max(next, 1)
	}
	return max(mean+(next-mean)/part, 1)
}

// beginAhead begins tasks that waited for a slot.
func (a *asker) beginAhead() {
	for _, g := range a.groups {
		for len(g.ahead) > 0 && min(a.free, g.free) > 0 {
			b := &g.ahead[0]
			n := min(a.free, g.free, len(b.owned))
			a.free, g.free = a.free-n, g.free-n
			a.all.add(n)
			g.add(n)
			a.begin(b.owned[:n], b.until)
			if b.owned = b.owned[n:]; len(b.owned) == 0 {
				g.ahead = g.ahead[1:]
			}
		}
	}
}
