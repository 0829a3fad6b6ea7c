// Package calendar says when a schedule is due: by five cron fields in a zone, or at intervals.
package calendar

import (
	"fmt"
	"strings"
	"time"
)

// A Calendar is a parsed schedule.
type Calendar struct {
	every  time.Duration // 0: by the fields
	fields fields
	zone   *time.Location
}

// specBytesMax is how long a text may be.
const specBytesMax = 1000

// Parse parses the five fields of cron in a zone, one of @yearly, @monthly, @weekly, @daily and
// @hourly, or an interval, such as "every 90s", that is counted from the beginning of 1970 in UTC.
// A text that no time ever matches is refused. Of texts that mean something elsewhere, the error
// says what to write instead.
func Parse(text string, zone *time.Location) (*Calendar, error) {
	if len(text) > specBytesMax {
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), specBytesMax)
	}
	every, fields, err := parse(text)
	if err != nil {
		return nil, err
	}
	return &Calendar{every: every, fields: fields, zone: zone}, nil
}

// parse returns an interval, or fields.
func parse(text string) (time.Duration, fields, error) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) > 0 && words[0] == "every" {
		every, err := parseEvery(words[1:])
		return every, fields{}, err
	}
	if err := foreign(text, words); err != nil {
		return 0, fields{}, err
	}
	of, err := parseFields(words)
	if err != nil {
		return 0, fields{}, err
	}
	anywhere := &Calendar{fields: of, zone: time.UTC}
	if _, ok := anywhere.Next(time.Unix(0, 0)); !ok {
		return 0, fields{}, fmt.Errorf("%.60q never occurs", text)
	}
	return 0, of, nil
}

// Next returns the first occurrence behind a time, or false if there is none in the next decades.
// It takes bounded time, whatever a zone says.
//
// If the minute or the hour begins with *, occurrences are at a real distance from each other: each
// instant at which the clocks of the zone show such a time is one. Otherwise they are times of day:
// one that is left out, when clocks are put forward, occurs at that moment, and one that comes
// twice, when they are put back, occurs the first time.
func (c *Calendar) Next(after time.Time) (time.Time, bool) {
	at, _, ok := c.next(after)
	return at, ok
}

// next also returns at how many spans between changes of the clocks it looked.
func (c *Calendar) next(after time.Time) (at time.Time, spans int, ok bool) {
	after = after.UTC()
	if c.every > 0 {
		return behind(after, c.every), 0, true
	}
	// Between two changes of the clocks, they show the universal time and an offset. A wall time is
	// what they show, as if it were a universal time. The look begins early enough to know which
	// wall times have been shown already: all before shown.
	horizon := after.AddDate(horizonYears, 0, 0)
	at = after.Add(-changeMost)
	shown := at.Add(offsetAt(at, c.zone))
	for ; at.Before(horizon) && spans < spansMax; spans++ {
		end := earliest(spanEnd(at, c.zone), horizon)
		offset := offsetAt(at, c.zone)
		from, until := at.Add(offset), end.Add(offset)
		if !c.fields.repeats {
			_, ok := c.fields.first(wholeMinute(shown), from)
			if ok && at.After(after) {
				return at, spans, true
			}
			from = latest(from, shown)
			shown = latest(shown, until)
		}
		from = latest(from, after.Add(offset+1))
		if wall, ok := c.fields.first(wholeMinute(from), until); ok {
			return wall.Add(-offset), spans, true
		}
		at = end
	}
	return time.Time{}, spans, false
}

const (
	// horizonYears is after how many years a 29th of February has been each day of the week, with a
	// year between that is no leap year although it can be divided by four.
	horizonYears = 41

	// changeMost is more than clocks were ever put back by.
	changeMost = 48 * time.Hour

	// spansMax is one for each day up to the horizon, and some more.
	spansMax = horizonYears*366 + 1000
)

// spanEnd is until when the clocks of a zone are not changed. It is always behind the time: what
// Go's time package says is not, on the last day of a leap year for which a zone has nothing but
// rules, which it takes for a year of 365 days.
func spanEnd(at time.Time, zone *time.Location) time.Time {
	_, end := at.In(zone).ZoneBounds()
	switch {
	case end.IsZero():
		return at.AddDate(horizonYears+1, 0, 0)
	case !end.After(at):
		const day = 24 * time.Hour
		return at.Truncate(day).Add(day)
	}
	return end.UTC()
}

// behind is the first multiple of an interval since the beginning of 1970 behind a time.
func behind(after time.Time, every time.Duration) time.Time {
	seconds, step := after.Unix(), int64(every/time.Second)
	rest := seconds % step
	if rest < 0 {
		rest += step
	}
	return time.Unix(seconds-rest+step, 0).UTC()
}

// wholeMinute is the first whole minute that is not before a time.
func wholeMinute(wall time.Time) time.Time {
	return wall.Add(time.Minute - 1).Truncate(time.Minute)
}

func offsetAt(at time.Time, zone *time.Location) time.Duration {
	_, seconds := at.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
