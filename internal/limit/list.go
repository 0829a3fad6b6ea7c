package limit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// CountedMax is how many parked tasks are counted.
	CountedMax = 100_000
	// KeysMax is how many keys are listed.
	KeysMax = 10_000
)

// An Info is how an action is limited and paused, and what that means at this moment. The zero time
// is none.
type Info struct {
	Action                     string
	Limits                     Limits
	SetAt, PausedSince, NextAt time.Time
	InProgress, Parked         int
	ParkedOrMore, KeysOrMore   bool
	Tokens                     float64
	PausedKeys                 map[string]time.Time
	Weights                    map[string]int
}

// List returns the limits, pauses and weights of actions, or of all if named is nil, in the order
// of their names.
func List(ctx context.Context, db *pg.DB, named []string) ([]Info, error) {
	var list []Info
	err := db.Run(ctx,
		pg.Step{
			Name: "list_limits", Args: []any{named, CountedMax},
			Read: func(rows pgx.Rows) (err error) {
				list, err = pgx.CollectRows(rows, readLimits)
				return err
			},
		},
		pg.Step{
			Name: "list_limited_keys", Args: []any{named, KeysMax + 1},
			Read: func(rows pgx.Rows) (err error) {
				list, err = readKeys(rows, list)
				return err
			},
		})
	return list, err
}

func readLimits(row pgx.CollectableRow) (Info, error) {
	var l Info
	var limits Columns
	var setAt, pausedAt, nextAt *time.Time
	var tokens *float64
	err := row.Scan(slices.Concat([]any{&l.Action}, limits.All(), []any{
		&setAt, &pausedAt, &l.InProgress, &l.Parked, &tokens, &nextAt,
	})...)
	l.Limits = limits.Limits()
	l.SetAt, l.PausedSince, l.NextAt = pg.OrZero(setAt), pg.OrZero(pausedAt), pg.OrZero(nextAt)
	l.Tokens = pg.OrZero(tokens)
	if l.Parked >= CountedMax {
		l.Parked, l.ParkedOrMore = CountedMax, true
	}
	return l, err
}

// Columns are limits as statements return them.
type Columns struct {
	concurrency, perKey *int
	rate, key           nullRate
	fair, ordered       bool
	byCost              bool
	fairGroup           string
}

type nullRate struct {
	tasks, burst *int
	per          *time.Duration
}

// All are what the columns are scanned into, in order.
func (c *Columns) All() []any {
	return []any{
		&c.concurrency, &c.perKey, &c.rate.tasks, &c.rate.per, &c.rate.burst, &c.key.tasks,
		&c.key.per, &c.key.burst, &c.fair, &c.ordered, &c.fairGroup,
		&c.byCost,
	}
}

// Limits returns the limits that were scanned.
func (c *Columns) Limits() Limits {
	return Limits{
		Concurrency: pg.OrZero(c.concurrency), ConcurrencyPerKey: pg.OrZero(c.perKey),
		Rate: c.rate.orZero(), RatePerKey: c.key.orZero(), Fair: c.fair, Ordered: c.ordered,
		FairGroup: c.fairGroup, ByCost: c.byCost,
	}
}

func (r nullRate) orZero() Rate {
	return Rate{Tasks: pg.OrZero(r.tasks), Per: pg.OrZero(r.per), Burst: pg.OrZero(r.burst)}
}

// Turn says when it is the turn of a key, with so many ahead, which are counted up to most.
func Turn(key string, ahead, most int) string {
	turn := fmt.Sprintf("the turn of key %q", key)
	if key == "" {
		turn = "the turn of tasks without a key"
	}
	switch {
	case ahead == 0:
		return turn + " is next"
	case ahead == 1:
		return turn + " comes after 1 other"
	case ahead >= most:
		return fmt.Sprintf("%s comes after %d others or more", turn, ahead)
	}
	return fmt.Sprintf("%s comes after %d others", turn, ahead)
}

// readKeys adds the keys that have a row to the limits of their actions.
func readKeys(rows pgx.Rows, list []Info) ([]Info, error) {
	var action, key string
	var pausedAt *time.Time
	var weight, keys int
	_, err := pgx.ForEachRow(rows, []any{&action, &key, &pausedAt, &weight}, func() error {
		i, found := slices.BinarySearchFunc(list, action, func(l Info, name string) int {
			return strings.Compare(l.Action, name)
		})
		if !found {
			list = slices.Insert(list, i, Info{Action: action})
		}
		if keys++; keys > KeysMax {
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

func (l *Info) addKey(key string, pausedAt *time.Time, weight int) {
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
