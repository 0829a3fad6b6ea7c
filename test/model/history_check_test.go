package model_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
)

// A performance is one fetch of a task, with what its owner was told afterwards.
type performance struct {
	own      event
	returned []event // accepted
	extended []event // accepted
	refused  []event
}

// released reports whether the owner gave the task back unstarted.
func (p *performance) released() bool { return len(p.returned) > 0 && p.returned[0].released }

// faults says what is wrong with a history of tasks that should all have been completed. The events
// may come in any order.
func faults(ids []stint.TaskID, history []event) []string {
	c := checker{
		byToken: map[stint.Token]*performance{},
		byTask:  map[stint.TaskID][]*performance{},
		aged:    map[int64][]event{},
	}
	c.gather(history)
	for _, id := range ids {
		c.checkTask(id, c.byTask[id])
		delete(c.byTask, id)
	}
	for id := range c.byTask {
		c.report(id, "was never inserted")
	}
	return c.faults
}

type checker struct {
	byToken map[stint.Token]*performance
	byTask  map[stint.TaskID][]*performance
	aged    map[int64][]event
	faults  []string
}

func (c *checker) report(id stint.TaskID, format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf("task %s ", id)+fmt.Sprintf(format, args...))
}

// gather puts the events to their fetches.
func (c *checker) gather(history []event) {
	for _, e := range history {
		if e.kind == wasAged {
			c.aged[e.claim()] = append(c.aged[e.claim()], e)
		}
		if e.kind == wasOwned {
			if c.byToken[e.token] != nil {
				c.report(e.task, "was fetched with a token given before")
			}
			p := &performance{own: e}
			c.byToken[e.token] = p
			c.byTask[e.task] = append(c.byTask[e.task], p)
		}
	}
	for _, e := range history {
		if e.kind != wasReturned && e.kind != wasExtended {
			continue
		}
		p := c.byToken[e.token]
		switch {
		case p == nil || p.own.task != e.task || p.own.ended > e.began:
			if e.accepted {
				c.report(e.task, "had a %s accepted with a token never given for it", e.kind)
			}
		case !e.accepted:
			p.refused = append(p.refused, e)
		case e.kind == wasReturned:
			p.returned = append(p.returned, e)
		default:
			p.extended = append(p.extended, e)
		}
	}
}

// checkTask checks the fetches of one task. Their tries put them in order: one that is not
// released uses its try up, so the next has a higher one.
func (c *checker) checkTask(id stint.TaskID, chain []*performance) {
	slices.SortFunc(chain, func(a, b *performance) int {
		order := cmp.Compare(a.own.try, b.own.try)
		if order == 0 && a.released() != b.released() {
			if a.released() {
				return -1
			}
			return 1
		}
		return cmp.Or(order, cmp.Compare(a.own.ended, b.own.ended))
	})
	completions := 0
	for i, p := range chain {
		want := 1
		if i > 0 {
			want = chain[i-1].own.try + 1
			if chain[i-1].released() {
				want--
			}
			c.checkHandOver(id, chain[i-1], p)
		}
		if p.own.try != want {
			c.report(id, "was fetched for try %d, want %d", p.own.try, want)
		}
		c.checkPerformance(id, p, chain[i+1:])
		for _, e := range p.returned {
			if e.completes() {
				completions++
			}
		}
	}
	if completions != 1 {
		c.report(id, "was completed %d times", completions)
	}
}

// checkHandOver checks that a task went from one owner to the next for a reason: the first gave it
// back, or its lease expired and was not extended since.
func (c *checker) checkHandOver(id stint.TaskID, from, to *performance) {
	if to.own.ended < from.own.began {
		c.report(id, "was fetched for try %d before try %d", to.own.try, from.own.try)
	}
	for _, e := range from.returned {
		if e.completes() {
			c.report(id, "was fetched after it was completed")
		}
		if e.began < to.own.ended {
			return
		}
	}
	held := from.own.began
	for _, e := range from.extended {
		if e.ended < to.own.began {
			held = max(held, e.began)
		}
	}
	for _, e := range c.aged[from.own.claim()] {
		if e.began < to.own.ended && e.ended > held {
			return
		}
	}
	c.report(id, "was fetched for try %d while it was owned for try %d",
		to.own.try, from.own.try)
}

// checkPerformance checks what an owner was told against who was given the task later.
func (c *checker) checkPerformance(id stint.TaskID, p *performance, later []*performance) {
	if len(p.returned) > 1 {
		c.report(id, "was returned %d times with one token", len(p.returned))
	}
	for _, e := range slices.Concat(p.returned, p.extended) {
		if slices.ContainsFunc(later, func(l *performance) bool { return l.own.ended < e.began }) {
			c.report(id, "had a %s accepted after it was fetched by another", e.kind)
		}
	}
	for _, e := range p.extended {
		if len(p.returned) > 0 && p.returned[0].ended < e.began {
			c.report(id, "was extended after it was returned")
		}
	}
	for _, e := range p.refused {
		returned := len(p.returned) > 0 && p.returned[0].began < e.ended
		lost := slices.ContainsFunc(later, func(l *performance) bool {
			return l.own.began < e.ended
		})
		if !returned && !lost {
			c.report(id, "had a %s refused though nobody else was given it", e.kind)
		}
	}
}

// tale writes histories by hand.
type tale struct {
	clock  int64
	events []event
}

// A turn is what happens next in a tale.
type turn func(*tale)

func happens(e event) turn {
	return func(s *tale) {
		e.began, e.ended = s.clock+1, s.clock+2
		s.clock += 2
		s.events = append(s.events, e)
	}
}

