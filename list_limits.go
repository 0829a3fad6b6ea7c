package stint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// ActionLimits is how an action is limited and paused, and what that means at this moment.
type ActionLimits struct {
	Action string
	// Limits are as they were set, the zero value if there are none. A Burst that was left out is
	// filled in.
	Limits Limits
	// SetAt is when the limits were set; zero if there are none.
	SetAt time.Time
	// PausedSince is since when the whole action is paused; zero if it is not.
	PausedSince time.Time

	// InProgress is how many tasks are in progress, which is more than Limits.Concurrency if that
	// was lowered. They are counted only where that or ConcurrencyPerKey is set.
	InProgress int
	// Parked is how many ready tasks wait for room below a limit of their key, for the end of its
	// pause, or for its turn.
	// Counting stops at 100,000: ParkedOrMore says that there may be more.
	Parked       int
	ParkedOrMore bool

	// Tokens is how many tokens the bucket of Limits.Rate holds. NextAt is when it has the next one
	// to hand out a task with, zero if it has one.
	Tokens float64
	NextAt time.Time

	// PausedKeys are the keys that are paused, and since when; Weights those with another weight
	// than 1. KeysOrMore says that there may be more: all actions of an answer together have 10,000
	// keys at most.
	PausedKeys map[string]time.Time
	Weights    map[string]int
	KeysOrMore bool
}

const countedParkedMax = 100_000

// ListLimits returns the limits, pauses and weights of these actions, or, if none is named, of all,
// in the order of the actions' names. Those that have neither limits nor pauses nor weights are
// left out.
func (s *Store) ListLimits(ctx context.Context, actions ...string) ([]ActionLimits, error) {
	list, err := s.listLimits(ctx, actions)
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return list, nil
}

func (s *Store) listLimits(ctx context.Context, actions []string) ([]ActionLimits, error) {
	if len(actions) > actionsMax {
		return nil, tooLarge("actions", len(actions), actionsMax)
	}
	for i, action := range actions {
		if err := checkText("action", action, actionBytesMax); err != nil {
			return nil, at(err, i, "")
		}
	}
	var named []string // nil: all
	if len(actions) > 0 {
		named = sorted(actions)
	}
	var list []ActionLimits
	err := s.db.Run(ctx,
		pg.Step{
			Name: "list_limits", Args: []any{named, countedParkedMax},
			Read: func(rows pgx.Rows) error {
				var err error
				list, err = pgx.CollectRows(rows, readLimits)
				return err
			},
		},
		pg.Step{
			Name: "list_limited_keys", Args: []any{named, limitedKeysMax + 1},
			Read: func(rows pgx.Rows) error {
				var err error
				list, err = readKeys(rows, list)
				return err
			},
		})
	return list, err
}

func readLimits(row pgx.CollectableRow) (ActionLimits, error) {
	var l ActionLimits
	var concurrency, perKey *int
	var rate, key readRate
	var setAt, pausedAt, nextAt *time.Time
	var tokens *float64
	err := row.Scan(&l.Action, &concurrency, &perKey, &rate.tasks, &rate.per, &rate.burst,
		&key.tasks, &key.per, &key.burst, &l.Limits.Fair, &setAt, &pausedAt, &l.InProgress,
		&l.Parked, &tokens, &nextAt)
	l.Limits.Concurrency, l.Limits.ConcurrencyPerKey = pg.OrZero(concurrency), pg.OrZero(perKey)
	l.Limits.Rate, l.Limits.RatePerKey = rate.rate(), key.rate()
	l.SetAt, l.PausedSince, l.NextAt = pg.OrZero(setAt), pg.OrZero(pausedAt), pg.OrZero(nextAt)
	l.Tokens = pg.OrZero(tokens)
	if l.Parked >= countedParkedMax {
		l.Parked, l.ParkedOrMore = countedParkedMax, true
	}
	return l, err
}

// A readRate is a rate as the database has it, or nulls.
type readRate struct {
	tasks, burst *int
	per          *time.Duration
}

func (r readRate) rate() Rate {
	return Rate{Tasks: pg.OrZero(r.tasks), Per: pg.OrZero(r.per), Burst: pg.OrZero(r.burst)}
}

// readKeys adds the keys that have a row to the limits of their actions.
func readKeys(rows pgx.Rows, list []ActionLimits) ([]ActionLimits, error) {
	var action, key string
	var pausedAt *time.Time
	var weight, keys int
	_, err := pgx.ForEachRow(rows, []any{&action, &key, &pausedAt, &weight}, func() error {
		i, found := slices.BinarySearchFunc(list, action, func(l ActionLimits, name string) int {
			return strings.Compare(l.Action, name)
		})
		if !found {
			list = slices.Insert(list, i, ActionLimits{Action: action})
		}
		if keys++; keys > limitedKeysMax {
			for after := range list[i:] {
				list[i+after].KeysOrMore = true
			}
			return nil
		}
		list[i].addKey(key, pausedAt, weight)
		return nil
	})
	return list, err
}

func (l *ActionLimits) addKey(key string, pausedAt *time.Time, weight int) {
	if pausedAt != nil {
		if l.PausedKeys == nil {
			l.PausedKeys = map[string]time.Time{}
		}
		l.PausedKeys[key] = *pausedAt
	}
	if weight != 1 {
		if l.Weights == nil {
			l.Weights = map[string]int{}
		}
		l.Weights[key] = weight
	}
}
