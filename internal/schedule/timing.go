// Package schedule says when schedules occur, and keeps them in the database. It does not know what
// they insert.
package schedule

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/stint-tasks/stint/internal/calendar"
	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// CaughtUpMax is how many occurrences that were missed are caught up with at most; missedMax is
	// how many are counted.
	CaughtUpMax = 1000
	missedMax   = 100_000
)

// A Timing says when a schedule occurs.
type Timing struct {
	Calendar *calendar.Calendar
	// From and To are the first and the last moment; the zero time is none.
	From, To time.Time
	// Of the occurrences that were missed, the newest Most within Window are caught up with.
	Window time.Duration
	Most   int
}

// Next returns the next occurrence after a time, or the zero time and false if there is none.
func (t *Timing) Next(after time.Time) (time.Time, bool) {
	if !t.From.IsZero() && after.Before(t.From) {
		after = t.From.Add(-1)
	}
	at, ok := t.Calendar.Next(after)
	if !ok || !pg.IsStorable(at) || !t.To.IsZero() && at.After(t.To) {
		return time.Time{}, false
	}
	return at, true
}

// NextOrNil is [Timing.Next] as the parameter of a statement: null if there is none.
func (t *Timing) NextOrNil(after time.Time) *time.Time {
	if at, ok := t.Next(after); ok {
		return &at
	}
	return nil
}

// Due returns the occurrences from one on until now that are to take place, how many are left out,
// and the next occurrence, zero if there is none. If the context ends, it returns anything.
func (t *Timing) Due(
	ctx context.Context, from, now time.Time,
) (due []time.Time, missed int64, next time.Time) {
	oldest := now.Add(-t.Window)
	// Back from now, so that a long time away costs little: a transaction waits for this.
	for look := time.Minute; ; look *= 4 {
		begin := now.Add(-look)
		isAll := !begin.After(oldest) || !begin.After(from)
		if begin.Before(oldest) {
			begin = oldest
		}
		due = t.between(from, begin, now)
		if isAll || ctx.Err() != nil || len(due) >= t.Most {
			break
		}
	}
	due = due[max(len(due)-t.Most, 0):]
	first := now.Add(1)
	if len(due) > 0 {
		first = due[0]
	}
	for at, ok := from, true; ok && at.Before(first) && missed < missedMax; missed++ {
		if at, ok = t.Next(at); ctx.Err() != nil {
			break
		}
	}
	next, _ = t.Next(now)
	return due, missed, next
}

// between returns the occurrences from one on that are not before a time, until another one. The
// first one is taken for an occurrence, also if this process knows other rules for its zone.
func (t *Timing) between(from, begin, end time.Time) []time.Time {
	at, ok := from, true
	if from.Before(begin) {
		at, ok = t.Next(begin.Add(-1))
	}
	var all []time.Time
	for ; ok && !at.After(end); at, ok = t.Next(at) {
		all = append(all, at)
	}
	return all
}

// Delay is how much later than an occurrence its tasks start, at most so much, and before the
// following occurrence. It depends on the ID alone, so it is the same in every process.
func Delay(id string, most time.Duration, at, following time.Time) time.Duration {
	if !following.IsZero() {
		most = min(most, following.Sub(at))
	}
	if most == 0 {
		return 0
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id))                     // never fails
	return time.Duration(hash.Sum64() % uint64(most)) //nolint:gosec // less than a day
}
