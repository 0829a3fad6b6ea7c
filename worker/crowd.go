package worker

import "time"

// Tasks that gather for a call keep their slots. Where all slots are taken, that may be for
// nothing: if all of them gather, no other task can join, and if the others run for long, tasks
// that could be performed at once wait for those that wait. So the fullest call begins then.

// crowdMax is how long tasks may gather where all slots are taken and none comes free. As long as
// handlers end more often than that, others get slots anyway, and what gathers may be joined.
const crowdMax = 10 * time.Millisecond

// A crowd is the tasks that have the slots of a group, or of the whole worker.
type crowd struct {
	slots, running int
	moved          time.Time // when a task began or a handler ended
	gatherers      []*gatherer
}

// add counts tasks that begin, or handlers that have ended.
func (c *crowd) add(n int) {
	c.running += n
	c.moved = now()
}

func (c *crowd) isFull() bool { return c.running >= c.slots }

// disperse begins the fullest call as long as there is no slot left and waiting would bring
// nothing. It returns how long to wait for that at most, or a negative duration.
func (c *crowd) disperse() time.Duration {
	for c.isFull() {
		var waiting gathered
		for _, g := range c.gatherers {
			waiting.add(g)
		}
		if waiting.fullest == nil {
			break
		}
		since := max(now().Sub(c.moved), 0)
		if !waiting.begunAt.IsZero() {
			since = min(since, now().Sub(waiting.begunAt))
		}
		if waiting.all < c.running && since < crowdMax {
			return crowdMax - since
		}
		waiting.fullest.beginNow()
	}
	return -1
}
