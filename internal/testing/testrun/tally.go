package testrun

import (
	"fmt"
	"sync"
)

// A Tally counts what happened, to show that something did.
type Tally struct {
	mutex  sync.Mutex
	counts map[string]int
}

// Add counts n of something.
func (c *Tally) Add(what string, n int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[what] += n
}

func (c *Tally) String() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return fmt.Sprint(c.counts)
}
