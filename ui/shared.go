package ui

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A shared answer is one of the store's, for all who ask at about the same time.
type shared[T any] struct {
	ask     func(ctx context.Context) (T, error)
	timeout time.Duration

	mutex  sync.Mutex
	last   answer[T]
	asking chan struct{} // nil while nobody asks; closed when the answer is there
}

type answer[T any] struct {
	value T
	err   error
	until time.Time // when it is no longer new
}

const (
	newFor = time.Second
	// share is how many times as long as it took an answer stays new at least, so that even a slow
	// store is busy with overviews a tenth of the time at most.
	share = 10
)

// get returns an answer that is new. The store is asked for all who wait, so that it does not
// matter if one of them goes.
func (s *shared[T]) get(ctx context.Context) (T, error) {
	s.mutex.Lock()
	begun := processNow()
	if begun.Before(s.last.until) {
		defer s.mutex.Unlock()
		return s.last.value, s.last.err
	}
	if s.asking == nil {
		s.asking = make(chan struct{})
		go s.renew(context.WithoutCancel(ctx), begun, s.asking)
	}
	asking := s.asking
	s.mutex.Unlock()
	select {
	case <-asking:
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.last.value, s.last.err
}

func (s *shared[T]) renew(ctx context.Context, begun time.Time, asking chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var found answer[T]
	defer func() {
		if cause := recover(); cause != nil { // here it would end the process
			found.err = fmt.Errorf("the store panicked: %v", cause)
		}
		ended := processNow()
		found.until = ended.Add(max(newFor, share*ended.Sub(begun)))
		if found.err != nil { // it may be back soon
			found.until = ended.Add(max(newFor, ended.Sub(begun)))
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.last, s.asking = found, nil
		close(asking)
	}()
	found.value, found.err = s.ask(ctx)
}

// forget has the next one who asks get a new answer.
func (s *shared[T]) forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last.until = time.Time{}
}

// recent are answers to questions that differ: those that were asked for last.
type recent[T any] struct {
	most    int
	timeout time.Duration

	mutex sync.Mutex
	known []*question[T] // the one that was asked for last is the last
}

// A question is one of many, with the answer for all who ask it at about the same time.
type question[T any] struct {
	key string
	shared[T]
}

// get returns a new answer to a question. What ask asks is told by the key alone.
func (r *recent[T]) get(
	ctx context.Context, key string, ask func(ctx context.Context) (T, error),
) (T, error) {
	return r.find(key, ask).get(ctx)
}

func (r *recent[T]) find(key string, ask func(ctx context.Context) (T, error)) *question[T] {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	i := slices.IndexFunc(r.known, func(q *question[T]) bool { return q.key == key })
	found := &question[T]{key, shared[T]{ask: ask, timeout: r.timeout}}
	switch {
	case i >= 0:
		found = r.known[i]
		r.known = slices.Delete(r.known, i, i+1)
	case len(r.known) == r.most:
		r.known = slices.Delete(r.known, 0, 1)
	}
	r.known = append(r.known, found)
	return found
}

// forget forgets all answers.
func (r *recent[T]) forget() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.known = nil
}

// processNow is the time of this process, for how long something takes.
func processNow() time.Time {
	return time.Now() //nolint:forbidigo // no time of a task is compared with it
}

// A databaseClock tells the time of the database by the clock of this process.
type databaseClock struct {
	ask func(ctx context.Context) (time.Time, error) // nil: it is that of this process

	mutex  sync.Mutex
	ahead  time.Duration // how much later it is there
	askAt  time.Time     // not before
	asking bool
}

const clockEvery = time.Minute

// now is the time of the database. While that does not say, it is as much later as it was before.
func (c *databaseClock) now(ctx context.Context) time.Time {
	begun := processNow()
	c.mutex.Lock()
	ask := c.ask != nil && !c.asking && !begun.Before(c.askAt)
	c.asking = c.asking || ask
	c.mutex.Unlock()
	if ask {
		there, err := c.ask(ctx)
		if err != nil {
			there = time.Time{}
		}
		c.learn(there, begun)
		c.mutex.Lock()
		c.asking = false
		c.mutex.Unlock()
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return processNow().Add(c.ahead)
}

// learn notes what time it was there, as the answer to a question that was asked then. If it is
// zero, nobody said.
func (c *databaseClock) learn(there, begun time.Time) {
	ended := processNow()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if there.IsZero() {
		c.askAt = ended.Add(newFor)
		return
	}
	half := ended.Sub(begun) / 2 // the way there takes as long as the way back
	c.ahead, c.askAt = there.Sub(begun.Add(half)), ended.Add(clockEvery)
}
