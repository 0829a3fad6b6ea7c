// Package calendar says when a schedule is due: by five cron fields in a zone, or at intervals.
package calendar

import (
	"fmt"
	"time"
)

// A Calendar is a parsed schedule.
type Calendar struct {
	every  time.Duration // 0: by the fields
	fields fields
	zone   *time.Location
}

// Parse parses the five fields of cron in a zone of the IANA database, one of @yearly, @monthly,
// @weekly, @daily and @hourly, or an interval, such as "every 90s", that is counted from the
// beginning of 1970 in UTC. A text that no time ever matches is refused.
func Parse(text, zone string) (*Calendar, error) {
	if zone == "Local" {
		return nil, fmt.Errorf("zone Local differs from machine to machine: name one, such as UTC")
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("zone %.60q is not known here: %w (a Go program that imports "+
			"time/tzdata brings the zones along)", zone, err)
	}
	c := &Calendar{zone: location}
	if every, ok, err := parseEvery(text); ok || err != nil {
		c.every = every
		return c, err
	}
	if c.fields, err = parseFields(text); err != nil {
		return nil, err
	}
	if _, ok := c.Next(time.Unix(0, 0)); !ok {
		return nil, fmt.Errorf("%.60q never occurs", text)
	}
	return c, nil
}

// Next returns the first occurrence behind a time, or false if there is none in the next decades.
//
// If the minute or the hour begins with *, occurrences are at a real distance from each other: each
// instant at which the clocks of the zone show such a time is one. Otherwise they are times of day:
// one that is left out, when clocks are put forward, occurs at that moment, and one that comes
// twice, when they are put back, occurs the first time.
func (c *Calendar) Next(after time.Time) (time.Time, bool) {
	if c.every > 0 {
		return behind(after, c.every), true
	}
	// Between two changes of the clocks, they show the universal time and an offset. A wall time is
	// what they show, as if it were a universal time.
	horizon := after.AddDate(horizonYears, 0, 0)
	for at := after; at.Before(horizon); {
		start, end := at.In(c.zone).ZoneBounds()
		offset := offsetAt(at, c.zone)
		from := wholeMinute(after.UTC().Add(offset).Add(1))
		if start.After(after) {
			from = wholeMinute(start.UTC().Add(offset))
		}
		if !c.fields.repeats && !start.IsZero() {
			// What the clocks would show now, had they not been changed.
			shown := wholeMinute(start.UTC().Add(offsetAt(start.Add(-1), c.zone)))
			if _, ok := c.fields.first(shown, from); ok && start.After(after) {
				return start.UTC(), true
			}
			from = latest(from, shown)
		}
		until := horizon.Add(offset)
		if !end.IsZero() {
			until = end.UTC().Add(offset)
		}
		if wall, ok := c.fields.first(from, until); ok {
			return wall.Add(-offset), true
		}
		if end.IsZero() {
			break
		}
		at = end
	}
	return time.Time{}, false
}

// horizonYears is after how many years a 29th of February has been each day of the week, with a
// year between that is no leap year although it can be divided by four.
const horizonYears = 41

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
