package calendar

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones, wherever the tests run
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func calendarOf(t *testing.T, text, zone string) *Calendar {
	t.Helper()
	location, err := Zone(zone)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(text, location)
	if err != nil {
		t.Fatalf("Parse(%q) = %v", text, err)
	}
	return c
}

// Proves G181.
func TestNext_KeepsTheRuleForClocksThatAreChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, zone, from, want string }{
		// 2:30 does not exist: at the end of the gap, once.
		{
			"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z",
			"2026-03-28T01:30:00Z 2026-03-29T01:00:00Z 2026-03-30T00:30:00Z",
		},
		{
			"0,30 2 * * *", "Europe/Berlin", "2026-03-28T20:00:00Z",
			"2026-03-29T01:00:00Z 2026-03-30T00:00:00Z 2026-03-30T00:30:00Z",
		},
		// 2:30 comes twice: the first time.
		{
			"30 2 * * *", "Europe/Berlin", "2026-10-24T10:00:00Z",
			"2026-10-25T00:30:00Z 2026-10-26T01:30:00Z",
		},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"},
		// At a distance: none is left out or too many.
		{
			"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:10:00Z",
			"2026-10-25T00:30:00Z 2026-10-25T01:00:00Z 2026-10-25T01:30:00Z 2026-10-25T02:00:00Z",
		},
		{
			"*/30 * * * *", "Europe/Berlin", "2026-03-29T00:10:00Z",
			"2026-03-29T00:30:00Z 2026-03-29T01:00:00Z 2026-03-29T01:30:00Z",
		},
		// A midnight that does not exist, half an hour, and a day that does not.
		{
			"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z",
			"2026-09-06T04:00:00Z 2026-09-07T03:00:00Z",
		},
		{
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z",
			"2026-10-03T15:30:00Z 2026-10-04T15:15:00Z",
		},
		{
			"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z",
			"2011-12-29T22:00:00Z 2011-12-30T10:00:00Z 2011-12-30T22:00:00Z",
		},
		{
			"0 8 * * mon-fri", "America/New_York", "2026-10-30T13:00:00Z",
			"2026-11-02T13:00:00Z 2026-11-03T13:00:00Z",
		},
		{"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 */28 FEB 1", "UTC", "2026-01-01T00:00:00Z", "2027-02-01T00:00:00Z"},
		{"0 0 29/2 2 */7", "UTC", "2073-01-01T00:00:00Z", "2088-02-29T00:00:00Z"},
		{
			"0 0 13 * 5", "UTC", "2026-11-01T00:00:00Z",
			"2026-11-06T00:00:00Z 2026-11-13T00:00:00Z",
		},
		{"@weekly", "UTC", "2026-11-24T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"0 0 * * 7", "UTC", "2026-11-24T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"every 90s", "UTC", "2026-11-24T00:00:00Z", "2026-11-24T00:01:30Z 2026-11-24T00:03:00Z"},
		{"every 24h", "Asia/Tokyo", "1969-12-30T23:00:00Z", "1969-12-31T00:00:00Z"},
	} {
		calendar, now := calendarOf(t, c.text, c.zone), at(t, c.from)
		for _, want := range strings.Fields(c.want) {
			next, ok := calendar.Next(now)
			if got := next.Format(time.RFC3339); !ok || got != want {
				t.Errorf("%s in %s: behind %s comes %s, want %s",
					c.text, c.zone, now.Format(time.RFC3339), got, want)
			}
			now = next
		}
	}
}

func TestParse_RefusesWhatNobodyMeans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "0 fields", "* * * *": "4 fields", "* * * * * *": "6 fields",
		"60 * * * *": "minute", "* 24 * * *": "hour", "* * 0 * *": "day", "* * * 13 *": "month",
		"* * * * 8": "day of the week", "*/0 * * * *": "step", "5-1 * * * *": "ends before",
		"a * * * *": "not a number", "-1 * * * *": "not a number", "+1 * * * *": "not a number",
		"1-2-3 * * * *": "not a number", "1,, * * * *": "not a number",
		"* * * an *":  "not a number",
		"* * * anf *": "not a number", "*-5 * * * *": "not a number", "0 0 30 2 *": "never",
		"0 0 31 2,4,6,9,11 *": "never", "@dayly": "@daily", "every 1s\x00": "length of time",
		"every day": "length of time", "every 500ms": "whole seconds",
		"every 1.5s": "whole seconds", "every 9000h": "whole seconds", "every -1m": "whole seconds",
		"every 9999999999h":                "length of time",
		"0 0 " + strings.Repeat("1,", 500): "bytes",
	} {
		if _, err := Parse(text, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", text, err, want)
		}
	}
}

func TestZone_KnowsNamesOfTheDatabaseOnly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "Local", "localtime", "posixrules", "posix/Europe/Berlin", "right/Europe/Berlin",
		"Mars/Olympus", "Europe", "Europe/", "Europe//Berlin", "Europe/./Berlin", "../etc/passwd",
		"/etc/localtime", "Europe/Berlin\x00", " UTC", "zone.tab", "+02:00", "UTC+2",
		"CET-1CEST,M3.5.0,M10.5.0/3", strings.Repeat("a", 100),
	} {
		if zone, err := Zone(name); err == nil {
			t.Errorf("zone %q is %s", name, zone)
		}
	}
	for _, name := range []string{"UTC", "Etc/GMT-14", "EST5EDT", "America/Port-au-Prince"} {
		if zone, err := Zone(name); err != nil || zone.String() != name {
			t.Errorf("zone %q is %s, %v", name, zone, err)
		}
	}
}

func wallOf(local time.Time) time.Time {
	return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0,
		time.UTC)
}

func matches(c *Calendar, wall time.Time) bool {
	day := c.fields.day&(1<<wall.Day()) != 0
	weekday := c.fields.weekday&(1<<wall.Weekday()) != 0
	if c.fields.eitherDay {
		day = day || weekday
	} else {
		day = day && weekday
	}
	return day && c.fields.minute&(1<<wall.Minute()) != 0 &&
		c.fields.hour&(1<<wall.Hour()) != 0 && c.fields.month&(1<<wall.Month()) != 0
}

// randomText is a schedule that has some occurrences in a year.
func randomText() string {
	of := func(from, to int) string {
		n := func() int { return from + rand.IntN(to-from+1) }
		a, b := n(), n()
		switch rand.IntN(5) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", 1+rand.IntN(to))
		case 2:
			return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
		case 3:
			return fmt.Sprintf("%d,%d", a, b)
		default:
			return fmt.Sprint(a)
		}
	}
	text := of(0, 59) + " " + of(0, 4)
	for _, field := range [][2]int{{1, 31}, {1, 12}, {0, 7}} {
		if rand.IntN(3) == 0 {
			text += " " + of(field[0], field[1])
		} else {
			text += " *"
		}
	}
	return text
}

func FuzzParse(f *testing.F) {
	f.Add("*/5 1-3,7 * jan-mar mon", "UTC")
	f.Fuzz(func(t *testing.T, text, name string) {
		zone, err := Zone(name)
		if err != nil {
			return
		}
		c, err := Parse(text, zone)
		if err != nil {
			return
		}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if next, ok := c.Next(now); ok && !next.After(now) {
			t.Errorf("behind %s comes %s", now, next)
		}
	})
}
