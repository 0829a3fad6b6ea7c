package worker

import (
	"math/rand/v2"
	"time"
)

// A Retry says how long a task whose handler failed waits for its next try: after the first try a
// random time between half of Base and Base, after each further try twice as much, and never more
// than Max. (This is exponential back-off with equal jitter: it spreads tasks that failed together,
// and no try follows at once.)
type Retry struct {
	// Base is the longest pause after the first try. Default: 1 s, or Max if less.
	Base time.Duration
	// Max is the longest pause, at most ten years. Default: 12 hours, or Base if that is longer.
	Max time.Duration
}

const (
	retryBaseDefault = time.Second
	retryMaxDefault  = 12 * time.Hour // 25 tries, the default of tasks, outlast a weekend
)

func (r Retry) withDefaults(argument string) (Retry, error) {
	if r.Base < 0 || r.Max < 0 {
		return r, argumentError(argument, "must not be negative")
	}
	if r.Base > pauseMax || r.Max > pauseMax {
		return r, argumentError(argument, "must not exceed ten years")
	}
	if r.Base == 0 {
		r.Base = retryBaseDefault
		if r.Max != 0 {
			r.Base = min(r.Base, r.Max)
		}
	}
	if r.Max == 0 {
		r.Max = max(retryMaxDefault, r.Base)
	}
	if r.Max < r.Base {
		return r, argumentError(argument, "Max must not be less than Base")
	}
	return r, nil
}

// pause is how long to wait after try failed.
func (r Retry) pause(try int) time.Duration {
	limit := r.Base
	for ; try > 1 && limit < r.Max; try-- {
		limit *= 2
	}
	limit = min(limit, r.Max)
	return limit - rand.N(limit/2+1) //nolint:gosec // spreads load, hides nothing
}
