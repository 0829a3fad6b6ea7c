package calendar

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fields are the minutes, hours, days, months and days of the week at which a schedule is due, each
// a set of bits.
type fields struct {
	minute, hour, day, month, weekday uint64
	// eitherDay says that a day matches that is one of the days or one of the days of the week.
	eitherDay bool
	// repeats says that occurrences are at a distance from each other, and no times of day.
	repeats bool
}

// first returns the first wall time that matches, from a whole minute on and before until.
func (f *fields) first(from, until time.Time) (time.Time, bool) {
	wall := from
	for wall.Before(until) {
		year, month, day := wall.Date()
		switch {
		case !has(f.month, int(month)):
			wall = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !f.hasDay(wall):
			wall = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !has(f.hour, wall.Hour()):
			wall = time.Date(year, month, day, wall.Hour()+1, 0, 0, 0, time.UTC)
		case !has(f.minute, wall.Minute()):
			wall = wall.Add(time.Minute)
		default:
			return wall, true
		}
	}
	return time.Time{}, false
}

func has(set uint64, n int) bool { return set>>n&1 == 1 }

func (f *fields) hasDay(wall time.Time) bool {
	day, weekday := has(f.day, wall.Day()), has(f.weekday, int(wall.Weekday()))
	if f.eitherDay {
		return day || weekday
	}
	return day && weekday
}

// A fieldOf is one of the five fields of a text.
type fieldOf struct {
	name     string
	from, to int
	names    string // of three letters, the first one for first
	first    int
}

const (
	weekdayNames = "sunmontuewedthufrisat"
	monthNames   = "janfebmaraprmayjunjulaugsepoctnovdec"
	nameBytes    = 3
)

// parseFields parses five fields, or a name for them.
func parseFields(text string) (fields, error) {
	named := map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
		"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
		"@hourly": "0 * * * *",
	}
	if strings.HasPrefix(text, "@") {
		of, ok := named[text]
		if !ok {
			return fields{}, fmt.Errorf("%.60q is not known, but @daily and such are", text)
		}
		text = of
	}
	words := strings.Fields(text)
	of := []fieldOf{
		{name: "minute", from: 0, to: 59},
		{name: "hour", from: 0, to: 23},
		{name: "day", from: 1, to: 31},
		{name: "month", from: 1, to: 12, names: monthNames, first: 1},
		{name: "day of the week", from: 0, to: 7, names: weekdayNames},
	}
	if len(words) != len(of) {
		return fields{}, fmt.Errorf("has %d fields, but there are five (minute, hour, day, month, "+
			"day of the week), or an interval, such as every 90s", len(words))
	}
	sets := make([]uint64, len(of))
	for i := range of {
		var err error
		if sets[i], err = of[i].parse(words[i]); err != nil {
			return fields{}, err
		}
	}
	f := fields{minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: sets[4]}
	const sunday, alsoSunday = 0, 7
	if has(f.weekday, alsoSunday) {
		f.weekday |= 1 << sunday
	}
	anyOf := func(i int) bool { return strings.HasPrefix(words[i], "*") }
	f.repeats = anyOf(0) || anyOf(1)
	f.eitherDay = !anyOf(2) && !anyOf(4)
	return f, nil
}

// parse parses numbers, names, ranges of them and steps, with commas between.
func (f *fieldOf) parse(word string) (set uint64, err error) {
	for part := range strings.SplitSeq(word, ",") {
		from, to, step, err := f.parsePart(part)
		if err != nil {
			return 0, fmt.Errorf("%s %.60q: %w", f.name, part, err)
		}
		for n := from; n <= to; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

func (f *fieldOf) parsePart(part string) (from, to, step int, err error) {
	span, every, stepped := strings.Cut(part, "/")
	step = 1
	if stepped {
		if step, err = number(every); err != nil || step < 1 || step > f.to {
			return 0, 0, 0, fmt.Errorf("step %.60q is not within 1 to %d", every, f.to)
		}
	}
	first, last, isRange := strings.Cut(span, "-")
	switch {
	case span == "*":
		from, to = f.from, f.to
		if f.names == weekdayNames { // 7 is a Sunday as 0 is
			to--
		}
	case isRange:
		if from, err = f.value(first); err == nil {
			to, err = f.value(last)
		}
	default:
		from, err = f.value(first)
		if to = from; stepped {
			to = f.to
		}
	}
	switch {
	case err != nil:
		return 0, 0, 0, err
	case from < f.from || to > f.to:
		return 0, 0, 0, fmt.Errorf("is not within %d to %d", f.from, f.to)
	case from > to:
		return 0, 0, 0, errors.New("ends before it begins")
	}
	return from, to, step, nil
}

// value is a number, or that of a name.
func (f *fieldOf) value(text string) (int, error) {
	if at := strings.Index(f.names, strings.ToLower(text)); len(text) == nameBytes && at >= 0 &&
		at%nameBytes == 0 {
		return at/nameBytes + f.first, nil
	}
	return number(text)
}

// number is a number of digits only.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, errors.New("is not a number")
	}
	return int(n), nil
}

const everyMost = 366 * 24 * time.Hour

// parseEvery parses an interval; ok says that the text is meant as one.
func parseEvery(text string) (every time.Duration, ok bool, err error) {
	length, ok := strings.CutPrefix(text, "every ")
	if !ok {
		return 0, false, nil
	}
	every, err = time.ParseDuration(strings.TrimSpace(length))
	switch {
	case err != nil:
		return 0, true, fmt.Errorf("%.60q is not a length of time, such as 90s or 1h30m", length)
	case every < time.Second || every > everyMost || every%time.Second != 0:
		return 0, true, fmt.Errorf("%.60q is not whole seconds within 1s and 8784h", length)
	}
	return every, true, nil
}
