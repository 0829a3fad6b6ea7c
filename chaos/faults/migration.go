//go:build linux

package faults

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/chaos/system"
	"github.com/stint-tasks/stint/migrations"
)

func migrationFaults() []Fault {
	return []Fault{{
		Name: "migrate-again", Do: migrateAgain,
		Text: "the schema is migrated again and again, as by processes that start",
	}}
}

func migrateAgain(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	const shortest, longest = 10 * time.Millisecond, 500 * time.Millisecond
	return repeat(ctx, r, d, shortest, longest, func() error {
		return session(ctx, s, func(ctx context.Context, conn *pgx.Conn) error {
			return ended(ctx, migrations.MigrateSchema(ctx, conn, s.Schema))
		})
	})
}
