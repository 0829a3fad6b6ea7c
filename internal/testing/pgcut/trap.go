package pgcut

import (
	"slices"
	"strings"
)

// A Request is what a client sends before it waits for an answer.
type Request struct {
	// Statements are the statements that the request executes, in their order. A request that only
	// prepares statements has none.
	Statements []string

	// Transaction are the statements executed since the last BEGIN on the connection, those of the
	// request included.
	Transaction []string
}

// A Match picks requests.
type Match func(Request) bool

// Executes picks the requests that execute a statement: one that is the text given, or that begins
// with the comment "-- name: " and that text.
func Executes(statement string) Match {
	return func(r Request) bool { return has(r.Statements, statement) }
}

// Commits picks the requests that commit a transaction in which the statement was executed, before
// this request or in it.
func Commits(statement string) Match {
	return func(r Request) bool {
		return has(r.Statements, "commit") && has(r.Transaction, statement)
	}
}

func has(statements []string, wanted string) bool {
	return slices.ContainsFunc(statements, func(statement string) bool {
		first, _, _ := strings.Cut(statement, "\n")
		return first == wanted || first == "-- name: "+wanted
	})
}

// An Instant is when in the course of a request something happens.
type Instant int

const (
	// AtRequest is when the client has sent the request and the server has seen none of it.
	AtRequest Instant = iota
	// AtReply is when the server has answered in full and the client has seen none of it.
	AtReply
	// InReply is when the server has answered in full and the client has seen half of it. Such a
	// request can only be cut.
	InReply
)

func (i Instant) String() string {
	return map[Instant]string{
		AtRequest: "request", AtReply: "reply", InReply: "half of the reply",
	}[i]
}

type verdict int

const (
	pass verdict = iota
	cut
)

// A Trap waits for one request and stops it at an instant.
type Trap struct {
	at      Instant
	match   Match
	again   bool // it stays, and cuts each request
	verdict chan verdict

	// link is set before reached is closed.
	link     *link
	reached  chan struct{}
	answered chan struct{}
}

// Cut cuts the connection of the next request that matches. By the time the client notices, the
// server has ended the session, so all that was not committed is undone.
func (p *Proxy) Cut(at Instant, match Match) *Trap {
	t := p.Hold(at, match)
	t.Cut()
	return t
}

// CutEach is [Proxy.Cut] of each request that matches, until the trap is withdrawn.
func (p *Proxy) CutEach(at Instant, match Match) *Trap {
	t := newTrap(at, match)
	t.again = true
	p.set(t)
	return t
}

// Hold stops the next request that matches until the test decides. If several traps match, the one
// that was set first takes the request, and each takes one only.
func (p *Proxy) Hold(at Instant, match Match) *Trap {
	t := newTrap(at, match)
	p.set(t)
	return t
}

func newTrap(at Instant, match Match) *Trap {
	return &Trap{
		at: at, match: match, verdict: make(chan verdict, 1),
		reached: make(chan struct{}), answered: make(chan struct{}),
	}
}

func (p *Proxy) set(t *Trap) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.traps = append(p.traps, t)
}

// Withdraw removes a trap, and reports whether it was there: if not, a request has come or is about
// to come to its instant.
func (p *Proxy) Withdraw(t *Trap) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	i := slices.Index(p.traps, t)
	if i >= 0 {
		p.traps = slices.Delete(p.traps, i, i+1)
	}
	return i >= 0
}

// Reached is closed when the request has come to the instant.
func (t *Trap) Reached() <-chan struct{} { return t.reached }

// Answered is closed when the server has answered the request.
func (t *Trap) Answered() <-chan struct{} { return t.answered }

// Sprung reports whether the request has come to the instant.
func (t *Trap) Sprung() bool {
	select {
	case <-t.reached:
		return true
	default:
		return false
	}
}

// Release lets the request, or its answer, pass. Only one of Release and Cut may be called, and
// only once.
func (t *Trap) Release() { t.verdict <- pass }

// Cut cuts the connection as [Proxy.Cut] does.
func (t *Trap) Cut() { t.verdict <- cut }

// Abandon cuts the client off from a request that is held at [AtRequest]. The server executes the
// request late, when [Trap.Release] is called.
func (t *Trap) Abandon() {
	<-t.reached
	t.link.abandoned.Store(true)
	_ = t.link.client.Close()
}

// PID is the process ID of the session that a held request belongs to.
func (t *Trap) PID() uint32 {
	<-t.reached
	return t.link.pid
}

// admit counts a request and returns the trap for it, if there is one.
func (p *Proxy) admit(r Request) *Trap {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.roundTrips++
	for i, t := range p.traps {
		if !t.match(r) {
			continue
		}
		if t.again {
			once := newTrap(t.at, t.match)
			once.Cut()
			return once
		}
		p.traps = append(p.traps[:i:i], p.traps[i+1:]...)
		return t
	}
	return nil
}
