package command

import (
	"time"

	"github.com/stint-tasks/stint"
)

type limitsJSON struct {
	Action       string               `json:"action"`
	Limits       *limitJSON           `json:"limits,omitempty"`
	SetAt        time.Time            `json:"set_at,omitzero"`
	PausedSince  time.Time            `json:"paused_since,omitzero"`
	InProgress   *int                 `json:"in_progress,omitempty"`
	Parked       int                  `json:"parked"`
	ParkedOrMore bool                 `json:"parked_or_more,omitempty"`
	Tokens       *float64             `json:"tokens,omitempty"`
	NextAt       time.Time            `json:"next_at,omitzero"`
	PausedKeys   map[string]time.Time `json:"paused_keys,omitempty"`
	Weights      map[string]int       `json:"weights,omitempty"`
	KeysOrMore   bool                 `json:"keys_or_more,omitempty"`
}

type limitJSON struct {
	Concurrency int       `json:"concurrency,omitempty"`
	PerKey      int       `json:"per_key,omitempty"`
	Rate        *rateJSON `json:"rate,omitempty"`
	RatePerKey  *rateJSON `json:"rate_per_key,omitempty"`
	Fair        bool      `json:"fair"`
	FairGroup   string    `json:"fair_group,omitempty"`
	Ordered     bool      `json:"ordered,omitempty"`
	ByCost      bool      `json:"by_cost,omitempty"`
}

type rateJSON struct {
	Tasks      int     `json:"tasks"`
	PerSeconds float64 `json:"per_seconds"`
	Burst      int     `json:"burst,omitempty"`
}

func newLimitsJSON(l *stint.ActionLimits) limitsJSON {
	document := limitsJSON{
		Action: l.Action, Limits: newLimitJSON(l.Limits), SetAt: utc(l.SetAt),
		PausedSince: utc(l.PausedSince), Parked: l.Parked, ParkedOrMore: l.ParkedOrMore,
		NextAt: utc(l.NextAt), PausedKeys: map[string]time.Time{}, Weights: l.Weights,
		KeysOrMore: l.KeysOrMore,
	}
	if l.Limits.Rate != (stint.Rate{}) {
		document.Tokens = &l.Tokens
	}
	if l.Limits.Concurrency > 0 || l.Limits.ConcurrencyPerKey > 0 {
		document.InProgress = &l.InProgress
	}
	for key, since := range l.PausedKeys {
		document.PausedKeys[key] = utc(since)
	}
	return document
}

// newLimitJSON returns nil for no limits.
func newLimitJSON(l stint.Limits) *limitJSON {
	if l == (stint.Limits{}) {
		return nil
	}
	return &limitJSON{
		l.Concurrency, l.ConcurrencyPerKey, newRateJSON(l.Rate), newRateJSON(l.RatePerKey), l.Fair,
		l.FairGroup, l.Ordered, l.ByCost,
	}
}

func newRateJSON(r stint.Rate) *rateJSON {
	if r == (stint.Rate{}) {
		return nil
	}
	return &rateJSON{r.Tasks, r.Per.Seconds(), r.Burst}
}
