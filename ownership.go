package stint

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// OwnershipContext returns a context that ends when the owner of a task loses it: when the task was
// aborted, or its lease expired and somebody else was given it. [context.Cause] then is an
// [ErrInvalidToken], in a [*TaskError]; it is [ErrClosed] if the store is closed. An expired lease
// alone does not end it, since the task can still be returned (R8).
//
// The loss is noticed at the latest an [Options.PollInterval] after it happened, usually within
// milliseconds, and at once when a call to extend the ownership finds it. While the database cannot
// be reached, nothing is noticed.
//
// A token from OwnTasks in a transaction must be committed first, or the task looks lost.
//
// The context is for performing the task. Call the returned function when that is done, before the
// task is returned.
func (s *Store) OwnershipContext(
	ctx context.Context, owned OwnedTask,
) (context.Context, context.CancelFunc) {
	s = &Store{core: s.core} // what watches outlives the caller's transaction
	s.hear(kindLost)
	ctx, cancel := context.WithCancelCause(ctx)
	watched := &watchedOwner{id: owned.ID, lose: cancel}
	p := owned.performance()
	o := &s.owners
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.watched == nil {
		o.watched = map[performance]map[*watchedOwner]bool{}
		o.wake = make(chan struct{}, 1)
	}
	if o.watched[p] == nil {
		o.watched[p] = map[*watchedOwner]bool{}
	}
	o.watched[p][watched] = true
	o.running = o.running || s.background.start(s.watchOwners)
	if !o.running {
		cancel(ErrClosed)
	}
	return ctx, func() {
		o.leave(p, watched)
		cancel(context.Canceled)
	}
}

// owners is who wants to know when a performance is lost.
type owners struct {
	mutex   sync.Mutex
	watched map[performance]map[*watchedOwner]bool
	wake    chan struct{}
	running bool
}

type watchedOwner struct {
	id   TaskID
	lose context.CancelCauseFunc
}

func (o *owners) leave(p performance, watched *watchedOwner) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	delete(o.watched[p], watched)
	if len(o.watched[p]) == 0 {
		delete(o.watched, p)
	}
}

// lost tells that performances are lost for certain.
func (o *owners) lost(performances ...performance) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, p := range performances {
		for watched := range o.watched[p] {
			watched.lose(&TaskError{IDs: []TaskID{watched.id}, Err: ErrInvalidToken})
		}
		delete(o.watched, p)
	}
}

// lostSome tells that tasks with these keys may be lost.
func (o *owners) lostSome(keys []int64) {
	lost := make(map[int64]bool, len(keys))
	for _, key := range keys {
		lost[key] = true
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for p := range o.watched {
		if lost[p.key] {
			signal(o.wake)
			return
		}
	}
}

// lostAny tells that any performance may be lost.
func (o *owners) lostAny() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if len(o.watched) > 0 {
		signal(o.wake)
	}
}

// watchOwners looks at the performances that are watched, once an interval and when one is said to
// be lost. It ends when there are none.
func (s *Store) watchOwners(ctx context.Context) {
	o := &s.owners
	for {
		select {
		case <-ctx.Done():
			o.mutex.Lock()
			defer o.mutex.Unlock()
			o.running = false
			for _, performance := range o.watched {
				for watched := range performance {
					watched.lose(ErrClosed)
				}
			}
			return
		case <-o.wake:
		case <-time.After(around(s.poll)):
		}
		o.mutex.Lock()
		if len(o.watched) == 0 {
			o.running = false
			o.mutex.Unlock()
			return
		}
		looked := make([]performance, 0, len(o.watched))
		for p := range o.watched {
			looked = append(looked, p)
		}
		o.mutex.Unlock()
		if err := s.lookAtOwners(ctx, looked); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "could not look at what is owned", slog.Any("error", err))
		}
	}
}

func (s *Store) lookAtOwners(ctx context.Context, looked []performance) error {
	keys, claims := keysAndClaims(looked)
	owned := map[performance]bool{}
	err := s.run(ctx, step{
		name: "still_owned", args: []any{keys, claims}, read: readPerformances(owned),
	})
	if err != nil {
		return err
	}
	for _, p := range looked {
		if !owned[p] {
			s.owners.lost(p)
		}
	}
	return nil
}
