package calendar

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// zones are all zones that Go brings along, and for each rule of theirs another one that has
// nothing but that rule, as files have that are made without explicit changes.
func zones(t *testing.T) []*time.Location {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	packed, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time",
		"zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	var all []*time.Location
	rules := map[string]bool{}
	for _, file := range packed.File {
		if file.FileInfo().IsDir() {
			continue
		}
		data := contents(t, file)
		zone, err := time.LoadLocationFromTZData(file.Name, data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, zone)
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		if rule := lines[len(lines)-1]; !rules[rule] {
			rules[rule] = true
			zone, err := time.LoadLocationFromTZData(rule, onlyRule(rule))
			if err != nil {
				t.Fatalf("rule %q: %v", rule, err)
			}
			all = append(all, zone)
		}
	}
	const atLeast = 600
	if len(all) < atLeast {
		t.Fatalf("there are only %d zones", len(all))
	}
	return all
}

func contents(t *testing.T, file *zip.File) []byte {
	t.Helper()
	reader, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// onlyRule is a zone file (RFC 9636) with one change of the clocks, long ago, and a rule.
func onlyRule(rule string) []byte {
	var file bytes.Buffer
	header := func(changes, types, letters uint32) {
		file.WriteString("TZif2" + strings.Repeat("\x00", 15))
		for _, n := range []uint32{0, 0, 0, changes, types, letters} {
			_ = binary.Write(&file, binary.BigEndian, n)
		}
	}
	header(0, 1, 4)
	file.WriteString("\x00\x00\x00\x00\x00\x00LMT\x00")
	header(1, 1, 4)
	_ = binary.Write(&file, binary.BigEndian, int64(-1<<33))
	file.WriteString("\x00" + "\x00\x00\x00\x00\x00\x00LMT\x00" + "\n" + rule + "\n")
	return file.Bytes()
}

// begun is when the looks at clocks begin.
var begun = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// lastYear is the last one of the looks.
const lastYear = 2100

// changes are when the offset of a zone changes, to the minute, as its clocks show it.
func changes(zone *time.Location) []time.Time {
	var all []time.Time
	offset := func(at time.Time) int { _, seconds := at.In(zone).Zone(); return seconds }
	for at := begun; at.Year() <= lastYear; at = at.Add(12 * time.Hour) {
		low, high := at, at.Add(12*time.Hour)
		if offset(low) == offset(high) {
			continue
		}
		for high.Sub(low) > time.Minute {
			if middle := low.Add(high.Sub(low) / 2).Truncate(time.Minute); offset(middle) ==
				offset(low) {
				low = middle
			} else {
				high = middle
			}
		}
		all = append(all, high)
	}
	return all
}

// occurrences reads the clocks of a zone minute by minute, and a schedule as a person would: it
// occurs as often as the clocks show one of its times or, if its times are times of day, as soon as
// they first show it or a later one.
func occurrences(c *Calendar, begin, end time.Time) []time.Time {
	var all []time.Time
	const before = 48 * time.Hour
	last := wallOf(begin.Add(-before).In(c.zone))
	for now := begin.Add(-before); now.Before(end); now = now.Add(time.Minute) {
		wall := wallOf(now.In(c.zone))
		due := c.fields.repeats && matches(c, wall)
		for ; !c.fields.repeats && last.Before(wall); last = last.Add(time.Minute) {
			due = due || matches(c, last.Add(time.Minute))
		}
		if due && !now.Before(begin) {
			all = append(all, now)
		}
	}
	return all
}

// agrees compares what Next says within a span with a reading of the clocks.
func agrees(t *testing.T, c *Calendar, text string, begin, end time.Time) {
	t.Helper()
	now := begin.Add(-1)
	for _, want := range append(occurrences(c, begin, end), time.Time{}) {
		got, spans, ok := c.next(now)
		if want.IsZero() && (!ok || !got.Before(end)) {
			return
		}
		if !ok || !got.Equal(want) || spans > spansMax {
			t.Fatalf("%s in %s: behind %s comes %s, want %s", text, c.zone, now, got.UTC(), want)
		}
		now = got
	}
}

// Around changes of the clocks, and where years end, in all zones until 2100.
// Proves G181.
func TestNext_AgreesWithAReadingOfTheClocks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const day = 24 * time.Hour
	seen := map[string]bool{}
	for _, zone := range testrun.Some(zones(t)) {
		changes := changes(zone)
		_, first := begun.In(zone).Zone()
		clocks := fmt.Sprint(first, changes)
		if seen[clocks] { // under another name
			continue
		}
		seen[clocks] = true
		for year := begun.Year(); year <= lastYear; year++ {
			changes = append(changes, time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC))
		}
		t.Run(zone.String(), func(t *testing.T) {
			t.Parallel()
			for range testrun.Rounds(300) {
				text := randomText()
				c, err := Parse(text, zone)
				if err != nil {
					continue // a 31st of February
				}
				change := changes[rand.IntN(len(changes))]
				agrees(t, c, text, change.Add(-day), change.Add(2*day))
			}
		})
	}
}

