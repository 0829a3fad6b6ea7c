package modeltest_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
)

// A performance is one hand-out of a task, with what its owner was told afterwards.
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

// gather puts the events to their hand-outs.
func (c *checker) gather(history []event) {
	for _, e := range history {
		if e.kind == wasAged {
			c.aged[e.claim()] = append(c.aged[e.claim()], e)
		}
		if e.kind == wasOwned {
			if c.byToken[e.token] != nil {
				c.report(e.task, "was handed out with a token given before")
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

// checkTask checks the hand-outs of one task. Their tries put them in order: one that is not
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
			c.report(id, "was handed out for try %d, want %d", p.own.try, want)
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
		c.report(id, "was handed out for try %d before try %d", to.own.try, from.own.try)
	}
	for _, e := range from.returned {
		if e.completes() {
			c.report(id, "was handed out after it was completed")
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
	c.report(id, "was handed out for try %d while it was owned for try %d",
		to.own.try, from.own.try)
}

// checkPerformance checks what an owner was told against who was given the task later.
func (c *checker) checkPerformance(id stint.TaskID, p *performance, later []*performance) {
	if len(p.returned) > 1 {
		c.report(id, "was returned %d times with one token", len(p.returned))
	}
	for _, e := range slices.Concat(p.returned, p.extended) {
		if slices.ContainsFunc(later, func(l *performance) bool { return l.own.ended < e.began }) {
			c.report(id, "had a %s accepted after it was handed out to another", e.kind)
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

func (s *tale) add(e event) *event {
	e.began, e.ended = s.clock+1, s.clock+2
	s.clock += 2
	s.events = append(s.events, e)
	return &s.events[len(s.events)-1]
}

// tokenOf is a token that a store could give out, by its number.
func tokenOf(number byte) stint.Token { return stint.Token{0: number, 8: 0x80} }

func (s *tale) own(token byte, try int) {
	s.add(event{kind: wasOwned, task: "a", token: tokenOf(token), try: try, accepted: true})
}

func (s *tale) extend(token byte, accepted bool) {
	s.add(event{kind: wasExtended, task: "a", token: tokenOf(token), accepted: accepted})
}

func (s *tale) age(token byte) {
	s.add(event{
		kind: wasAged, aged: claimOf("a", tokenOf(token)), accepted: true,
	})
}

func (s *tale) settle(token byte, code stint.StatusCode, accepted bool) *event {
	return s.add(event{
		kind: wasReturned, task: "a", token: tokenOf(token), code: code, accepted: accepted,
	})
}

func (s *tale) release(token byte) { s.settle(token, stint.StatusPending, true).released = true }

func (s *tale) complete(token byte) { s.settle(token, stint.StatusCompleted, true) }

const pending = stint.StatusPending

// tales are histories, each with the fault that is to be found in it.
var tales = []struct {
	name string
	tell func(*tale)
	want string // empty: no fault
}{
	{"one owner", func(s *tale) {
		s.own(1, 1)
		s.complete(1)
	}, ""},
	{"every legal change of owners", func(s *tale) {
		s.own(1, 1)
		s.release(1)
		s.own(2, 1)
		s.extend(2, true)
		s.settle(2, pending, true)
		s.own(3, 2)
		s.age(3)
		s.extend(3, true)
		s.age(3)
		s.own(4, 3)
		s.extend(3, false)
		s.settle(3, stint.StatusCompleted, false)
		s.age(4)
		s.complete(4)
		s.settle(4, stint.StatusCompleted, false)
	}, ""},
	{"an answer that comes late", func(s *tale) {
		s.own(1, 1)
		s.age(1)
		s.own(2, 2)
		s.events[0].ended = s.clock + 1
		s.clock++
		s.complete(2)
	}, ""},
	{"no hand-out", func(*tale) {}, "completed 0 times"},
	{"no completion", func(s *tale) { s.own(1, 1) }, "completed 0 times"},
	{"a refused completion", func(s *tale) {
		s.own(1, 1)
		s.settle(1, stint.StatusCompleted, false)
	}, "completed 0 times"},
	{"two completions", func(s *tale) {
		s.own(1, 1)
		s.age(1)
		s.own(2, 2)
		s.complete(2)
		s.complete(1)
	}, "completed 2 times"},
	{"two completions with one token", func(s *tale) {
		s.own(1, 1)
		s.complete(1)
		s.complete(1)
	}, "2 times with one token"},
	{"an unknown token", func(s *tale) {
		s.own(1, 1)
		s.complete(9)
	}, "token never given"},
	{"a token before its hand-out", func(s *tale) {
		s.complete(1)
		s.own(1, 1)
	}, "token never given"},
	{"the token of another task", func(s *tale) {
		s.own(1, 1)
		s.add(event{kind: wasOwned, task: "b", token: stint.Token{2}, try: 1, accepted: true})
		s.complete(2)
	}, "token never given"},
	{"a task nobody inserted", func(s *tale) {
		s.own(1, 1)
		s.complete(1)
		s.add(event{kind: wasOwned, task: "b", token: stint.Token{2}, try: 1, accepted: true})
	}, "never inserted"},
	{"a token given twice", func(s *tale) {
		s.own(1, 1)
		s.settle(1, pending, true)
		s.own(1, 2)
		s.complete(1)
	}, "token given before"},
	{"a hand-out after the completion", func(s *tale) {
		s.own(1, 1)
		s.complete(1)
		s.own(2, 2)
	}, "after it was completed"},
	{"a late return", func(s *tale) {
		s.own(1, 1)
		s.age(1)
		s.own(2, 2)
		s.settle(1, pending, true)
		s.complete(2)
	}, "return accepted after it was handed out to another"},
	{"a late extension", func(s *tale) {
		s.own(1, 1)
		s.age(1)
		s.own(2, 2)
		s.extend(1, true)
		s.complete(2)
	}, "extend accepted after it was handed out to another"},
	{"an extension after the return", func(s *tale) {
		s.own(1, 1)
		s.complete(1)
		s.extend(1, true)
	}, "extended after it was returned"},
	{"two owners", func(s *tale) {
		s.own(1, 1)
		s.own(2, 2)
		s.complete(2)
	}, "while it was owned"},
	{"two owners, the lease of another hand-out aged", func(s *tale) {
		s.own(1, 1)
		s.age(7)
		s.own(2, 2)
		s.complete(2)
	}, "while it was owned"},
	{"two owners, the lease aged before it was extended", func(s *tale) {
		s.own(1, 1)
		s.age(1)
		s.extend(1, true)
		s.own(2, 2)
		s.complete(2)
	}, "while it was owned"},
	{"two owners, the lease aged too late", func(s *tale) {
		s.own(1, 1)
		s.own(2, 2)
		s.age(1)
		s.complete(2)
	}, "while it was owned"},
	{"a try that is not refunded", func(s *tale) {
		s.own(1, 1)
		s.release(1)
		s.own(2, 2)
		s.complete(2)
	}, "try 2, want 1"},
	{"a try that is refunded without a release", func(s *tale) {
		s.own(1, 1)
		s.settle(1, pending, true)
		s.own(2, 1)
		s.complete(2)
	}, "try 1, want 2"},
	{"a try that goes back", func(s *tale) {
		s.own(1, 2)
		s.settle(1, pending, true)
		s.own(2, 1)
		s.complete(2)
	}, "for try 2 before try 1"},
	{"a first try of 2", func(s *tale) {
		s.own(1, 2)
		s.complete(1)
	}, "try 2, want 1"},
	{"a refusal without a reason", func(s *tale) {
		s.own(1, 1)
		s.age(1)
		s.settle(1, stint.StatusCompleted, false)
		s.own(2, 2)
		s.complete(2)
	}, "return refused though nobody else"},
}

// A checker that never was seen to find a fault proves nothing.
func TestFaults_AreFoundInHistory(t *testing.T) {
	t.Parallel()
	for _, test := range tales {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var s tale
			test.tell(&s)
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
