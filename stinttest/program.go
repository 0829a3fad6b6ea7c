package stinttest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/stint-tasks/stint/internal/programs"
	"github.com/stint-tasks/stint/worker"
)

// Program is the handler that runs a program, in any language, as "stint worker" does: the file is
// named after the action that it performs. It gets the environment of the test, that of "stint
// worker", and env, whose elements have the form "key=value":
//
//	stinttest.TryEveryCrash(t, store, stint.Task{Action: "bill"},
//		func(p *stinttest.Process) worker.Registration { return p.Program("programs/bill") },
//		check)
//
// The URL in STINT_DATABASE_URL leads it to the database of the test, as the role of the test,
// through a proxy that counts its requests: the process dies before and after each, and so does the
// program, by SIGKILL with all of its process group, before it hears another word. It also dies
// after its end, before and after its task is returned. A call of the program to the world is tried
// between the requests ahead of it and behind it, not ahead of another call. To try each, have the
// program call a server of the test, by an address in env, that answers within [Process.Call].
//
// What the program says to the database by another URL is not counted, requests to cancel a
// statement are ignored, and a pipeline counts as a batch. Programs run on Unix only.
func (p *Process) Program(path string, env ...string) worker.Registration {
	action := filepath.Base(path)
	refused := worker.Handle(action, nil)
	directory, err := programs.Open(filepath.Dir(path), action)
	if err != nil {
		p.unusable = err
		return refused
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		p.unusable = err
		return refused
	}
	config := p.Pool.Config().ConnConfig
	address := url.URL{
		Scheme: "postgres", User: url.User(config.User), Host: listener.Addr().String(),
		Path: "/" + config.Database, RawQuery: "sslmode=disable",
	}
	relay := &relay{process: p, config: &config.Config, listener: listener}
	p.relays = append(p.relays, relay)
	go relay.serve()
	directory.Env = append(slices.Clone(env), "STINT_DATABASE_URL="+address.String())
	directory.Dead = p.gone
	return directory.Handlers()[0]
}

// A relay is the proxy between a program and the server. When the process has died, it keeps the
// connections of the program open and silent, so that the program waits until it is killed.
type relay struct {
	process  *Process
	config   *pgconn.Config
	listener net.Listener

	mutex  sync.Mutex
	closed bool
	conns  []net.Conn
}

// serve accepts connections until the relay is closed.
func (r *relay) serve() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		if r.keep(client) {
			go r.handle(client)
		}
	}
}

// keep has a connection closed with the relay, and reports whether it is still open.
func (r *relay) keep(conn net.Conn) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.closed {
		_ = conn.Close()
		return false
	}
	r.conns = append(r.conns, conn)
	return true
}

// close ends the connections, when the program has ended.
func (r *relay) close() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.closed = true
	_ = r.listener.Close()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}

// handle joins a client to a session of its own.
func (r *relay) handle(client net.Conn) {
	server, err := r.connect(client)
	if err == nil {
		go func() { r.hangUp(client, answer(client, server)) }()
		err = ask(server, client)
		if !r.process.isDead() {
			_ = server.Close() // what the client has left open is undone
		}
	}
	r.hangUp(client, err)
}

// hangUp closes the connection of a client, unless the process has died.
func (r *relay) hangUp(client net.Conn, err error) {
	if !errors.Is(err, errDied) && !r.process.isDead() {
		_ = client.Close()
	}
}

// connect opens a session with the parameters for which a client asks.
func (r *relay) connect(client net.Conn) (net.Conn, error) {
	backend := pgproto3.NewBackend(client, client)
	for {
		message, err := backend.ReceiveStartupMessage()
		if err != nil {
			return nil, err
		}
		switch message := message.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := client.Write([]byte("N")); err != nil {
				return nil, err
			}
		case *pgproto3.StartupMessage:
			return r.open(backend, message.Parameters)
		default:
			return nil, errors.New("not a request for a session")
		}
	}
}

// open opens a session as the pool of the process does, and tells the client.
func (r *relay) open(
	backend *pgproto3.Backend, parameters map[string]string,
) (net.Conn, error) {
	config := r.config.Copy()
	for name, value := range parameters {
		if name != "user" && name != "database" {
			config.RuntimeParams[name] = value
		}
	}
	session, err := pgconn.ConnectConfig(context.Background(), config)
	if r.process.isDead() {
		return nil, errDied
	}
	if err != nil {
		backend.Send(&pgproto3.ErrorResponse{
			Severity: "FATAL", Code: "08006", Message: err.Error(),
		})
		return nil, errors.Join(err, backend.Flush())
	}
	hijacked, err := session.Hijack()
	if err != nil {
		return nil, err
	}
	if !r.keep(hijacked.Conn) {
		return nil, net.ErrClosed
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	for name, value := range hijacked.ParameterStatuses {
		backend.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	backend.Send(&pgproto3.BackendKeyData{
		ProcessID: hijacked.PID, SecretKey: hijacked.SecretKey,
	})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: hijacked.TxStatus})
	return hijacked.Conn, backend.Flush()
}

// ask passes on what a client says. The messages of a request are kept until the last of them has
// come, as the driver of the pool does: if nobody is to hear the request, the server may not begin.
func ask(server io.Writer, client io.Reader) error {
	var request []byte
	for {
		header := make([]byte, headerBytes)
		if _, err := io.ReadFull(client, header); err != nil {
			return err
		}
		size := int64(binary.BigEndian.Uint32(header[1:])) - (headerBytes - 1)
		if size < 0 {
			return errors.New("a message has no length")
		}
		body, err := io.ReadAll(io.LimitReader(client, size))
		if err != nil {
			return err
		}
		if int64(len(body)) < size {
			return io.ErrUnexpectedEOF
		}
		request = append(append(request, header...), body...)
		switch header[0] {
		case parse, bind, describing, execute, closes:
			continue
		}
		if _, err := server.Write(request); err != nil {
			return err
		}
		request = nil
	}
}

// answer passes on what the server says.
func answer(client io.Writer, server io.Reader) error {
	_, err := io.Copy(client, server)
	return err
}
