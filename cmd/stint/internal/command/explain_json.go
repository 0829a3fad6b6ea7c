package command

import (
	"time"

	"github.com/stint-tasks/stint"
)

type explanationJSON struct {
	Task      taskJSON   `json:"task"`
	Missing   int        `json:"missing"`
	WaitsFor  []taskJSON `json:"waits_for"`
	AnyOf     bool       `json:"any_of,omitzero"`
	BecauseOf []taskJSON `json:"because_of,omitempty"`
	TriesLeft *int       `json:"tries_left,omitempty"`
	AskedAt   time.Time  `json:"asked_at,omitzero"`
	Actors    int        `json:"actors"`
	Presence  string     `json:"presence,omitzero"`
	Copy      string     `json:"copy,omitzero"`
	Now       time.Time  `json:"now"`

	Limits *taskLimitsJSON `json:"limits,omitempty"`
	Start  *startJSON      `json:"start,omitempty"`
}

type startJSON struct {
	At           time.Time `json:"at,omitzero"`
	OrLater      bool      `json:"or_later"`
	Before       int64     `json:"before"`
	BeforeOrMore bool      `json:"before_or_more"`
	PerMinute    float64   `json:"per_minute,omitzero"`
	Unknown      string    `json:"unknown,omitzero"`
}

func newStartJSON(s *stint.Start) *startJSON {
	if s == nil {
		return nil
	}
	return &startJSON{
		utc(s.At), s.OrLater, s.Before, s.BeforeOrMore, s.PerMinute, s.Unknown,
	}
}

type taskLimitsJSON struct {
	Limits         *limitJSON `json:"limits,omitempty"`
	PausedSince    time.Time  `json:"paused_since,omitzero"`
	KeyPausedSince time.Time  `json:"key_paused_since,omitzero"`
	InProgress     *int       `json:"in_progress,omitempty"`
	Owned          []taskJSON `json:"owned,omitempty"`
	KeyInProgress  *int       `json:"key_in_progress,omitempty"`
	KeyOwned       []taskJSON `json:"key_owned,omitempty"`
	NextAt         time.Time  `json:"next_at,omitzero"`
	KeyNextAt      time.Time  `json:"key_next_at,omitzero"`
	Tokens         *float64   `json:"tokens,omitempty"`
	KeyTokens      *float64   `json:"key_tokens,omitempty"`
	KeyWaiting     int        `json:"key_waiting"`
	WaitsForTurn   bool       `json:"waits_for_turn"`
	TurnsAhead     *int       `json:"turns_ahead,omitempty"`
	Parked         bool       `json:"parked"`
	Hidden         bool       `json:"hidden,omitzero"`
}

func (p *program) taskLimitsJSON(l *stint.TaskLimits, key string) *taskLimitsJSON {
	if l == nil {
		return nil
	}
	document := &taskLimitsJSON{
		Limits: newLimitJSON(l.Limits), PausedSince: utc(l.PausedSince),
		KeyPausedSince: utc(l.KeyPausedSince), NextAt: utc(l.NextAt),
		KeyNextAt: utc(l.KeyNextAt), KeyWaiting: l.KeyWaiting, WaitsForTurn: l.WaitsForTurn,
		Parked: l.Parked, Hidden: l.Hidden,
		Owned: p.tasksJSON(l.Owned), KeyOwned: p.tasksJSON(l.KeyOwned),
	}
	for _, count := range []struct {
		applies bool
		from    *int
		into    **int
	}{
		{l.Limits.Concurrency > 0, &l.InProgress, &document.InProgress},
		{l.Limits.ConcurrencyPerKey > 0, &l.KeyInProgress, &document.KeyInProgress},
		{l.WaitsForTurn, &l.TurnsAhead, &document.TurnsAhead},
	} {
		if count.applies {
			*count.into = count.from
		}
	}
	if l.Limits.Rate.Tasks > 0 && !l.Hidden {
		document.Tokens = &l.Tokens
	}
	if l.Limits.RatePerKey.Tasks > 0 && key != "" && !l.Hidden {
		document.KeyTokens = &l.KeyTokens
	}
	return document
}