// Wherever clocks stand, the next occurrence comes after few steps, or never.
// Proves G182.
func TestNext_IsBoundedInAllZones(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	texts := []string{
		"0 0 * * *", "*/5 * * * *", "0 0 29 2 *", "0 0 29 2 */7", "30 2 29 2 */6", "* * 29 2 */7",
		"59 23 31 12 *", "0 0 1 1 *", "@yearly", "every 8784h",
	}
	var times []time.Time
	for year := begun.Year(); year <= lastYear; year += 4 { // leap years, but for 2100
		for _, moment := range []string{
			"30T23:59:59Z", "31T00:00:00Z", "31T12:34:56.789Z", "31T23:59:59Z",
		} {
			times = append(times, at(t, fmt.Sprintf("%d-12-%s", year, moment)))
		}
	}
	for _, zone := range testrun.Some(zones(t)) {
		for _, text := range texts {
			c, err := Parse(text, zone)
			if err != nil {
				t.Fatal(err)
			}
			for _, now := range times {
				next, spans, ok := c.next(now)
				const perYear = 30 // a month of fasting is two changes more
				if !ok || !next.After(now) || spans > horizonYears*perYear {
					t.Fatalf("%s in %s: behind %s comes %s after %d spans", text, zone, now,
						next, spans)
				}
			}
		}
	}
}

// A file that somebody made may hold anything.
// Proves G182.
func TestNext_IsBoundedWhateverAZoneSays(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"A0B,J1/0,J1/0", "A0B,J365/23:59:59,J1/0", "A0B,0/0,365/24",
		"A24B-24,M1.1.0/167,M12.5.6/-167",
		"A-24:59:59B24:59:59,J60/-167,J59/167", "A0B0,M2.5.0,M2.5.0/0:00:01",
	} {
		zone, err := time.LoadLocationFromTZData(rule, onlyRule(rule))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"0 0 * * *", "0 0 29 2 */7", "* * 29 2 */7", "0 0 31 12 *"} {
			c, err := Parse(text, zone)
			if err != nil {
				t.Fatal(err)
			}
			for now := begun; now.Year() < 2050; {
				next, spans, ok := c.next(now)
				if spans > spansMax || ok && !next.After(now) {
					t.Fatalf("%s in %s: behind %s comes %s after %d", text, rule, now, next, spans)
				}
				if now = next; !ok {
					break
				}
			}
		}
	}
}

// What zone files of this machine say is what those say that Go brings along.
func TestNext_IsBoundedWithTheFilesOfThisMachine(t *testing.T) {
	t.Parallel()
	const dir = "/usr/share/zoneinfo"
	if _, err := os.Stat(dir); err != nil {
		return // none here
	}
	now := at(t, "2040-12-31T12:00:00Z")
	for _, zone := range zones(t) {
		data, err := os.ReadFile(filepath.Join(dir, zone.String()))
		if err != nil {
			continue // only a rule, or older files
		}
		own, err := time.LoadLocationFromTZData(zone.String(), data)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse("0 0 * * *", own)
		if err != nil {
			t.Fatal(err)
		}
		if next, ok := c.Next(now); !ok || next.Sub(now) > 26*time.Hour {
			t.Errorf("in %s comes %s", zone, next)
		}
	}
}
