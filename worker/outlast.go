package worker

import "time"

// A waitResult says why a wait for the end of an outage is over.
type waitResult int

const (
	tooLate  waitResult = iota // the lease has expired, or the worker has stopped waiting
	mayProbe                   // it is the turn of the performance, until probed is called
	answered                   // the server has answered another performance
)

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

// pause waits, and reports whether to go on: the lease lasts, and the worker has not stopped
// waiting.
func (e *execution) pause(p *performance, pause time.Duration) bool {
	left := e.leaseLeft(p)
	timer := time.NewTimer(min(pause, left))
	defer timer.Stop()
	select {
	case <-timer.C:
		return pause < left || e.leaseLeft(p) > 0 // it may have been extended
	case <-e.stopped:
		return false
	}
}
