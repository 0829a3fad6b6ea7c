package limit

import (
	"fmt"
	"math"
	"time"
)

// Held is what limits and pauses say of a ready task with an action and a key.
type Held struct {
	Action, Key string
	// PausedSince and KeyPausedSince are zero if there is no pause; NextAt and KeyNextAt, when the
	// next tokens come, are zero if there are some.
	PausedSince, KeyPausedSince time.Time
	NextAt, KeyNextAt           time.Time
	ByCost                      bool // they count costs
	// Rated and KeyRated say that there are buckets, Tokens and KeyTokens what they have, or owe.
	Rated, KeyRated   bool
	Tokens, KeyTokens float64
	// Of so many tasks at most these are in progress, with a text about their owners. 0: no limit.
	InProgress, Most       int
	Owners                 string
	KeyInProgress, KeyMost int
	KeyOwners              string
	// Holder is a text about the task that holds the key, where tasks of a key come in order.
	Holder string
	// KeyWaiting is how many tasks with the key wait, TurnsAhead how many turns come first, of
	// which no more than TurnsMax were counted.
	KeyWaiting           int
	KeyWaitingOrMore     bool
	WaitsForTurn         bool
	TurnsAhead, TurnsMax int
	// Hidden says that it is not told how many turns come first.
	Hidden bool
}

// Reasons are what holds the task up, a sentence each.
func (h Held) Reasons() []string {
	var reasons []string
	say := func(format string, args ...any) {
		reasons = append(reasons, fmt.Sprintf(format, args...))
	}
	if !h.PausedSince.IsZero() {
		say("%q has been paused since %s", h.Action, stamp(h.PausedSince))
	}
	if h.Most > 0 && h.InProgress >= h.Most {
		say("%d of %d %q tasks are in progress%s", h.InProgress, h.Most, h.Action, h.Owners)
	}
	if !h.NextAt.IsZero() {
		say("%s", h.noTokens(fmt.Sprintf("%q", h.Action), h.NextAt, h.Tokens))
	}
	if !h.KeyPausedSince.IsZero() {
		say("key %q has been paused since %s", h.Key, stamp(h.KeyPausedSince))
	}
	switch {
	case h.Holder != "":
		say("tasks with key %q come one at a time, in order, and one has not ended%s", h.Key,
			h.Holder)
	case h.KeyMost > 0 && h.KeyInProgress >= h.KeyMost:
		say("%d of %d tasks with key %q are in progress%s", h.KeyInProgress, h.KeyMost, h.Key,
			h.KeyOwners)
	}
	if !h.KeyNextAt.IsZero() {
		say("%s", h.noTokens(fmt.Sprintf("key %q", h.Key), h.KeyNextAt, h.KeyTokens))
	}
	switch {
	case !h.WaitsForTurn, !h.PausedSince.IsZero(), !h.KeyPausedSince.IsZero():
	case h.Hidden:
		say("the turn of its key has not come")
	default:
		say("%s", Turn(h.Key, h.TurnsAhead, h.TurnsMax))
	}
	if len(reasons) > 0 && h.KeyWaiting > 0 && h.Key != "" {
		more := ""
		if h.KeyWaitingOrMore {
			more = " or more"
		}
		say("tasks with key %q that wait: %d%s", h.Key, h.KeyWaiting, more)
	}
	return reasons
}

// noTokens says that a bucket is empty.
func (h Held) noTokens(of string, next time.Time, tokens float64) string {
	if !h.ByCost {
		return fmt.Sprintf("the next token of %s comes at %s", of, stamp(next))
	}
	spent := fmt.Sprintf("the budget of %s is spent until %s", of, stamp(next))
	if tokens <= -1 {
		spent += fmt.Sprintf(", and owes %.0f", math.Floor(-tokens))
	}
	return spent
}

// Left says what is left of budgets that are not spent, a line each.
func (h Held) Left() string {
	left := ""
	if h.ByCost && h.Rated && !h.Hidden && h.NextAt.IsZero() {
		left += fmt.Sprintf("\nleft of the budget of %q: %.0f", h.Action, math.Floor(h.Tokens))
	}
	if h.ByCost && h.KeyRated && h.Key != "" && !h.Hidden && h.KeyNextAt.IsZero() {
		left += fmt.Sprintf("\nleft of the budget of key %q: %.0f", h.Key, math.Floor(h.KeyTokens))
	}
	return left
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
