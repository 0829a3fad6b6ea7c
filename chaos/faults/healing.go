//go:build linux

package faults

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/chaos/system"
)

// healingLasts is how long it may take to undo what a fault did.
const healingLasts = 2 * time.Minute

// healing is the context in which a fault undoes what it did, whatever became of ctx.
func healing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), healingLasts)
}

// heal undoes what a fault did, and joins the error with that of the fault.
func heal(ctx context.Context, err *error, undo func(ctx context.Context) error) {
	ctx, cancel := healing(ctx)
	defer cancel()
	if undone := undo(ctx); undone != nil {
		*err = errors.Join(*err, fmt.Errorf("heal: %w", undone))
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// between is a random duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// repeat does something again and again for about d, with a random rest after each time. It is done
// at least once. An error of do ends it.
func repeat(
	ctx context.Context, r *rand.Rand, d, least, most time.Duration, do func() error,
) error {
	live, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		if err := do(); err != nil {
			return err
		}
		pause(live, between(r, least, most))
		if live.Err() != nil {
			return nil
		}
	}
}

// until looks again and again until something is so.
func until(ctx context.Context, what string, so func(ctx context.Context) (bool, error)) error {
	const often = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, healingLasts)
	defer cancel()
	for {
		is, err := so(ctx)
		if is {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("wait until %s: %w", what, ctx.Err()), err)
		}
		pause(ctx, often)
	}
}

// answers waits until the server answers. One whose processes have all ended is started.
func answers(ctx context.Context, s *system.System) error {
	const patience = 5 * time.Second
	return until(ctx, "the server answers", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := s.Server.Pool().Ping(ctx)
		if err == nil {
			return true, nil
		}
		if !alive(s.Server.PostmasterPID()) {
			err = errors.Join(err, s.Server.Start(ctx))
		}
		return false, err
	})
}

// A dice may be thrown by many at once.
type dice struct {
	mutex sync.Mutex
	r     *rand.Rand
}

func newDice(r *rand.Rand) *dice {
	return &dice{r: rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))} //nolint:gosec // no secret
}

// chance is true once in that many times.
func (d *dice) chance(of int) bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.r.IntN(of) == 0
}

func (d *dice) between(least, most time.Duration) time.Duration {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return between(d.r, least, most)
}

//go:embed sql
var statements embed.FS

// statement is a file of sql, for the schema of the system and, where it is about one, a table.
func statement(s *system.System, name, table string) string {
	text, err := statements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		return err.Error() // the server refuses it, and the error names the file
	}
	schema := pgx.Identifier{s.Schema}
	return strings.NewReplacer(
		"{schema}", schema.Sanitize(),
		"{table}", pgx.Identifier{s.Schema, table}.Sanitize(),
	).Replace(string(text))
}

// execute runs a file of sql on the server.
func execute(ctx context.Context, s *system.System, name string, args ...any) error {
	_, err := s.Server.Pool().Exec(ctx, statement(s, name, ""), args...)
	return named(name, err)
}

// value is what a file of sql returns.
func value[V any](
	ctx context.Context, s *system.System, name string, args ...any,
) (v V, err error) {
	err = s.Server.Pool().QueryRow(ctx, statement(s, name, ""), args...).Scan(&v)
	return v, named(name, err)
}

// list is what a file of sql returns, one a row.
func list[V any](ctx context.Context, s *system.System, name string, args ...any) ([]V, error) {
	rows, err := s.Server.Pool().Query(ctx, statement(s, name, ""), args...)
	if err != nil {
		return nil, named(name, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[V])
	return all, named(name, err)
}

func named(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// session calls do with a connection of its own to the server, which it then ends.
func session(
	ctx context.Context, s *system.System, do func(ctx context.Context, conn *pgx.Conn) error,
) (err error) {
	conn, err := pgx.Connect(ctx, s.Server.Address())
	if err != nil {
		return err
	}
	defer heal(ctx, &err, conn.Close)
	return do(ctx, conn)
}

// fill fills a text with random bytes.
func (d *dice) fill(text []byte) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for i := range text {
		text[i] = byte(d.r.IntN(256)) //nolint:gosec // it fits
	}
}
