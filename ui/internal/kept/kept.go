// Package kept keeps what a store has said for a moment, for all who ask the same, and what its
// clock says.
package kept

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An Answer is one of the store's, for all who ask at about the same time.
type Answer[T any] struct {
	Ask     func(ctx context.Context) (T, error)
	Timeout time.Duration

	mutex  sync.Mutex
	last   said[T]
	asking chan struct{} // nil while nobody asks; closed when the answer is there
}

type said[T any] struct {
	value T
	err   error
	until time.Time // when it is no longer new
}

const (
	// NewFor is how long an answer is new at least.
	NewFor = time.Second
	// share is how many times as long as it took an answer stays new at least, so that even a slow
	// store is busy with overviews a tenth of the time at most.
	share = 10
)

// Get returns an answer that is new. The store is asked for all who wait, so that it does not
// matter if one of them goes: that one gets the last answer with the error.
func (s *Answer[T]) Get(ctx context.Context) (T, error) {
	s.mutex.Lock()
	begun := Now()
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
		s.mutex.Lock()
		defer s.mutex.Unlock()
		return s.last.value, ctx.Err()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.last.value, s.last.err
}

func (s *Answer[T]) renew(ctx context.Context, begun time.Time, asking chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var found said[T]
	defer func() {
		if cause := recover(); cause != nil { // here it would end the process
			found.err = fmt.Errorf("the store panicked: %v", cause)
		}
		ended := Now()
		found.until = ended.Add(max(NewFor, share*ended.Sub(begun)))
		if found.err != nil { // it may be back soon
			found.until = ended.Add(max(NewFor, ended.Sub(begun)))
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.last, s.asking = found, nil
		close(asking)
	}()
	found.value, found.err = s.Ask(ctx)
}

// Forget has the next one who asks get a new answer.
func (s *Answer[T]) Forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last.until = time.Time{}
}

// Answers are answers to questions that differ: those that were asked for last.
type Answers[T any] struct {
	Most    int
	Timeout time.Duration

	mutex sync.Mutex
	known []*question[T] // the one that was asked for last is the last
}

// A question is one of many, with the answer for all who ask it at about the same time.
type question[T any] struct {
	key string
	Answer[T]
}

// Get returns a new answer to a question. What ask asks is told by the key alone.
func (r *Answers[T]) Get(
	ctx context.Context, key string, ask func(ctx context.Context) (T, error),
) (T, error) {
	return r.find(key, ask).Get(ctx)
}

func (r *Answers[T]) find(key string, ask func(ctx context.Context) (T, error)) *question[T] {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	i := slices.IndexFunc(r.known, func(q *question[T]) bool { return q.key == key })
	found := &question[T]{key, Answer[T]{Ask: ask, Timeout: r.Timeout}}
	switch {
	case i >= 0:
		found = r.known[i]
		r.known = slices.Delete(r.known, i, i+1)
	case len(r.known) == r.Most:
		r.known = slices.Delete(r.known, 0, 1)
	}
	r.known = append(r.known, found)
	return found
}

// Forget forgets all answers.
func (r *Answers[T]) Forget() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.known = nil
}
