package pgcut

// DropNotifications keeps all notifications from the clients of the proxy from now on.
func (p *Proxy) DropNotifications() { p.muted.Store(true) }

// PassNotifications lets notifications through again.
func (p *Proxy) PassNotifications() { p.muted.Store(false) }

// Refuse turns clients that want to connect away, or lets them in again. Those that are connected
// stay.
func (p *Proxy) Refuse(refuse bool) { p.refusing.Store(refuse) }

// Stall keeps all further messages of the session with this process ID from its client. The
// messages of the client still reach the server. Stall reports whether there is such a session.
func (p *Proxy) Stall(pid uint32) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	l := p.links[pid]
	if l == nil {
		return false
	}
	l.stalled.Store(true)
	return true
}

// HangUp ends all connections that there are.
func (p *Proxy) HangUp() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Change has the server get other texts for the statements that clients prepare from now on. It
// must not slow down the clients, and be safe for concurrent use.
func (p *Proxy) Change(to func(statement string) string) { p.change.Store(&to) }
