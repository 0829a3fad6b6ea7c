package calendar

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// foreignSpecs are schedules as other programs have them, and what is said of each.
var foreignSpecs = map[string]string{
	"@every 1h":        `write "every 1h"`,
	"@Every 1d":        `write "every 24h"`,
	"@every 1h30m":     `write "every 1h30m"`,
	"@every 90 sec":    `write "every 1m30s"`,
	"@every":           "such as every 90s",
	"@every 1 blink":   "such as every 90s",
	"@every_minute":    `write "every 1m"`,
	"every 5 minutes":  `write "every 5m"`,
	"every hour":       `write "every 1h"`,
	"every 2d 3h":      `write "every 51h"`,
	"every week":       `write "every 168h"`,
	"every month":      `write "@monthly"`,
	"every 99999999w":  "not a length of time",
	"90s":              `write "every 1m30s"`,
	"10 minutes":       `write "every 10m"`,
	"daily":            `write "@daily"`,
	"@reboot":          "when it starts",
	"@weekdays":        "@daily",
	"TZ=Europe/Berlin": `give "Europe/Berlin" as the zone`,
	"TZ=Europe/Berlin 0 0 * * *": `give "Europe/Berlin" as the zone: ` +
		`write "0 0 * * *"`,
	"CRON_TZ=Asia/Tokyo @daily":    `give "Asia/Tokyo" as the zone: write "@daily"`,
	"CRON_TZ=Asia/Tokyo @every 1h": `write "every 1h"`,
	"0 30 8 * * *":                 `no seconds: write "30 8 * * *"`,
	"*/10 * * * * *":               `no seconds: write "every 10s"`,
	"* * * * * *":                  `no seconds: write "every 1s"`,
	"0 0 8 * * MON-FRI *":          `no seconds: write "0 8 * * mon-fri"`,
	"0 8 * * * 2026":               `write "0 8 * * *"`,
	"0 0 8 ? * MON-FRI":            `write "0 8 * * mon-fri"`,
	"0 0 8 * * ? 2026-2030":        `write "0 8 * * *"`,
	"0 8 * * ?":                    `write "0 8 * * *"`,
	"0 0 L * *":                    "write 28-31",
	"0 0 L-3 * *":                  "write 28-31",
	"0 0 0 L * ?":                  "write 28-31",
	"0 0 LW * *":                   "write 28-31",
	"0 0 15W * *":                  "write 14-16",
	"0 0 1W * *":                   "write 1-3",
	"0 0 31W * *":                  "write 29-31",
	"0 0 * * 5L":                   "write 5,",
	"0 0 * * friL":                 "write fri,",
	"0 0 * * L":                    "write sat",
	"0 0 * * FRI#2": "write fri, and have the task look whether the day of " +
		"the month is 8 to 14",
	"0 0 * * 5#5":        "is 29 to 31",
	"0 0 * * mon#6":      "such as fri",
	"0 0 * * monday":     "write mon instead of monday",
	"0 0 * * Tues-Thurs": "write tue instead of tues",
	"0 0 * september *":  "write sep instead of september",
	"0 22-4 * * *":       "write 22-23,0-4",
	"0 22-4/2 * * *":     "write 22,0,2,4",
	"50-10 * * * *":      "write 50-59,0-10",
	"0 0 28-3 * *":       "write 28-31,1-3",
	"0 0 * nov-feb *":    "write 11-12,1-2",
	"*/90 * * * *":       `write the interval "every 1h30m"`,
	"0 */48 * * *":       `write the interval "every 48h"`,
	"60 * * * *":         "write 0 instead of 60",
	"0 24 * * *":         "write 0 instead of 24",
	"H 3 * * *":          "Jitter",
	"0~30 3 * * *":       "write the first number",
}

// Whoever writes what other programs understand is told what to write here; it is understood.
// Proves G180.
func TestParse_SaysWhatToWriteInstead(t *testing.T) {
	t.Parallel()
	for text, want := range foreignSpecs {
		_, err := Parse(text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", text, err, want)
			continue
		}
		if write := regexp.MustCompile(`write (?:the interval )?"(.*)"$`).
			FindStringSubmatch(err.Error()); write != nil {
			if _, err := Parse(write[1], time.UTC); err != nil {
				t.Errorf("Parse(%q) says to write %q, which it refuses: %v", text, write[1], err)
			}
		}
	}
}

func TestParse_TakesWhatIsPlain(t *testing.T) {
	t.Parallel()
	for text, same := range map[string]string{
		"0 0 * * sat-sun": "0 0 * * 0,6", "0 0 * * 6-0": "0 0 * * 0,6",
		"0 0 * * 6-7":     "0 0 * * 0,6",
		"0 0 * * Fri-MON": "0 0 * * 0,1,5,6", "0 0 * * fri-tue/2": "0 0 * * 5,0,2",
		"0 0 * * 7-1": "0 0 * * 0,1", "0 0 * * sun-sun": "0 0 * * 0", "0 0 * * 0-7": "0 0 * * 0-6",
		"@DAILY": "0 0 * * *", " 0\t0  * JAN * ": "0 0 * 1 *", "Every 1H": "every 60m",
	} {
		got, err := Parse(text, time.UTC)
		if err != nil {
			t.Errorf("Parse(%q) = %v", text, err)
			continue
		}
		want, err := Parse(same, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		got.fields.weekday &^= 1 << week
		want.fields.weekday &^= 1 << week
		got.fields.eitherDay, want.fields.eitherDay = false, false
		if got.every != want.every || got.fields != want.fields {
			t.Errorf("Parse(%q) is %+v, want %+v", text, got, want)
		}
	}
}
