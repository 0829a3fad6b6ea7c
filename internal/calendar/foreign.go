package calendar

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// foreign refuses a text that means something to other programs, and says what to write instead.
func foreign(text string, words []string) error {
	if len(words) == 0 {
		return nil // parseFields says what there should be
	}
	name, zone, isSetting := strings.Cut(strings.Fields(text)[0], "=")
	switch rest := words[1:]; {
	case isSetting && strings.HasSuffix(strings.ToUpper(name), "TZ"):
		return instead(fmt.Sprintf("has a zone in front, which is given apart: give %.60q as the "+
			"zone", zone), strings.Join(rest, " "))
	case strings.HasPrefix(words[0], "@every"):
		length := strings.TrimPrefix(words[0], "@every")
		return insteadOfEvery("@every is not known", append([]string{strings.Trim(length, "_ ")},
			rest...))
	case words[0] == "@reboot":
		return errors.New("@reboot is not known, since schedules do not start with a machine: " +
			"have your program insert the task when it starts")
	case len(words) == 1 && named("@"+words[0]) != "":
		return instead("has no @", "@"+words[0])
	case len(words) <= 2 && interval(words) != "":
		return instead("is an interval", interval(words))
	case len(words) > numberOfFields:
		return tooMany(words)
	}
	for _, word := range words {
		if word == "?" {
			return instead("has a ?", strings.ReplaceAll(strings.Join(words, " "), "?", "*"))
		}
	}
	return nil
}

const numberOfFields = 5

// tooMany refuses a text with more than five fields: of seconds, or of years.
func tooMany(words []string) error {
	const withSeconds, withBoth = 6, 7
	last := words[len(words)-1]
	isYear := year.MatchString(last)
	fields := words
	switch {
	case len(words) == withSeconds && isYear:
		return instead(fmt.Sprintf("has a field for the year, %.60q, which is given apart, as the "+
			"times from and to", last), strings.Join(words[:numberOfFields], " "))
	case len(words) == withBoth && (isYear || last == "*" || last == "?"):
		fields = words[:withSeconds]
	case len(words) != withSeconds:
		return nil // parseFields says so
	}
	seconds, rest := fields[0], strings.Join(fields[1:], " ")
	every, stepped := strings.CutPrefix(seconds, "*/")
	switch n, err := strconv.Atoi(every); {
	case rest != "* * * * *":
	case seconds == "*":
		return instead("has 6 fields, but there are no seconds", "every 1s")
	case stepped && err == nil && n > 0:
		return instead("has 6 fields, but there are no seconds", interval([]string{every + "s"}))
	}
	return instead(fmt.Sprintf("has %d fields, but there are no seconds", len(words)), rest)
}

// instead says why a text is refused, and what to write or, if that is refused, too, what for.
func instead(reason, write string) error {
	if write == "" {
		return fmt.Errorf("%s, and write five fields, such as 0 8 * * mon-fri", reason)
	}
	if _, _, err := parse(write); err != nil {
		return fmt.Errorf("%s; then of %.60q: %w", reason, write, err)
	}
	return fmt.Errorf("%s: write %q", reason, write)
}

func insteadOfEvery(reason string, words []string) error {
	if known := interval(words); known != "" {
		return instead(reason, known)
	}
	return fmt.Errorf("%s: write a length of time, such as every 90s or every 1h30m", reason)
}

var (
	oneLength = regexp.MustCompile(`([0-9]*)([a-z]+)`)
	year      = regexp.MustCompile(`^[0-9]{4}([-,/]|$)`)
)

// unit is the length of time of a word, or 0.
func unit(word string) time.Duration {
	const day = 24 * time.Hour
	switch word {
	case "s", "sec", "second":
		return time.Second
	case "m", "min", "minute":
		return time.Minute
	case "h", "hr", "hour":
		return time.Hour
	case "d", "day":
		return day
	case "w", "week":
		return week * day
	}
	if one, isMany := strings.CutSuffix(word, "s"); isMany && one != "" {
		return unit(one)
	}
	return 0
}

