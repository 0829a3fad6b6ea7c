package command

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/doctor"
)

//go:embed sql/lock_holder.sql
var lockHolder string

// tellHolders says on standard error whom a migration waits for that takes some seconds, until the
// caller stops it.
func (p *program) tellHolders(ctx context.Context, pool *pgxpool.Pool) (stop func()) {
	const (
		silence = 3 * time.Second
		pause   = 200 * time.Millisecond // several looks fall into each try of the migrator
		rest    = 10 * time.Second       // after each line
	)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var told string
		for wait := silence; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			// A look that fails tells nothing; if there is a reason, the migration finds it, too.
			name, age, err := findHolder(ctx, pool)
			wait = pause
			if err == nil && name != told {
				told, wait = name, rest
				fmt.Fprintf(p.stderr, "waiting for %s%s\n", name, age)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// findHolder names the process that holds the lock that whoever migrates waits for, if there is
// one, and says how old its transaction is, if it may be seen.
func findHolder(ctx context.Context, pool *pgxpool.Pool) (name, age string, err error) {
	err = doctor.InTx(ctx, pool, func(tx pgx.Tx) error {
		var (
			holder      int32
			application *string
			open        *time.Duration
		)
		if err := tx.QueryRow(ctx, lockHolder).Scan(&holder, &application, &open); err != nil {
			return err
		}
		name = fmt.Sprintf("process %d", holder)
		if holder == 0 {
			name = "a prepared transaction"
		}
		if application != nil {
			name += fmt.Sprintf(" (%s)", *application)
		}
		name += ", which holds a lock"
		if open != nil {
			age = fmt.Sprintf(" in a transaction that began %v ago", open.Truncate(time.Second))
		}
		return nil
	})
	return name, age, err
}
