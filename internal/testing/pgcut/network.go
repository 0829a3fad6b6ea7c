package pgcut

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Way is a direction in which messages go.
type Way int

// The ways.
const (
	ToServer Way = iota
	ToClient
)

// way is what becomes of the messages that go one way.
type way struct {
	mutex sync.Mutex
	open  chan struct{} // nil if nothing is held up, otherwise closed when it goes on
	delay func() time.Duration
}

func (p *Proxy) way(w Way) *way {
	if w == ToServer {
		return &p.toServer
	}
	return &p.toClient
}

// Block keeps all that is sent one way, requests to connect included, as a network does that loses
// it, or lets it go on. What was kept then arrives, also if its sender has gone meanwhile.
func (p *Proxy) Block(w Way, block bool) {
	way := p.way(w)
	way.mutex.Lock()
	defer way.mutex.Unlock()
	switch {
	case block && way.open == nil:
		way.open = make(chan struct{})
	case !block && way.open != nil:
		close(way.open)
		way.open = nil
	}
}

// Delay makes each request, or the end of each answer and each notification, arrive later by what
// delay returns at that time, which many may ask at once; nil is not at all.
func (p *Proxy) Delay(w Way, delay func() time.Duration) {
	way := p.way(w)
	way.mutex.Lock()
	defer way.mutex.Unlock()
	way.delay = delay
}

// Orphan ends all sessions, of which their clients learn nothing: their connections stand, and
// nothing answers.
func (p *Proxy) Orphan() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, l := range p.links {
		l.orphaned.Store(true)
		_ = l.server.Close()
	}
}

// pass waits as long as the way holds a message up, and reports false if ctx ends before.
func (w *way) pass(ctx context.Context) bool {
	w.mutex.Lock()
	open, delay := w.open, w.delay
	w.mutex.Unlock()
	if delay != nil {
		timer := time.NewTimer(delay())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	if open != nil {
		select {
		case <-open:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// shut reports whether nothing passes now.
func (w *way) shut() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.open != nil
}

// awaitClient waits until the client of an orphaned link has given up.
func (l *link) awaitClient() {
	select {
	case <-l.gone:
	case <-l.proxy.ctx.Done():
	}
}

// A tearable connection can break off in the middle of what is written next.
type tearable struct {
	net.Conn
	torn atomic.Bool
}

func (t *tearable) Write(text []byte) (int, error) {
	if !t.torn.Load() {
		return t.Conn.Write(text)
	}
	n, err := t.Conn.Write(text[:len(text)/2])
	if err == nil {
		err = io.ErrShortWrite
	}
	return n, err
}
