package worker

import (
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
)

// outlast has tasks wait whose return the server has not answered. If nobody probes the server
// already, it does, with one of those that wait at a time and growing pauses, so that an outage
// costs the same however many there are. It reports whether the server answered: all others may go.
func (r *run) outlast(unreturned []*performance, err error) bool {
	if !r.returning.suspend(unreturned) {
		return false
	}
	for try := 1; unanswered(err); try++ {
		r.rest(reconnect().pause(try), err)
		probe := r.returning.probe()
		if len(probe) == 0 {
			return false
		}
		if err = r.returnTogether(probe); unanswered(err) {
			r.returning.wait(probe)
		}
	}
	r.returning.resume()
	return true
}

// rest pauses, and gives up meanwhile those who wait for the server and whose leases expire, all of
// them if the worker's patience ends. It ends early if nobody is left.
func (r *run) rest(pause time.Duration, err error) {
	end := now().Add(pause)
	for {
		late, left := r.returning.late(r.leaseLeft)
		r.giveUp(err, late...)
		left = min(left, end.Sub(now()))
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-r.stopped:
			timer.Stop()
			all, _ := r.returning.late(func(*performance) time.Duration { return 0 })
			r.giveUp(err, all...)
			return
		}
	}
}

// suspend has the performances of a goroutine wait for the server, and reports whether it shall
// probe it; otherwise the goroutine is done.
func (g *returning) suspend(performances []*performance) (probe bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.waiting = append(g.waiting, performances...)
	g.underWay--
	signal(g.landing)
	probe = !g.away
	g.away = true
	return probe
}

// probe takes one of those who wait. If there is none, the goroutine is done.
func (g *returning) probe() []*performance {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if len(g.waiting) == 0 {
		g.away = false
		return nil
	}
	probe := g.waiting[:1:1]
	g.waiting = g.waiting[1:]
	return probe
}

// wait has performances wait behind all others: the fault may be theirs alone.
func (g *returning) wait(performances []*performance) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.waiting = append(g.waiting, performances...)
}

// resume ends an outage: the goroutine that has probed the server returns those who wait.
func (g *returning) resume() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.away = false
	g.underWay++
}

// late takes those who wait and whose leases have expired, and returns how long the shortest of the
// others lasts, 0 if there are none.
func (g *returning) late(
	leaseLeft func(*performance) time.Duration,
) (late []*performance, shortest time.Duration) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	var others []*performance
	for _, p := range g.waiting {
		left := leaseLeft(p)
		if left <= 0 {
			late = append(late, p)
			continue
		}
		if len(others) == 0 || left < shortest {
			shortest = left
		}
		others = append(others, p)
	}
	g.waiting = others
	return late, shortest
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
