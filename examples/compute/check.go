package main

import (
	"slices"
	"time"
)

// check returns what is wrong with a run, nothing if all is as promised. It asks neither the store
// nor its tables. What it shows, and why that is so:
//
// Every request got exactly one result, and the right one. Clients record each request before they
// insert the task, and each answer they get. Whether a result is right follows from arithmetic.
//
// Of all that asked for a computation while its task was there, one inserted it, and all got the
// result of the same performance.
//
// One result of each task was accepted. A worker adds its result to the table in the transaction
// that returns the task, and nothing else keeps the table from having two for one task.
//
// No task had two owners at a time. That cannot mean that nobody else computes: a worker that was
// stopped for longer than its lease, or cut off by a crash, has lost the task and goes on computing
// until it hears of that. It means that such a worker counts for nothing, and that there is none
// without a reason:
//
//   - No token and no try of a task was given out twice.
//   - The owner whose result was accepted is the last one, and no other was told that its was.
//   - No owner was confirmed as such, by a call to extend its lease that it began when another one
//     already had the task: that other one had recorded it in the journal before.
//   - Nobody was given a task while the lease of the owner before it ran, as told at the fetch,
//     on the database's clock. Exempt are owners that were killed, and those whose connection broke
//     because the server crashed.
//
// A task that is deleted after its end leaves the name free: those that ask then have the
// computation performed once more, once.
func check(e evidence) []string {
	l := newLedger(e)
	l.checkJournal()
	l.checkRequests()
	for t := range l.eachTask() {
		l.checkInsertion(t)
		l.checkResult(t)
		l.checkVerdicts(t)
		l.checkOwners(t)
	}
	l.checkTasks()
	slices.Sort(l.problems)
	return l.problems
}

// checkJournal looks whether the journal can be what the processes wrote: only one that is killed
// leaves a torn line. (None is written by the dead, as the ledger has seen.)
func (l *ledger) checkJournal() {
	if l.torn > len(l.killed) {
		l.problem("%d lines are torn, %d workers were killed", l.torn, len(l.killed))
	}
}

func (l *ledger) checkRequests() {
	if len(l.requests) != l.expected {
		l.problem("%d requests were made, want %d", len(l.requests), l.expected)
	}
	for number, r := range l.requests {
		if len(r.asked) != 1 || len(r.answered) != 1 {
			l.problem("request %d: asked %d times, %d answers", number, len(r.asked),
				len(r.answered))
			continue
		}
		question, reply := r.asked[0], r.answered[0]
		if question.Computation != reply.Computation {
			l.problem("request %d: for %s, the answer is of %s", number, question.Computation,
				reply.Computation)
		}
		if err := verify(question.Computation, reply.Answer.Value); err != nil {
			l.problem("request %d: wrong result: %v", number, err)
		}
	}
}

func (l *ledger) checkInsertion(t *task) {
	count := map[insertion]int{}
	for _, e := range t.answers {
		count[e.Insertion]++
	}
	if count[inserted] > 1 || count[inserted]+count[unsure] == 0 {
		l.problem("%s: inserted by %d requests, perhaps by %d more", t.id, count[inserted],
			count[unsure])
	}
}

// accepted is the owner whose result is in the table, or nil.
func (l *ledger) accepted(t *task) *owner {
	if len(t.results) == 0 {
		return nil
	}
	return l.owners[t.results[0].Performance]
}

func (l *ledger) checkResult(t *task) {
	last := l.accepted(t)
	if last == nil || len(t.results) != 1 {
		l.problem("%s: %d results in the table, want 1", t.id, len(t.results))
		return
	}
	row := t.results[0]
	if err := verify(t.id, row.Value); err != nil {
		l.problem("wrong result in the table: %v", err)
	}
	if !last.returning {
		l.problem("%s: a result of %s, which returned none", t.id, last.Performance)
	}
	for _, e := range t.answers {
		if e.Answer != (answer{Value: row.Value, Performance: row.Performance}) {
			l.problem("request %d: got %q by %s, the table has %q by %s", e.Request,
				e.Answer.Value, e.Answer.Performance, row.Value, row.Performance)
		}
	}
}

func (l *ledger) checkVerdicts(t *task) {
	last := l.accepted(t)
	for _, o := range t.owners {
		switch {
		case o.verdict == accepted && o != last:
			l.problem("%s: %s was told that its result was accepted, but it is not in the table",
				t.id, o.Performance)
		case (o.verdict == refused || o.verdict == lost) && o == last:
			l.problem("%s: %s was told that it lost the task, but its result is in the table",
				t.id, o.Performance)
		}
	}
}

func (l *ledger) checkOwners(t *task) {
	last := l.accepted(t)
	for i, o := range t.owners {
		if last != nil && o.Try > last.Try {
			l.problem("%s: %s was given the task after %s, whose result was accepted", t.id,
				o.Performance, last.Performance)
		}
		for _, next := range t.owners[i+1:] {
			if o.Try == next.Try {
				l.problem("%s: try %d was given to %s and to %s", t.id, o.Try, o.Performance,
					next.Performance)
			}
			for _, place := range o.confirmed {
				if place > next.place {
					l.problem("%s: %s was the owner when %s already was", t.id, o.Performance,
						next.Performance)
				}
			}
		}
		if i+1 < len(t.owners) {
			l.checkLease(t, o, t.owners[i+1])
		}
	}
}

// checkLease looks at an owner and the next one that wrote that it was.
//
// A fetch is said to be of the time at which its statement began, and the database may have let
// that wait before it looked at the tasks, on a loaded machine for a good part of a second.
func (l *ledger) checkLease(t *task, o, next *owner) {
	const waiting = 250 * time.Millisecond
	killed, wasKilled := l.killed[o.Process]
	switch {
	case !next.From.Add(waiting).Before(o.Until), wasKilled && killed < next.place:
	case l.crashedBetween(o.From, next.From):
	default:
		l.problem("%s: %s was given the task at %v, while %s had it until %v", t.id,
			next.Performance, next.From.UTC(), o.Performance, o.Until.UTC())
	}
}

// crashedBetween reports whether connections may have been broken by a crash.
func (l *ledger) crashedBetween(from, until time.Time) bool {
	const reconnecting = 2 * time.Second
	return slices.ContainsFunc(l.crashes, func(away span) bool {
		return !away.from.After(until) && !away.until.Add(reconnecting).Before(from)
	})
}

// checkTasks looks whether a name had one task, and another one after each deletion.
func (l *ledger) checkTasks() {
	for id, tasks := range l.tasks {
		var before time.Time
		for _, t := range tasks {
			for _, e := range t.answers {
				if !e.InsertedAt.Equal(t.answers[0].InsertedAt) || !e.InsertedAt.After(before) {
					l.problem("request %d: answered by another task of %s, inserted at %v",
						e.Request, id, e.InsertedAt.UTC())
				}
			}
			if len(t.answers) > 0 {
				before = t.answers[0].InsertedAt
			}
		}
	}
}
