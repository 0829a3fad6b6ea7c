package session

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// How often a store checks whether the sessions of others live. If many stores check, each
	// checks less often, and all together about ten times a second.
	watchEvery    = 250 * time.Millisecond
	watchPerStore = 100 * time.Millisecond

	// watchAlone is how often a store checks that knows of no other session.
	watchAlone = time.Second

	// A store that could not check for a while may be one of many that could not reach the
	// database. Once it can check again, it gives the sessions of the others this long to come
	// back, which is longer than the pauses between their attempts.
	outageGrace = pg.OutagePauseMax * 5 / 3

	// quietFor is how long the word of a store counts that no task is in progress, and stirredFor
	// how long that counts less than a sign that some may be.
	quietFor   = 2 * time.Second
	stirredFor = 2 * time.Second
)

// A Seen is what a check of the sessions has seen.
type Seen struct {
	// Watching is how many stores check, and Others how many sessions there are besides that of
	// this store.
	Watching, Others int
	// Left is how long the grace of a session that is gone lasts, the least of all; nil: there is
	// none.
	Left *time.Duration
}

// Note takes note of a session that is gone and has some of its grace left.
func (s *Seen) Note(left time.Duration) {
	if s.Left == nil || left < *s.Left {
		s.Left = &left
	}
}

// A Watch looks for sessions that are gone. While no task is in progress it leaves that to the
// store that looks for work in the background, which checks once a second: there is nothing to hand
// on then.
type Watch struct {
	session *Session // of this store
	outages *outage.Log

	// look checks the sessions, and hands on what those own that are gone; inGrace: unless they may
	// come back.
	look func(ctx context.Context, inGrace bool) (Seen, error)

	checking sync.Mutex // held by whoever checks, with what follows
	failing  bool
	lost     bool
	grace    time.Time // until when the others have time to come back

	mutex       sync.Mutex
	quiet, busy time.Time // until when that counts
	stir        chan struct{}
}

// NewWatch returns a watch that does not check yet.
func NewWatch(
	of *Session, logger *slog.Logger, look func(ctx context.Context, inGrace bool) (Seen, error),
) *Watch {
	return &Watch{
		session: of, look: look, stir: make(chan struct{}, 1),
		outages: outage.New(logger, "could not look for processes that are gone"),
	}
}

// Heard takes note of the word of a store whether some task is in progress.
func (w *Watch) Heard(busy bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case busy:
		w.busy, w.quiet = now().Add(stirredFor), time.Time{}
		pg.WakeUp(w.stir)
	case time.Until(w.busy) <= 0:
		w.quiet = now().Add(quietFor)
	}
}

// Stir takes note of a sign that some task is in progress, or may be soon. It reports whether it is
// the first one for a while, so that others may know of none.
func (w *Watch) Stir() (first bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	first = time.Until(w.busy) <= 0
	w.busy, w.quiet = now().Add(stirredFor), time.Time{}
	pg.WakeUp(w.stir)
	return first
}

// left is how long it is quiet.
func (w *Watch) left() time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return time.Until(w.quiet)
}

// Run checks again and again, until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	usual := watchEvery
	for pause := usual; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if w.waitOut(ctx) { // the others begin again at this moment, too
			pause = rand.N(usual) //nolint:gosec // no secret
			continue
		}
		seen, err := w.check(ctx)
		if pg.Failed(ctx, w.outages, err) {
			pause = pg.PauseAfterWork(true, pause, watchEvery)
		} else {
			pause = seen.pause()
			usual = max(pause, time.Millisecond)
		}
	}
}

// waitOut waits until it is not quiet any more. It reports whether it was.
func (w *Watch) waitOut(ctx context.Context) (was bool) {
	for left := w.left(); left > 0 && ctx.Err() == nil; left = w.left() {
		was = true
		select {
		case <-ctx.Done():
		case <-w.stir:
		case <-time.After(left):
		}
	}
	return was
}

// pause is how long it is until the next check.
func (s Seen) pause() time.Duration {
	pause := max(watchEvery, time.Duration(s.Watching)*watchPerStore)
	if s.Others == 0 {
		pause = watchAlone
	}
	pause = pg.Around(pause)
	if s.Left != nil {
		pause = min(pause, *s.Left+time.Millisecond)
	}
	return pause
}

// Looked takes note of what this store has found itself: whether some task is in progress, and
// whether there are sessions of others. If it is or was quiet, it checks these.
func (w *Watch) Looked(ctx context.Context, busy, others bool) {
	was := w.left() > 0
	if w.Heard(busy); others && (was || w.left() > 0) {
		_, err := w.check(ctx)
		pg.Failed(ctx, w.outages, err)
	}
}

func (w *Watch) check(ctx context.Context) (Seen, error) {
	w.checking.Lock()
	defer w.checking.Unlock()
	was := w.lost
	if w.lost = w.session.IsLost(); w.lost && !was { // the sessions of others may be lost too
		w.grace = now().Add(outageGrace)
	}
	seen, err := w.look(ctx, w.failing || time.Until(w.grace) > 0)
	if err != nil {
		w.failing = true
	} else if w.failing {
		w.failing = false
		w.grace = now().Add(outageGrace)
	}
	return seen, err
}

// now is for pauses of this process; the database says when a session is gone.
func now() time.Time {
	return time.Now() //nolint:forbidigo // as the comment says
}
