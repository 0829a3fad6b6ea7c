package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// An age is a flag whose value says how long ago something happened.
type age struct {
	ago   time.Duration
	given bool
}

var errAge = errors.New("must be an age such as 90m, 36h, 7d or 1d12h")

// Set reads an age: days, and behind them a duration as Go writes it.
func (a *age) Set(text string) error {
	const day = 24 * time.Hour
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 16) // less than 300 years
	if err != nil {
		return errAge
	}
	total := time.Duration(n) * day
	if rest != "" || !found {
		more, err := time.ParseDuration(rest)
		if err != nil || more < 0 || total+more < total {
			return errAge
		}
		total += more
	}
	*a = age{total, true}
	return nil
}

// String is empty for an age that was not given.
func (a *age) String() string {
	if !a.given {
		return ""
	}
	return a.ago.String()
}

// Type is for the help.
func (a *age) Type() string { return "age" }

// retention keeps tasks that are younger than the age, and all tasks if no age was given.
func (a *age) retention() time.Duration {
	switch {
	case !a.given:
		return stint.KeepForever
	case a.ago == 0:
		return stint.KeepNone
	default:
		return a.ago
	}
}

// A keeping is a flag whose value says for how long finished tasks are kept.
type keeping struct {
	text      string
	retention time.Duration
}

const forever = "forever"

// Set reads an age, or forever.
func (k *keeping) Set(text string) error {
	if text == forever {
		*k = keeping{text, stint.KeepForever}
		return nil
	}
	var a age
	if err := a.Set(text); err != nil {
		return fmt.Errorf("%w, or %s", err, forever)
	}
	*k = keeping{text, a.retention()}
	return nil
}

func (k *keeping) String() string { return k.text }

// Type is for the help.
func (k *keeping) Type() string { return "age" }
