package worker

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
)

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

// A waitResult says why a wait for the end of an outage is over.
type waitResult int

const (
	tooLate  waitResult = iota // the lease has expired, or the worker has stopped waiting
	mayProbe                   // it is the turn of the performance, until probed is called
	answered                   // the server has answered another performance
)

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

// wait lets a performance wait whose return the server has not answered because of err.
func (o *serverOutage) wait(e *execution, p *performance, err error) waitResult {
	over, turn := o.join(err)
	for {
		left := e.leaseLeft(p)
		if left <= 0 {
			o.leave(turn)
			return tooLate
		}
		timer := time.NewTimer(left)
		select {
		case <-over:
			timer.Stop()
			return answered
		case turn <- struct{}{}:
			timer.Stop()
			return o.takeTurn(e, p, turn)
		case <-timer.C: // the lease may have been extended
		case <-e.stopped:
			timer.Stop()
			o.leave(turn)
			return tooLate
		}
	}
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

// takeTurn pauses before a probe.
func (o *serverOutage) takeTurn(e *execution, p *performance, turn <-chan struct{}) waitResult {
	o.mutex.Lock()
	if o.turn != turn { // the outage was over in the meantime
		o.mutex.Unlock()
		return answered
	}
	o.tries++
	pause := reconnect().pause(o.tries)
	o.mutex.Unlock()
	if !e.pause(p, pause) {
		<-turn
		o.leave(turn)
		return tooLate
	}
	return mayProbe
}

// probed ends a turn, and the outage if the server has answered.
func (o *serverOutage) probed(answered bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if answered {
		o.end()
		return
	}
	o.waiting--
	<-o.turn
}

// unanswered reports whether a call has failed for want of a server: there is no connection, or it
// broke, which the server may have announced.
func unanswered(err error) bool {
	var verdict *stint.TaskError
	if err == nil || hopeless(err) || errors.As(err, &verdict) {
		return false
	}
	var connect *pgconn.ConnectError
	var answer *pgconn.PgError
	return errors.As(err, &connect) || !errors.As(err, &answer) ||
		answer.SeverityUnlocalized == "FATAL" || answer.SeverityUnlocalized == "PANIC" ||
		strings.HasPrefix(answer.Code, "08") // connection exceptions
}
