package pgcut

import (
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A Stepper stops sessions ahead of statements, also ahead of those in the middle of a batch: the
// server has executed all that comes before, and has seen nothing of what comes after.
type Stepper struct {
	picks func(statement string) bool
	stops chan Stop
	ended chan struct{}
	end   sync.Once
}

// A Stop is a session that waits ahead of a statement.
type Stop struct {
	// Statement is the text of the statement, and PID the process ID of the session.
	Statement string
	PID       uint32

	released chan struct{}
}

// Release lets the session execute the statement, up to the next one that the stepper picks.
func (s Stop) Release() { close(s.released) }

// Step stops sessions of the proxy ahead of the statements that picks returns true for, until
// [Stepper.End] is called. It takes the place of an earlier stepper, which ends.
func (p *Proxy) Step(picks func(statement string) bool) *Stepper {
	s := &Stepper{picks: picks, stops: make(chan Stop), ended: make(chan struct{})}
	if before := p.stepper.Swap(s); before != nil {
		before.End()
	}
	return s
}

// Stops tells of each session that has come to a statement. If it is not received from, the session
// waits.
func (s *Stepper) Stops() <-chan Stop { return s.stops }

// End lets all sessions go on, and stops none any more.
func (s *Stepper) End() { s.end.Do(func() { close(s.ended) }) }

// progress is how far the server is with the statements of a request.
type progress struct {
	mutex   sync.Mutex
	changed sync.Cond
	// begun are the statements of the extended protocol that have no answer yet.
	begun int
	// failed says that the server skips the rest of the request, over that it says no more.
	failed, over bool
}

// begin takes note that a statement is sent.
func (p *progress) begin() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.begun++
}

// answer takes note of an answer of the server.
func (p *progress) answer(message pgproto3.BackendMessage) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch message.(type) {
	case *pgproto3.CommandComplete, *pgproto3.EmptyQueryResponse:
		p.begun = max(p.begun-1, 0)
	case *pgproto3.ErrorResponse:
		p.begun, p.failed = 0, true
	case *pgproto3.ReadyForQuery:
		p.begun, p.failed = 0, false
	default:
		return
	}
	p.changed.Broadcast()
}

// finish says that no more answers come.
func (p *progress) finish() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.over = true
	p.changed.Broadcast()
}

// await waits until the server has answered what was sent. It reports whether the server executes
// what comes next.
func (p *progress) await() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for p.begun > 0 && !p.failed && !p.over {
		p.changed.Wait()
	}
	return !p.failed && !p.over
}

// stepTo waits ahead of a message if that begins a statement that the stepper of the proxy picks.
func (l *link) stepTo(message pgproto3.FrontendMessage) {
	s := l.proxy.stepper.Load()
	if s == nil {
		return
	}
	var statement string
	switch message := message.(type) {
	case *pgproto3.Bind:
		statement = l.prepared[message.PreparedStatement]
	case *pgproto3.Query:
		statement = message.String
	default:
		return
	}
	if !s.picks(statement) || !l.progress.await() {
		return
	}
	stop := Stop{Statement: statement, PID: l.pid, released: make(chan struct{})}
	select {
	case s.stops <- stop:
	case <-s.ended:
	case <-l.answered:
	case <-l.proxy.ctx.Done():
	}
	select {
	case <-stop.released:
	case <-s.ended:
	case <-l.answered:
	case <-l.proxy.ctx.Done():
	}
}

// flushStep has the server execute a statement of a batch before the batch is complete.
func (l *link) flushStep(message pgproto3.FrontendMessage) {
	if _, ok := message.(*pgproto3.Execute); !ok {
		return
	}
	l.progress.begin()
	if l.proxy.stepper.Load() != nil {
		l.toServer.Send(&pgproto3.Flush{})
		_ = l.toServer.Flush() // whoever reads the answers notices what is wrong
	}
}
