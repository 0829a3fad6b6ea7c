//go:build linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/chaos/system"
)

func snapshotFaults() []Fault {
	return []Fault{
		{
			Name: "old-snapshot", Do: oldSnapshot,
			Text: "a transaction that reads holds a snapshot, so nothing that is deleted can be " +
				"cleaned up",
		},
		{
			Name: "prepared-transaction", Do: preparedTransaction,
			Text: "a prepared transaction that nobody ends does the same, also over restarts",
		},
		{
			Name: "abandoned-slots", Do: abandonedSlots,
			Text: "replication slots that nobody reads keep WAL and rows of catalogs",
		},
	}
}

func oldSnapshot(ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration) error {
	return session(ctx, s, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, statement(s, "take_snapshot", "")); err != nil {
			return err
		}
		pause(ctx, d)
		return nil // the end of the session ends the transaction
	})
}

// preparedTransaction restarts the server if it does not allow any.
func preparedTransaction(
	ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration,
) error {
	const setting, some = "max_prepared_transactions", "10"
	allowed, err := value[int](ctx, s, "prepared_allowed")
	if err != nil {
		return err
	}
	prepare := func(ctx context.Context) (err error) {
		defer heal(ctx, &err, func(ctx context.Context) error {
			n, err := value[int](ctx, s, "prepared")
			if err == nil && n > 0 {
				err = execute(ctx, s, "rollback_prepared")
			}
			return err
		})
		err = session(ctx, s, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, statement(s, "prepare", ""))
			return err
		})
		pause(ctx, d)
		return err
	}
	if allowed > 0 {
		return prepare(ctx)
	}
	return withSettings(ctx, s, true, settings{setting: some}, prepare)
}

func abandonedSlots(
	ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration,
) (err error) {
	defer heal(ctx, &err, func(ctx context.Context) error { return execute(ctx, s, "drop_slots") })
	if err := execute(ctx, s, "make_physical_slot"); err != nil {
		return err
	}
	if err := execute(ctx, s, "make_logical_slot"); err != nil {
		return fmt.Errorf("%w: wal_level has to be logical, and max_replication_slots to allow "+
			"two more", err)
	}
	pause(ctx, d)
	return nil
}
