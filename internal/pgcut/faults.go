package pgcut

// DropNotifications keeps from the clients of the proxy, from now on, what they listen for.
func (p *Proxy) DropNotifications() { p.muted.Store(true) }

// Refuse turns clients that want to connect away, or lets them in again. Those that are connected
// stay.
func (p *Proxy) Refuse(refuse bool) { p.refusing.Store(refuse) }

// Stall lets nothing more that the session with a process ID says reach its client, which still
// reaches the server. It reports whether there is such a session.
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
