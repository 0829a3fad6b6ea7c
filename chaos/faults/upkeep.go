//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/chaos/system"
)

func upkeepFaults() []Fault {
	return []Fault{
		{
			Name: "vacuum-full", Do: upkeep("vacuum_full"),
			Text: "VACUUM FULL writes one table after the other anew",
		},
		{
			Name: "vacuum-freeze", Do: upkeep("vacuum_freeze"),
			Text: "VACUUM freezes one table after the other, as when transaction numbers run out",
		},
		{
			Name: "reindex", Do: upkeep("reindex"),
			Text: "REINDEX makes the indexes of one table after the other anew",
		},
		{
			Name: "reindex-concurrently", Do: upkeep("reindex_concurrently"),
			Text: "REINDEX CONCURRENTLY does so while others write",
		},
		{
			Name: "empty-statistics", Do: statisticsOf(0),
			Text: "the planner takes all tables for empty, and has no statistics of columns",
		},
		{
			Name: "wrong-statistics", Do: statisticsOf(1_000_000_000),
			Text: "the planner takes all tables for huge, and has no statistics of columns",
		},
		{
			Name: "checkpoints", Do: checkpoints,
			Text: "the server makes one checkpoint after the other, and writes each page twice",
		},
	}
}

// upkeep is a fault that runs a statement on one table after the other.
func upkeep(
	name string,
) func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	const shortest, longest = 10 * time.Millisecond, 200 * time.Millisecond
	return func(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) (err error) {
		defer heal(ctx, &err, func(ctx context.Context) error { return dropHalves(ctx, s) })
		return repeat(ctx, r, d, shortest, longest, func() error {
			names, err := tables(ctx, s)
			if err != nil {
				return err
			}
			ctx, cancel := healing(ctx) // half of a new index stays
			defer cancel()
			_, err = s.Server.Pool().Exec(ctx, statement(s, name, names[0]))
			return unlucky(err)
		})
	}
}

// unlucky is nil for an error that is the lot of those who work on tables that others use.
func unlucky(err error) error {
	const deadlock, cancelled = "40P01", "57014"
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == deadlock || refused.Code == cancelled) {
		return nil
	}
	return err
}

// dropHalves drops what a REINDEX CONCURRENTLY left behind that failed.
func dropHalves(ctx context.Context, s *system.System) error {
	drops, err := list[string](ctx, s, "drop_halves", s.Schema)
	for _, drop := range drops {
		_, dropped := s.Server.Pool().Exec(ctx, drop)
		err = errors.Join(err, dropped)
	}
	return err
}

// statisticsOf is a fault that makes tables seem to have so many rows.
func statisticsOf(
	rows float32,
) func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	return func(ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration) error {
		off := settings{"autovacuum": "off"}
		return withSettings(ctx, s, false, off, func(ctx context.Context) (err error) {
			defer heal(ctx, &err, func(ctx context.Context) error {
				_, err := s.Server.Pool().Exec(ctx, statement(s, "analyze", ""))
				return err
			})
			if err := execute(ctx, s, "forget_columns", s.Schema); err != nil {
				return err
			}
			if err := execute(ctx, s, "set_rows", s.Schema, rows); err != nil {
				return err
			}
			pause(ctx, d)
			return nil
		})
	}
}

func checkpoints(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	const shortest, longest = 100 * time.Millisecond, time.Second
	return repeat(ctx, r, d, shortest, longest, func() error {
		return execute(ctx, s, "checkpoint")
	})
}
