package main

import (
	"fmt"
	"sync"
	"time"
)

// now is the time of this machine, which rates and patience go by.
func now() time.Time { return time.Now() } //nolint:forbidigo // no task depends on it

// A meter counts the tasks that processes say they have completed.
type meter struct {
	mutex  sync.Mutex
	counts []count
}

// A count is how many tasks were completed until a time, since the one before.
type count struct {
	at time.Time
	n  int
}

// said takes note of a line that a process says.
func (m *meter) said(line string) {
	var n int
	if _, err := fmt.Sscanf(line, "done %d", &n); err != nil || n == 0 {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.counts = append(m.counts, count{now(), n})
}

// rate is how many tasks were completed a second, lately.
func (m *meter) rate(window time.Duration) float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	from, sum := now().Add(-window), 0
	for i := len(m.counts) - 1; i >= 0 && m.counts[i].at.After(from); i-- {
		sum += m.counts[i].n
	}
	return float64(sum) / window.Seconds()
}

// forget forgets what is older than rates need.
func (m *meter) forget() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.counts = nil
}
