package kept

import (
	"context"
	"sync"
	"time"
)

// Now is the time of this process, for how long something takes.
func Now() time.Time {
	return time.Now() //nolint:forbidigo // no time of a task is compared with it
}

// A Clock tells the time of the database by the clock of this process.
type Clock struct {
	Ask func(ctx context.Context) (time.Time, error) // nil: it is that of this process

	mutex  sync.Mutex
	ahead  time.Duration // how much later it is there
	askAt  time.Time     // not before
	asking bool
}

const clockEvery = time.Minute

// Now is the time of the database. While that does not say, it is as much later as it was before.
func (c *Clock) Now(ctx context.Context) time.Time {
	begun := Now()
	c.mutex.Lock()
	ask := c.Ask != nil && !c.asking && !begun.Before(c.askAt)
	c.asking = c.asking || ask
	c.mutex.Unlock()
	if ask {
		there, err := c.Ask(ctx)
		if err != nil {
			there = time.Time{}
		}
		c.Learn(there, begun)
		c.mutex.Lock()
		c.asking = false
		c.mutex.Unlock()
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return Now().Add(c.ahead)
}

// Learn notes what time it was there, as the answer to a question that was asked then. If it is
// zero, nobody said.
func (c *Clock) Learn(there, begun time.Time) {
	ended := Now()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if there.IsZero() {
		c.askAt = ended.Add(NewFor)
		return
	}
	half := ended.Sub(begun) / 2 // the way there takes as long as the way back
	c.ahead, c.askAt = there.Sub(begun.Add(half)), ended.Add(clockEvery)
}
