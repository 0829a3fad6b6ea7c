//go:build linux

package main

import (
	"context"
	"io"
	"net"
	"sync"
)

// A proxy passes TCP connections on to one address, until its network is cut. Then it keeps the
// connections and passes nothing on, as a network that loses all packets does: neither side is told
// anything.
type proxy struct {
	listener net.Listener
	to       string

	mutex sync.Mutex
	whole chan struct{} // closed while the network is whole
	conns map[net.Conn]bool
}

func newProxy(ctx context.Context, to string) (*proxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{
		listener: listener, to: to, whole: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	close(p.whole)
	go p.accept()
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

// cut makes the proxy pass nothing on.
func (p *proxy) cut() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.whole = make(chan struct{})
}

// heal ends the connections that stood while the network was cut, and lets new ones through.
func (p *proxy) heal() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
	close(p.whole)
}

// close ends everything.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// passes waits until the network is whole.
func (p *proxy) passes() {
	p.mutex.Lock()
	whole := p.whole
	p.mutex.Unlock()
	<-whole
}

func (p *proxy) keep(conn net.Conn) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.conns[conn] = true
}

func (p *proxy) drop(conn net.Conn) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.conns, conn)
	_ = conn.Close()
}

func (p *proxy) serve(client net.Conn) {
	p.keep(client)
	defer p.drop(client)
	p.passes()
	var dialer net.Dialer
	server, err := dialer.DialContext(context.Background(), "tcp", p.to)
	if err != nil {
		return
	}
	p.keep(server)
	defer p.drop(server)
	ended := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(gated{to, p}, from) // either side may end a connection
		ended <- struct{}{}
	}
	go pass(server, client)
	go pass(client, server)
	<-ended
}

// gated is a connection that takes data only while the network is whole.
type gated struct {
	net.Conn
	proxy *proxy
}

func (g gated) Write(data []byte) (int, error) {
	g.proxy.passes()
	return g.Conn.Write(data)
}
