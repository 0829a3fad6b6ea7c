package pgcut

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// A link joins a client to its session with the server. One goroutine passes on requests, another
// one answers.
type link struct {
	proxy *Proxy

	client   net.Conn
	answers  *tearable // the same, to write to
	toClient *pgproto3.Backend

	server   net.Conn
	toServer *pgproto3.Frontend
	session  *pgconn.PgConn // hijacked: all it still can do is to cancel
	pid      uint32

	// gone is closed when the client has gone, answered when the server has.
	gone, answered chan struct{}

	// severed says that the client must see no more; abandoned says the same, and that the session
	// goes on without the client.
	severed, abandoned atomic.Bool

	// stalled says that answers do not get through; orphaned says that the session has ended, and
	// the client is not told.
	stalled, orphaned atomic.Bool

	// held is closed when the test has decided about the request that is held back; nil if there is
	// none. Like the four fields below, it belongs to the goroutine that passes requests on.
	held       chan struct{}
	statements []string
	begun      []string          // the statements of the transaction
	prepared   map[string]string // statements by name
	portals    map[string]string // statements by the portal they are bound to

	progress progress

	mutex sync.Mutex
	// pending are the requests without an answer, each with its trap or nil.
	pending []*Trap
}

func newLink(
	p *Proxy, client net.Conn, toClient *pgproto3.Backend, session *pgconn.PgConn,
	hijacked *pgconn.HijackedConn,
) *link {
	l := &link{
		proxy: p, client: client, toClient: toClient,
		server: hijacked.Conn, toServer: hijacked.Frontend, session: session, pid: hijacked.PID,
		gone: make(chan struct{}), answered: make(chan struct{}),
		prepared: map[string]string{}, portals: map[string]string{},
	}
	l.progress.changed.L = &l.progress.mutex
	return l
}

// run passes messages on until the client, the server or the proxy has gone.
func (l *link) run() {
	p := l.proxy
	p.mutex.Lock()
	p.links[l.pid] = l
	p.mutex.Unlock()
	p.running.Go(l.passAnswers)
	l.passRequests()
	if !l.abandoned.Load() {
		close(l.gone)
		l.proxy.toServer.pass(l.proxy.ctx)
		l.endSession()
	}
	<-l.answered
	p.mutex.Lock()
	delete(p.links, l.pid)
	p.mutex.Unlock()
	p.drop(l.server)
}

// endSession asks the server to end the session. What is not committed by then never will be.
func (l *link) endSession() {
	message, err := (&pgproto3.Terminate{}).Encode(nil)
	if err == nil {
		_, _ = l.server.Write(message) // a server that has gone has ended it
	}
}

// passRequests passes on what the client says, request by request.
func (l *link) passRequests() {
	for {
		message, err := l.toClient.Receive()
		if err != nil {
			return
		}
		if _, ok := message.(*pgproto3.Terminate); ok {
			return
		}
		if l.held != nil {
			<-l.held
			l.held = nil
		}
		l.stepTo(message)
		l.note(message)
		l.toServer.Send(message)
		l.flushStep(message)
		switch message.(type) {
		case *pgproto3.Query, *pgproto3.Sync:
			l.endRequest()
		case *pgproto3.CopyData, *pgproto3.CopyDone, *pgproto3.CopyFail, *pgproto3.Flush:
			_ = l.toServer.Flush() // whoever reads the answers notices what is wrong
		}
	}
}

// note keeps track of which statements are executed.
func (l *link) note(message pgproto3.FrontendMessage) {
	switch message := message.(type) {
	case *pgproto3.Parse:
		l.prepared[message.Name] = message.Query
		if change := l.proxy.change.Load(); change != nil {
			message.Query = (*change)(message.Query)
		}
	case *pgproto3.Bind:
		l.portals[message.DestinationPortal] = l.prepared[message.PreparedStatement]
	case *pgproto3.Execute:
		l.execute(l.portals[message.Portal])
	case *pgproto3.Query:
		l.execute(message.String)
	}
}

func (l *link) execute(statement string) {
	l.statements = append(l.statements, statement)
	const begin = "begin"
	if len(statement) >= len(begin) && strings.EqualFold(statement[:len(begin)], begin) {
		l.begun = nil
	}
	l.begun = append(l.begun, statement)
}

// endRequest passes a complete request on, unless a trap wants it.
func (l *link) endRequest() {
	trap := l.proxy.admit(Request{Statements: l.statements, Transaction: l.begun})
	l.statements = nil
	l.mutex.Lock()
	l.pending = append(l.pending, trap)
	l.mutex.Unlock()
	if trap == nil || trap.at != AtRequest {
		if l.proxy.toServer.pass(l.proxy.ctx) {
			_ = l.toServer.Flush()
		}
		return
	}
	held := make(chan struct{})
	l.held = held
	trap.link = l
	close(trap.reached)
	// The goroutine goes on reading, to notice if the client goes.
	l.proxy.running.Go(func() {
		defer close(held)
		if l.await(trap) == pass {
			_ = l.toServer.Flush()
		}
	})
}

// await returns the decision about a held request, and cuts the connection if that is the decision.
func (l *link) await(trap *Trap) verdict {
	decided := cut
	select {
	case decided = <-trap.verdict:
	case <-l.gone:
	case <-l.answered:
	case <-l.proxy.ctx.Done():
	}
	if decided == cut {
		l.severed.Store(true)
		l.endSession()
	}
	return decided
}

// passAnswers passes on what the server says until it ends the session, and then lets go of the
// client.
func (l *link) passAnswers() {
	defer l.progress.finish()
	defer close(l.answered)
	defer l.client.Close() //nolint:errcheck // whoever reads from it notices
	for {
		message, err := l.toServer.Receive()
		if err != nil {
			if l.orphaned.Load() {
				l.awaitClient()
			} else if l.proxy.toClient.pass(l.proxy.ctx) {
				l.flushToClient()
			}
			return
		}
		_, notification := message.(*pgproto3.NotificationResponse)
		if notification && l.proxy.muted.Load() {
			continue
		}
		_, ready := message.(*pgproto3.ReadyForQuery)
		if (ready || notification) && !l.proxy.toClient.pass(l.proxy.ctx) {
			return
		}
		l.toClient.Send(message)
		trap := l.answering()
		if ready {
			l.finish(trap)
		}
		l.progress.answer(message)
		_, row := message.(*pgproto3.DataRow)
		if !row && (ready || trap == nil || trap.at == AtRequest) && !l.proxy.toClient.shut() {
			l.flushToClient()
		}
	}
}

func (l *link) flushToClient() {
	if !l.severed.Load() && !l.abandoned.Load() && !l.stalled.Load() {
		_ = l.toClient.Flush() // whoever reads from it notices
	}
}

// answering returns the trap of the request that the server is answering.
func (l *link) answering() *Trap {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.pending) == 0 {
		return nil
	}
	return l.pending[0]
}

// finish takes note that the server has answered a request.
func (l *link) finish(trap *Trap) {
	l.mutex.Lock()
	l.pending = l.pending[1:]
	l.mutex.Unlock()
	if trap == nil {
		return
	}
	close(trap.answered)
	if trap.at != AtRequest {
		if trap.at == InReply {
			l.answers.torn.Store(true)
			l.flushToClient()
		}
		trap.link = l
		close(trap.reached)
		l.await(trap)
	}
	if l.abandoned.Load() {
		l.endSession()
	}
}
