package interleave_test

import (
	"math/rand/v2"
	"slices"
)

// A move is what a session does when it is let go on.
type move struct {
	of   int // the session
	does footprint
}

// A node is a moment in a run at which a session can go on.
type node struct {
	open  []move
	taken int          // the session that went on last time
	did   footprint    // what it did then
	done  map[int]bool // the sessions for which all that comes of it was tried
	ahead map[int]bool // the sessions that must be tried
	// asleep are sessions for which what comes of it was tried elsewhere, and how they go on.
	asleep map[int]footprint
}

// can reports whether a session can go on.
func (n *node) can(of int) bool {
	return slices.ContainsFunc(n.open, func(m move) bool { return m.of == of })
}

// An explorer tries the orders in which two sessions can go on, and of those that differ only in
// the order of statements that cannot notice one another, one. It finds where another order can
// make a difference as it goes: between two statements of which one can notice the other, and
// nothing else puts one ahead of the other (dynamic partial-order reduction, by Flanagan and
// Godefroid, with sleep sets, by Godefroid).
type explorer struct {
	path    []*node
	at      int
	strayed int // how often a run did not go as before
	// vain is from where on the run that is under way is like an earlier one; -1: it is not.
	vain int
}

// choose says which of the sessions that can is to go on.
func (e *explorer) choose(open []move) int {
	if e.at < len(e.path) && !sameSessions(e.path[e.at].open, open) {
		e.strayed++
		e.path = e.path[:e.at]
	}
	if e.at == len(e.path) {
		e.path = append(e.path, e.next(open))
	}
	n := e.path[e.at]
	n.open = open
	e.at++
	for _, m := range open {
		if m.of == n.taken {
			n.did = m.does
		}
	}
	return n.taken
}

// did says what the session that was let go on last has done.
func (e *explorer) did(what footprint) { e.path[e.at-1].did = what }

// next is a moment that no run was at.
func (e *explorer) next(open []move) *node {
	n := &node{
		open: open, done: map[int]bool{}, ahead: map[int]bool{},
		asleep: map[int]footprint{},
	}
	if e.at > 0 {
		before := e.path[e.at-1]
		for of, does := range before.asleep {
			if of != before.taken && !does.meets(before.did) {
				n.asleep[of] = does
			}
		}
	}
	n.taken = open[0].of
	for _, m := range open {
		if _, sleeps := n.asleep[m.of]; !sleeps {
			n.taken = m.of
			n.ahead[m.of] = true
			return n
		}
	}
	if e.vain < 0 {
		e.vain = e.at
	}
	return n
}

func sameSessions(a, b []move) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].of != b[i].of {
			return false
		}
	}
	return true
}

// begin begins a run.
func (e *explorer) begin() { e.at, e.vain = 0, -1 }

// more ends a run. It reports whether there are more to make.
func (e *explorer) more() bool {
	e.path = e.path[:e.at]
	if e.vain >= 0 {
		e.path = e.path[:e.vain]
	}
	e.findRaces()
	for len(e.path) > 0 {
		n := e.path[len(e.path)-1]
		n.done[n.taken] = true
		n.asleep[n.taken] = n.did
		for _, m := range n.open {
			if _, sleeps := n.asleep[m.of]; n.ahead[m.of] && !n.done[m.of] && !sleeps {
				n.taken = m.of
				return true
			}
		}
		e.path = e.path[:len(e.path)-1]
	}
	return false
}

// findRaces marks where the run that has ended could have gone on otherwise with another result.
func (e *explorer) findRaces() {
	type clock [2]int // how many moves of each session come before for sure, itself included
	clocks := make([]clock, len(e.path))
	places := [2][]int{} // of the moves of each session in the path
	for j, n := range e.path {
		var now clock
		if own := places[n.taken]; len(own) > 0 {
			now = clocks[own[len(own)-1]]
		}
		others := places[1-n.taken]
		for k := len(others) - 1; k >= now[1-n.taken]; k-- {
			i := others[k]
			if e.path[i].did.meets(n.did) {
				e.turnRound(i, n.taken)
				now[1-n.taken] = clocks[i][1-n.taken]
				now[n.taken] = max(now[n.taken], clocks[i][n.taken])
				break // runs that turn this round find those before
			}
		}
		places[n.taken] = append(places[n.taken], j)
		now[n.taken] = len(places[n.taken])
		clocks[j] = now
	}
}

// turnRound has a session go on at a moment at which the other one did.
func (e *explorer) turnRound(at, of int) {
	if n := e.path[at]; n.can(of) {
		n.ahead[of] = true
	}
}

// atRandom has any session that can go on.
type atRandom struct{}

func (atRandom) choose(open []move) int { return open[rand.IntN(len(open))].of }

func (atRandom) did(footprint) {}