// tokenOf is a token that a store could give out, by its number.
func tokenOf(number byte) stint.Token { return stint.Token{0: number, 8: 0x80} }

// own fetches task a, which the turns below are about as well.
func own(token byte, try int) turn {
	return happens(event{
		kind: wasOwned, task: "a", token: tokenOf(token), try: try, accepted: true,
	})
}

// ownAnother fetches task b.
func ownAnother(token byte) turn {
	return happens(event{kind: wasOwned, task: "b", token: tokenOf(token), try: 1, accepted: true})
}

func extend(token byte, accepted bool) turn {
	return happens(event{
		kind: wasExtended, task: "a", token: tokenOf(token), accepted: accepted,
	})
}

func age(token byte) turn {
	return happens(event{kind: wasAged, aged: claimOf("a", tokenOf(token)), accepted: true})
}

func settle(token byte, code stint.StatusCode, accepted bool) turn {
	return happens(event{
		kind: wasReturned, task: "a", token: tokenOf(token), code: code, accepted: accepted,
	})
}

func release(token byte) turn {
	return happens(event{
		kind: wasReturned, task: "a", token: tokenOf(token), code: pending, released: true,
		accepted: true,
	})
}

func complete(token byte) turn { return settle(token, completed, true) }

// answerFirst lets the answer to the first call come not before now.
func answerFirst(s *tale) {
	s.events[0].ended = s.clock + 1
	s.clock++
}

const (
	pending   = stint.StatusPending
	completed = stint.StatusCompleted
)

// tales are histories, each with the fault that is to be found in it.
var tales = []struct {
	name  string
	turns []turn
	want  string // empty: no fault
}{
	{"one owner", []turn{own(1, 1), complete(1)}, ""},
	{"every legal change of owners", []turn{
		own(1, 1), release(1), own(2, 1), extend(2, true), settle(2, pending, true), own(3, 2),
		age(3), extend(3, true), age(3), own(4, 3), extend(3, false), settle(3, completed, false),
		age(4), complete(4), settle(4, completed, false),
	}, ""},
	{"an answer that comes late", []turn{
		own(1, 1), age(1), own(2, 2), answerFirst, complete(2),
	}, ""},
	{"no fetch", nil, "completed 0 times"},
	{"no completion", []turn{own(1, 1)}, "completed 0 times"},
	{"a refused completion", []turn{own(1, 1), settle(1, completed, false)}, "completed 0 times"},
	{"two completions", []turn{
		own(1, 1), age(1), own(2, 2), complete(2), complete(1),
	}, "completed 2 times"},
	{"two completions with one token", []turn{
		own(1, 1), complete(1), complete(1),
	}, "2 times with one token"},
	{"an unknown token", []turn{own(1, 1), complete(9)}, "token never given"},
	{"a token before its fetch", []turn{complete(1), own(1, 1)}, "token never given"},
	{"the token of another task", []turn{
		own(1, 1), ownAnother(2), complete(2),
	}, "token never given"},
	{"a task nobody inserted", []turn{own(1, 1), complete(1), ownAnother(2)}, "never inserted"},
	{"a token given twice", []turn{
		own(1, 1), settle(1, pending, true), own(1, 2), complete(1),
	}, "token given before"},
	{"a fetch after the completion", []turn{
		own(1, 1), complete(1), own(2, 2),
	}, "after it was completed"},
	{"a late return", []turn{
		own(1, 1), age(1), own(2, 2), settle(1, pending, true), complete(2),
	}, "return accepted after it was fetched by another"},
	{"a late extension", []turn{
		own(1, 1), age(1), own(2, 2), extend(1, true), complete(2),
	}, "extend accepted after it was fetched by another"},
	{"an extension after the return", []turn{
		own(1, 1), complete(1), extend(1, true),
	}, "extended after it was returned"},
	{"two owners", []turn{own(1, 1), own(2, 2), complete(2)}, "while it was owned"},
	{"two owners, the lease of another fetch aged", []turn{
		own(1, 1), age(7), own(2, 2), complete(2),
	}, "while it was owned"},
	{"two owners, the lease aged before it was extended", []turn{
		own(1, 1), age(1), extend(1, true), own(2, 2), complete(2),
	}, "while it was owned"},
	{"two owners, the lease aged too late", []turn{
		own(1, 1), own(2, 2), age(1), complete(2),
	}, "while it was owned"},
	{"a try that is not refunded", []turn{
		own(1, 1), release(1), own(2, 2), complete(2),
	}, "try 2, want 1"},
	{"a try that is refunded without a release", []turn{
		own(1, 1), settle(1, pending, true), own(2, 1), complete(2),
	}, "try 1, want 2"},
	{"a try that goes back", []turn{
		own(1, 2), settle(1, pending, true), own(2, 1), complete(2),
	}, "for try 2 before try 1"},
	{"a first try of 2", []turn{own(1, 2), complete(1)}, "try 2, want 1"},
	{"a refusal without a reason", []turn{
		own(1, 1), age(1), settle(1, completed, false), own(2, 2), complete(2),
	}, "return refused though nobody else"},
}

// A checker that never was seen to find a fault proves nothing.
// Proves G172.
func TestFaults_AreFoundInHistory(t *testing.T) {
	t.Parallel()
	for _, test := range tales {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var s tale
			for _, happen := range test.turns {
				happen(&s)
			}
			found := faults([]stint.TaskID{"a"}, s.events)
			if test.want == "" && len(found) > 0 {
				t.Errorf("faults = %q, want none", found)
			}
			if !strings.Contains(strings.Join(found, "\n"), test.want) {
				t.Errorf("faults = %q, want %q among them", found, test.want)
			}
		})
	}
}
