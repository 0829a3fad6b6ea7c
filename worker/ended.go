package worker

import (
	"sync"
	"time"
)

// An endedQueue holds the performances whose handlers have ended, until the asker takes note of
// them. Their slots are free at once: a slot does not wait for the commit of a return.
type endedQueue struct {
	mutex sync.Mutex
	// freed are the actions of those since the asker has last looked, due those that have to be
	// returned.
	freed []freedSlot
	due   []*performance
	// taken says that an asker looks; otherwise nobody does.
	taken bool
	// unreturned is how many performances have ended and are not over.
	unreturned int
	// changed is sent to when there is something to look at.
	changed chan struct{}
}

// A freedSlot is that of a handler that has ended.
type freedSlot struct {
	action string
	took   time.Duration
}

// free notes that the handler of a performance has ended.
func (q *endedQueue) free(p *performance) {
	q.mutex.Lock()
	if q.taken {
		q.freed = append(q.freed, freedSlot{p.task.Action, now().Sub(p.begun)})
	}
	q.mutex.Unlock()
}

// settled notes that a performance is to be returned.
func (q *endedQueue) settled() {
	q.mutex.Lock()
	q.unreturned++
	q.mutex.Unlock()
}

// post notes that a performance has to be returned, and reports whether an asker does that.
func (q *endedQueue) post(p *performance) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.taken {
		q.due = append(q.due, p)
		wakeUp(q.changed)
	}
	return q.taken
}

// over notes that performances are over.
func (q *endedQueue) over(n int) {
	q.mutex.Lock()
	q.unreturned -= n
	q.mutex.Unlock()
	wakeUp(q.changed)
}

// look returns what has ended since the last look, and how many performances are not over.
func (q *endedQueue) look() (freed []freedSlot, due []*performance, unreturned int) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	freed, due = q.freed, q.due
	q.freed, q.due = nil, nil
	return freed, due, q.unreturned
}

// close returns what is left when the asker looks no more.
func (q *endedQueue) close() []*performance {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.taken = false
	return q.due
}
