package limit

import (
	"context"
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
	var concurrency, perKey *int
	var rate, key NullRate
	var setAt, pausedAt, nextAt *time.Time
	var tokens *float64
	err := row.Scan(&l.Action, &concurrency, &perKey, &rate.Tasks, &rate.Per, &rate.Burst,
		&key.Tasks, &key.Per, &key.Burst, &l.Limits.Fair, &setAt, &pausedAt, &l.InProgress,
		&l.Parked, &tokens, &nextAt)
	l.Limits.Concurrency, l.Limits.ConcurrencyPerKey = pg.OrZero(concurrency), pg.OrZero(perKey)
	l.Limits.Rate, l.Limits.RatePerKey = rate.Rate(), key.Rate()
	l.SetAt, l.PausedSince, l.NextAt = pg.OrZero(setAt), pg.OrZero(pausedAt), pg.OrZero(nextAt)
	l.Tokens = pg.OrZero(tokens)
	if l.Parked >= CountedMax {
		l.Parked, l.ParkedOrMore = CountedMax, true
	}
	return l, err
}

// A NullRate is a rate as the database has it, or nulls.
type NullRate struct {
	Tasks, Burst *int
	Per          *time.Duration
}

// Rate returns the rate, the zero one for nulls.
func (r NullRate) Rate() Rate {
	return Rate{Tasks: pg.OrZero(r.Tasks), Per: pg.OrZero(r.Per), Burst: pg.OrZero(r.Burst)}
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
