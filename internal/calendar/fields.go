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

// named are the five fields that a name is for, or nothing.
func named(name string) string {
	switch name {
	case "@yearly", "@annually":
		return "0 0 1 1 *"
	case "@monthly":
		return "0 0 1 * *"
	case "@weekly":
		return "0 0 * * 0"
	case "@daily", "@midnight":
		return "0 0 * * *"
	case "@hourly":
		return "0 * * * *"
	}
	return ""
}

// parseFields parses five fields, or a name for them, in small letters.
func parseFields(words []string) (fields, error) {
	if len(words) == 1 && strings.HasPrefix(words[0], "@") {
		of := named(words[0])
		if of == "" {
			return fields{}, fmt.Errorf("%.60q is not known, but @yearly, @monthly, @weekly, "+
				"@daily and @hourly are", words[0])
		}
		words = strings.Fields(of)
	}
	of := []fieldOf{
		{name: "minute", from: 0, to: 59},
		{name: "hour", from: 0, to: 23},
		{name: "day", from: 1, to: 31},
		{name: "month", from: 1, to: 12, names: monthNames, first: 1},
		{name: "day of the week", from: 0, to: 7, names: weekdayNames},
	}
	if len(words) != numberOfFields {
		return fields{}, fmt.Errorf("has %d fields, but there are five (minute, hour, day, month, "+
			"day of the week, as in 0 8 * * mon-fri), or an interval, such as every 90s",
			len(words))
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

// week is how many days of the week there are: ranges may go on behind its last one.
const week = 7

// parse parses numbers, names, ranges of them and steps, with commas between.
func (f *fieldOf) parse(word string) (set uint64, err error) {
	for part := range strings.SplitSeq(word, ",") {
		from, to, step, err := f.parsePart(part)
		if err != nil {
			return 0, fmt.Errorf("%s %.60q: %w", f.name, part, err)
		}
		for n := from; n <= to; n += step {
			if n > f.to {
				set |= 1 << (n - week)
			} else {
				set |= 1 << n
			}
		}
	}
	return set, nil
}

func (f *fieldOf) parsePart(part string) (from, to, step int, err error) {
	if err := f.foreign(part); err != nil {
		return 0, 0, 0, err
	}
	span, every, stepped := strings.Cut(part, "/")
	step = 1
	if stepped {
		if step, err = number(every); err != nil || step < 1 || step > f.to {
			return 0, 0, 0, f.badStep(every, step)
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
	if err == nil {
		err = f.within(from, to)
	}
	switch {
	case err != nil || from <= to:
	case f.names == weekdayNames:
		to += week
	default:
		err = f.backwards(from, to, step)
	}
	return from, to, step, err
}

func (f *fieldOf) within(from, to int) error {
	switch most := max(from, to); {
	case min(from, to) < f.from:
		return fmt.Errorf("is not within %d to %d", f.from, f.to)
	case most == f.to+1 && f.from == 0 && f.names == "":
		return fmt.Errorf("is not within %d to %d: write 0 instead of %d", f.from, f.to, most)
	case most > f.to:
		return fmt.Errorf("is not within %d to %d", f.from, f.to)
	}
	return nil
}

// value is a number, or that of a name.
func (f *fieldOf) value(text string) (int, error) {
	if at := f.nameAt(text); at >= 0 && len(text) == nameBytes {
		return at/nameBytes + f.first, nil
	}
	if at := f.nameAt(text); at >= 0 {
		return 0, fmt.Errorf("write %s instead of %s", text[:nameBytes], text)
	}
	return number(text)
}

// nameAt is where the names have the one with which a text begins, or -1.
func (f *fieldOf) nameAt(text string) int {
	if len(text) < nameBytes || f.names == "" {
		return -1
	}
	for at := 0; at < len(f.names); at += nameBytes {
		if f.names[at:at+nameBytes] == text[:nameBytes] {
			return at
		}
	}
	return -1
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

// parseEvery parses an interval, of which the words follow "every".
func parseEvery(words []string) (time.Duration, error) {
	length := strings.Join(words, " ")
	every, err := time.ParseDuration(length)
	switch {
	case err != nil:
		problem := fmt.Sprintf("%.60q is not a length of time, such as 90s or 1h30m", length)
		if known := interval(words); known != "" {
			problem += fmt.Sprintf(": write %q", known)
		}
		return 0, errors.New(problem)
	case every < time.Second || every > everyMost || every%time.Second != 0:
		return 0, fmt.Errorf("%.60q is not whole seconds within 1s and 8784h", length)
	}
	return every, nil
}