// interval is how the length of time that words mean is written, such as "every 5m" for 5 minutes,
// or "" if they mean none.
func interval(words []string) string {
	text := strings.Join(words, "")
	switch text {
	case "month":
		return "@monthly"
	case "year":
		return "@yearly"
	}
	if oneLength.ReplaceAllString(text, "") != "" || text == "" {
		return ""
	}
	var all time.Duration
	for _, part := range oneLength.FindAllStringSubmatch(text, -1) {
		unit := unit(part[2])
		n, err := strconv.Atoi(part[1])
		if part[1] == "" {
			n, err = 1, nil
		}
		if unit == 0 || err != nil || n < 1 || n > int((everyMost-all)/unit) {
			return ""
		}
		all += time.Duration(n) * unit
	}
	length := all.String()
	for _, zero := range []string{"m0s", "h0m"} {
		length = strings.Replace(length, zero, zero[:1], 1)
	}
	return "every " + length
}

// foreign refuses a part of a field that means something to other programs, and says what to write
// instead.
func (f *fieldOf) foreign(part string) error {
	day, nth, isNth := strings.Cut(part, "#")
	n, isNumber := strconv.Atoi(nth)
	isDay, isWeekday := f.name == "day", f.names == weekdayNames
	switch {
	case isWeekday && isNth && isNumber == nil && n >= 1 && n <= 5:
		return fmt.Errorf("there is no #: write %s, and have the task look whether the day of "+
			"the month is %d to %d", day, (n-1)*week+1, min(n*week, 31))
	case isNth:
		return errors.New("there is no #: write days of the week, such as fri, and have the task " +
			"look which one of the month it is")
	case part == "h" || strings.HasPrefix(part, "h/") || strings.HasPrefix(part, "h("):
		return errors.New("there is no H: write a number, and have Jitter spread the tasks")
	case strings.Contains(part, "~"):
		return errors.New("there is no ~: write the first number, and have Jitter spread the " +
			"tasks")
	case isDay && strings.HasSuffix(part, "w"):
		return f.nearWeekday(strings.TrimSuffix(part, "w"))
	case isDay && strings.HasPrefix(part, "l"):
		return errors.New("there is no L: write 28-31, and have the task look whether it is the " +
			"last day of the month; or write 1, for the moment when the month has ended")
	case isWeekday && part == "l":
		return errors.New("there is no L: write sat, or sun")
	case isWeekday && strings.HasSuffix(part, "l"):
		return fmt.Errorf("there is no L: write %s, and have the task look whether a week later "+
			"is another month", strings.TrimSuffix(part, "l"))
	}
	return nil
}

// nearWeekday refuses the day from monday to friday that is next to a day of the month.
func (f *fieldOf) nearWeekday(day string) error {
	days := "28-31"
	switch n, err := strconv.Atoi(day); {
	case err != nil:
	case n == f.from:
		days = "1-3"
	case n < f.to:
		days = fmt.Sprintf("%d-%d", n-1, n+1)
	default:
		days = "29-31"
	}
	return fmt.Errorf("there is no W: write %s, and have the task look which of these days is the "+
		"right one", days)
}

// badStep refuses a step, and says how the interval is written that it may mean.
func (f *fieldOf) badStep(text string, step int) error {
	problem := fmt.Errorf("step %.60q is not within 1 to %d", text, f.to)
	unit := map[string]string{"minute": "m", "hour": "h"}[f.name]
	if known := interval([]string{strconv.Itoa(step) + unit}); step > f.to && unit != "" &&
		known != "" {
		return fmt.Errorf("%w: write the interval %q", problem, known)
	}
	return problem
}

// backwards refuses a range that ends before it begins, and says how to write that it goes on with
// the first value behind the last one.
func (f *fieldOf) backwards(from, to, step int) error {
	write := fmt.Sprintf("%d-%d,%d-%d", from, f.to, f.from, to)
	if step > 1 {
		size := f.to - f.from + 1
		var values []string
		for n := from; n <= to+size; n += step {
			values = append(values, strconv.Itoa(f.from+(n-f.from)%size))
		}
		write = strings.Join(values, ",")
	}
	return fmt.Errorf("ends before it begins: write %s if it goes on with %d behind %d", write,
		f.from, f.to)
}
