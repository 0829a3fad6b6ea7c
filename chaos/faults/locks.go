//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/chaos/system"
)

func lockFaults() []Fault {
	return []Fault{
		{
			Name: "lock-tables", Do: lockTables,
			Text: "a stranger locks one table after the other against all others, each for seconds",
		},
		{
			Name: "waiting-alter", Do: alterTables,
			Text: "a stranger reads a table for seconds, and all wait behind another one who " +
				"wants to alter it",
		},
		{
			Name: "deadlocks", Do: deadlocks,
			Text: "a stranger locks rows in random order, and the server ends whoever waits in a " +
				"circle",
		},
		{
			Name: "lock-rows", Do: lockRows,
			Text: "a stranger locks rows of tasks, each time for seconds",
		},
	}
}

const (
	heldShortest = 500 * time.Millisecond
	heldLongest  = 3 * time.Second
)

// tables are those of the schema, in random order.
func tables(ctx context.Context, s *system.System) ([]string, error) {
	names, err := list[string](ctx, s, "tables", s.Schema)
	if err == nil && len(names) == 0 {
		err = notHere("schema %s has no tables", s.Schema)
	}
	return names, err
}

// onTables calls do again and again until d is over, each time behind a statement on some table, in
// the transaction of a stranger. Live ends then.
func onTables(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration, first string,
	do func(live context.Context, table string) error,
) error {
	live, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return repeat(ctx, r, d, 0, heldShortest, func() error {
		names, err := tables(ctx, s)
		if err != nil {
			return err
		}
		return foreign(ctx, s, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, statement(s, first, names[0])); err != nil {
				return err
			}
			return do(live, names[0])
		})
	})
}

func lockTables(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return onTables(ctx, s, r, d, "lock_table", func(live context.Context, _ string) error {
		pause(live, between(r, heldShortest, heldLongest))
		return nil
	})
}

// foreign calls do in a transaction of a stranger, and rolls it back. That the server chose it to
// end a deadlock, or cancelled it, is no error.
func foreign(
	ctx context.Context, s *system.System, do func(ctx context.Context, tx pgx.Tx) error,
) error {
	const deadlock, cancelled = "40P01", "57014"
	err := session(ctx, s, func(ctx context.Context, conn *pgx.Conn) (err error) {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer heal(ctx, &err, func(ctx context.Context) error {
			if conn.IsClosed() { // which rolls it back
				return nil
			}
			return tx.Rollback(ctx)
		})
		return do(ctx, tx)
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == deadlock || refused.Code == cancelled) {
		return nil
	}
	return err
}

func alterTables(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return onTables(ctx, s, r, d, "read_table", func(live context.Context, table string) error {
		waits, cancel := context.WithTimeout(live, between(r, heldShortest, heldLongest))
		defer cancel()
		return foreign(ctx, s, func(_ context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(waits, statement(s, "alter_table", table))
			return ended(waits, err) // it waits for the reader until it is cancelled
		})
	})
}

// deadlocks locks rows in random order. Others notice the deadlock first, and are its victims.
func deadlocks(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	const shortest, longest = 20 * time.Millisecond, 300 * time.Millisecond
	return repeat(ctx, r, d, 0, shortest, func() error {
		return foreign(ctx, s, func(ctx context.Context, tx pgx.Tx) error {
			ctx, cancel := context.WithTimeout(ctx, healingLasts)
			defer cancel()
			if _, err := tx.Exec(ctx, statement(s, "patient", "")); err != nil {
				return err
			}
			names := []string{"leased", "ready", "leases", "tasks"}
			r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			for _, name := range names {
				if _, err := tx.Exec(ctx, statement(s, "lock_rows", name)); err != nil {
					return err
				}
				pause(ctx, between(r, shortest, longest))
			}
			return nil
		})
	})
}

func lockRows(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	live, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return repeat(ctx, r, d, 0, heldShortest, func() error {
		return foreign(ctx, s, func(ctx context.Context, tx pgx.Tx) error {
			for _, name := range []string{"ready", "leased"} {
				if _, err := tx.Exec(ctx, statement(s, "lock_rows", name)); err != nil {
					return err
				}
			}
			pause(live, between(r, heldShortest, heldLongest))
			return nil
		})
	})
}
