package worker

import "sync"

// A serverOutage is the state of an outage: the server does not answer the performances that return
// tasks. These wait. One at a time probes the server with its own task, after growing pauses, so an
// outage costs the same however many performances there are.
type serverOutage struct {
	mutex sync.Mutex
	err   error
	// tries is how often the server was probed, waiting how many performances wait.
	tries, waiting int
	// over is closed when the server has answered; nil if there is no outage.
	over chan struct{}
	// turn is full while a performance probes.
	turn chan struct{}
}

// current returns why the server does not answer, or nil if no outage is known.
func (o *serverOutage) current() error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.err
}

// join returns the channels of the outage. If there is none, one begins.
func (o *serverOutage) join(err error) (over <-chan struct{}, turn chan struct{}) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.over == nil {
		o.over, o.turn = make(chan struct{}), make(chan struct{}, 1)
		o.tries, o.waiting = 0, 0
	}
	o.waiting++
	o.err = err
	return o.over, o.turn
}

// leave takes a performance for which it is too late out of an outage. If no performance is left to
// probe the server, the outage counts as over.
func (o *serverOutage) leave(turn <-chan struct{}) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.turn != turn {
		return
	}
	if o.waiting--; o.waiting == 0 {
		o.end()
	}
}

// end ends an outage; the mutex is held.
func (o *serverOutage) end() {
	close(o.over)
	o.err, o.over, o.turn = nil, nil, nil
}

// probed ends a turn, and the outage if the server has answered.
func (o *serverOutage) probed(worked bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if worked {
		o.end()
		return
	}
	o.waiting--
	<-o.turn
}
