package testservice

import (
	"net"
	"sync"
	"testing"
)

// A Proxy stands between a client and a service, whose connections it can cut or freeze.
type Proxy struct {
	listener net.Listener

	mutex   sync.Mutex
	targets []string
	next    int // of targets
	conns   map[net.Conn]bool
	refuse  bool
	frozen  chan struct{} // nil, or closed when nothing is frozen any more
}

// NewProxy returns a proxy to a host and port, which is closed at the end of the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	var listening net.ListenConfig
	listener, err := listening.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("Listen = %v", err)
	}
	p := &Proxy{listener: listener, targets: []string{target}, conns: map[net.Conn]bool{}}
	var accepting sync.WaitGroup
	accepting.Go(p.accept)
	tb.Cleanup(func() {
		p.Freeze(false)
		p.Cut(true)
		_ = listener.Close()
		accepting.Wait()
	})
	return p
}

// Address is where the proxy is to be found.
func (p *Proxy) Address() string { return "http://" + p.listener.Addr().String() }

// Aim makes new connections go to other targets, in turn, and past those that nobody serves.
func (p *Proxy) Aim(targets ...string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.targets = targets
}

// dial connects to the next target that somebody serves.
func (p *Proxy) dial() (conn net.Conn, err error) {
	p.mutex.Lock()
	p.next++
	targets, next := p.targets, p.next
	p.mutex.Unlock()
	for i := range targets {
		at := targets[(next+i)%len(targets)]
		if conn, err = net.Dial("tcp", at); err == nil { //nolint:noctx // it ends with the test
			return conn, nil
		}
	}
	return nil, err
}

// Cut breaks all connections, and refuses new ones if refuse is set.
func (p *Proxy) Cut(refuse bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.refuse = refuse
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}

// Freeze keeps everything that is sent, in both directions, without closing anything, or lets it
// go on.
func (p *Proxy) Freeze(freeze bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case freeze && p.frozen == nil:
		p.frozen = make(chan struct{})
	case !freeze && p.frozen != nil:
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *Proxy) accept() {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		serving.Go(func() { p.serve(conn) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // it may be closed already
	server, err := p.dial()
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // it may be closed already
	if !p.keep(client, server) {
		return
	}
	var copying sync.WaitGroup
	copying.Go(func() { p.pass(client, server) })
	copying.Go(func() { p.pass(server, client) })
	copying.Wait()
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.refuse {
		return false
	}
	for _, conn := range conns {
		p.conns[conn] = true
	}
	return true
}

// pass passes on what is sent until one end is closed, and then closes the other one.
func (p *Proxy) pass(from, to net.Conn) {
	defer to.Close() //nolint:errcheck // it may be closed already
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mutex.Lock()
		frozen := p.frozen
		p.mutex.Unlock()
		if frozen != nil {
			<-frozen
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
