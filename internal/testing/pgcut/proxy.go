// Package pgcut stands between a pool and its server and cuts their connection at the instants that
// are hardest to hit by chance: when the server has committed and the client does not know, or when
// the client has asked and the server does not know. It also counts round trips.
//
// Nothing in it depends on time: a test names the request, and the proxy waits until the server has
// answered it, or until the test lets it go on.
package pgcut

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Proxy passes on what clients and a server say to one another, one request at a time.
type Proxy struct {
	base     *pgxpool.Config
	listener net.Listener
	ctx      context.Context //nolint:containedctx // the life of the proxy
	stop     context.CancelFunc
	running  sync.WaitGroup

	toServer, toClient way
	target             atomic.Pointer[pgconn.Config]

	mutex      sync.Mutex
	closed     bool
	conns      map[net.Conn]bool
	links      map[uint32]*link // by the process ID of the session
	traps      []*Trap
	roundTrips int

	muted, refusing atomic.Bool

	stepper atomic.Pointer[Stepper]
	change  atomic.Pointer[func(statement string) string]
}

// New returns a proxy to the server and database that pool is connected to. It ends with the test,
// after the pools that [Proxy.Pool] gave out.
func New(tb testing.TB, pool *pgxpool.Pool) *Proxy {
	tb.Helper()
	p, err := Start(context.WithoutCancel(tb.Context()), pool.Config())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Start is [New] for programs that are no tests: the proxy ends with ctx or [Proxy.Close].
func Start(ctx context.Context, config *pgxpool.Config) (*Proxy, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the clients of the proxy: %w", err)
	}
	p := &Proxy{
		base: config, listener: listener,
		conns: map[net.Conn]bool{}, links: map[uint32]*link{},
	}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.Redirect(config.ConnConfig)
	p.running.Go(p.accept)
	return p, nil
}

// Address is the host and port at which clients reach the proxy. It refuses encryption and asks for
// no password: it opens each session as the user, and in the database, of its own configuration.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Redirect makes new sessions be those of another server, or of a pooler before it. The others stay
// where they are.
func (p *Proxy) Redirect(config *pgx.ConnConfig) { p.target.Store(config.Config.Copy()) }

// Pool returns a pool of up to conns connections that go through the proxy. It makes no round trips
// of its own.
func (p *Proxy) Pool(tb testing.TB, conns int32) *pgxpool.Pool {
	tb.Helper()
	config := p.base.Copy()
	host, port, err := net.SplitHostPort(p.listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		tb.Fatal(err)
	}
	config.ConnConfig.Host, config.ConnConfig.Port = host, uint16(number)
	config.ConnConfig.TLSConfig, config.ConnConfig.Fallbacks = nil, nil
	config.MaxConns, config.MinConns, config.MinIdleConns = conns, 0, 0
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatalf("pool through the proxy: %v", err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// RoundTrips is how many requests have come so far whose answer a client waits for. A batch is one
// request, and so is a COPY; the first use of a statement on a connection makes another one, to
// prepare it.
func (p *Proxy) RoundTrips() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.roundTrips
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(conn) })
	}
}

// Close ends all connections and waits until nothing runs any more.
func (p *Proxy) Close() {
	p.stop()
	_ = p.listener.Close()
	p.mutex.Lock()
	p.closed = true
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mutex.Unlock()
	p.running.Wait()
}

// register makes Close end this connection too. It reports false if Close has begun before.
func (p *Proxy) register(conn net.Conn) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.conns[conn] = true
	return !p.closed
}

// drop closes a connection for good.
func (p *Proxy) drop(conn net.Conn) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.conns, conn)
	_ = conn.Close()
}

// serve serves one client, until the client or the server ends the connection.
func (p *Proxy) serve(client net.Conn) {
	defer p.drop(client)
	if !p.register(client) {
		return
	}
	answers := &tearable{Conn: client}
	backend := pgproto3.NewBackend(client, answers)
	for {
		message, err := backend.ReceiveStartupMessage()
		if err != nil {
			return
		}
		switch message := message.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := client.Write([]byte("N")); err != nil {
				return
			}
		case *pgproto3.CancelRequest:
			if p.toServer.pass(p.ctx) {
				p.cancel(message.ProcessID)
			}
			return
		case *pgproto3.StartupMessage:
			if l := p.connect(client, backend, message.Parameters); l != nil {
				l.answers = answers
				l.run()
			}
			return
		default:
			return
		}
	}
}

// cancel passes a cancel request on to the server, unless its client was cut off: the driver sends
// a cancel request after every connection it loses, and that would meet the request that the test
// delivers late.
func (p *Proxy) cancel(process uint32) {
	p.mutex.Lock()
	l := p.links[process]
	p.mutex.Unlock()
	if l != nil && !l.abandoned.Load() && !l.severed.Load() {
		_ = l.session.CancelRequest(p.ctx) // nobody would be told
	}
}

// connect opens a session with the server for a client that has asked for one.
func (p *Proxy) connect(
	client net.Conn, backend *pgproto3.Backend, parameters map[string]string,
) *link {
	if p.refusing.Load() {
		backend.Send(refusal(errors.New("the proxy turns clients away")))
		_ = backend.Flush()
		return nil
	}
	if !p.toServer.pass(p.ctx) {
		return nil
	}
	config := p.target.Load().Copy()
	for name, value := range parameters {
		if !slices.Contains([]string{"user", "database"}, name) {
			config.RuntimeParams[name] = value
		}
	}
	session, err := pgconn.ConnectConfig(p.ctx, config)
	if err != nil {
		backend.Send(refusal(err))
		_ = backend.Flush()
		return nil
	}
	hijacked, err := session.Hijack()
	if err != nil || !p.register(hijacked.Conn) {
		_ = session.Conn().Close()
		return nil
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	for name, value := range hijacked.ParameterStatuses {
		backend.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	backend.Send(&pgproto3.BackendKeyData{
		ProcessID: hijacked.PID, SecretKey: hijacked.SecretKey,
	})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: hijacked.TxStatus})
	p.toClient.pass(p.ctx)
	_ = backend.Flush() // a client that has gone is noticed by the first read
	return newLink(p, client, backend, session, hijacked)
}

// refusal is the message that tells a client that the server cannot be reached.
func refusal(err error) *pgproto3.ErrorResponse {
	response := &pgproto3.ErrorResponse{Severity: "FATAL", Code: "08006", Message: err.Error()}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		response.Code, response.Message = pgErr.Code, pgErr.Message
	}
	return response
}
