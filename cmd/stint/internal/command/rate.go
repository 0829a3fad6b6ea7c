package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// A rateFlag is a flag whose value is a rate.
type rateFlag struct{ rate stint.Rate }

var errRate = errors.New("must be a rate such as 1000/s, 5/m or 10/15m, or 0 for none")

// Set reads a number of tasks, a slash, and a time: a unit, or a duration as Go writes it.
func (f *rateFlag) Set(text string) error {
	if text == "0" {
		*f = rateFlag{}
		return nil
	}
	number, per, found := strings.Cut(text, "/")
	tasks, err := strconv.Atoi(number)
	if err != nil || !found || tasks < 1 {
		return errRate
	}
	for unit, length := range rateUnits() {
		if per == unit {
			*f = rateFlag{stint.Rate{Tasks: tasks, Per: length}}
			return nil
		}
	}
	length, err := time.ParseDuration(per)
	if err != nil || length <= 0 {
		return errRate
	}
	*f = rateFlag{stint.Rate{Tasks: tasks, Per: length}}
	return nil
}

// rateUnits are the times that have a name in a rate.
func rateUnits() map[string]time.Duration {
	const day = 24 * time.Hour
	return map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": day}
}

// String is empty for a rate that was not given.
func (f *rateFlag) String() string {
	if f.rate == (stint.Rate{}) {
		return ""
	}
	return f.text()
}

func (f rateFlag) text() string {
	per := f.rate.Per.String()
	for unit, length := range rateUnits() {
		if f.rate.Per == length {
			per = unit
		}
	}
	return fmt.Sprintf("%d/%s", f.rate.Tasks, withoutZeros(per))
}

// withoutZeros leaves the zeros at the end of a duration out: 1h0m0s is 1h.
func withoutZeros(span string) string {
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(span, zero) {
			span = span[:len(span)-len("0s")]
		}
	}
	return span
}

// Type is for the help.
func (f *rateFlag) Type() string { return "rate" }
