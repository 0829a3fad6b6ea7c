// Package responses keeps the responses to calls of a service for some minutes, so that a call that
// is repeated, since its response was lost, takes effect once and gets the same response.
package responses

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

//go:embed sql/*.sql
var files embed.FS

// Statements are those of this package.
//
//nolint:gochecknoglobals // never changes
var Statements = pg.NewStatements(files)

// ErrAnswered reports that a response to the call is kept: what this attempt has done must be
// undone.
var ErrAnswered = errors.New("the call was answered before")

// Keep keeps the response to a call in the transaction of db, which is that of the call. It fails
// with [ErrAnswered] if another attempt has kept one, for which it waits. It drops a few old ones.
func Keep(ctx context.Context, db *pg.DB, call uuid.UUID, response []byte) error {
	var kept int64
	err := db.Run(ctx, pg.Step{
		Name: "keep_response", Args: []any{call, response},
		Count: func(rows int64) { kept = rows },
	})
	switch {
	case err != nil:
		return fmt.Errorf("keep the response: %w", err)
	case kept == 0:
		return ErrAnswered
	}
	return nil
}

// A known call has the response that it is given once it has taken effect.
type known struct {
	call     uuid.UUID
	response []byte
}

type knownKey struct{}

// With returns a context for verbs that cannot be a part of a transaction of their caller's: they
// call [Kept] themselves.
func With(ctx context.Context, call uuid.UUID, response []byte) context.Context {
	return context.WithValue(ctx, knownKey{}, known{call, response})
}

// Kept keeps the response to the call of the context, if that has one, as [Keep] does. It comes
// last in the transaction, so that it finds what an attempt has kept for whose locks this one had
// to wait.
func Kept(ctx context.Context, db *pg.DB) error {
	of, ok := ctx.Value(knownKey{}).(known)
	if !ok {
		return nil
	}
	return Keep(ctx, db, of.call, of.response)
}

// Find returns the response that is kept of a call, or nil if there is none.
func Find(ctx context.Context, db *pg.DB, call uuid.UUID) (response []byte, err error) {
	err = db.Run(ctx, pg.Step{
		Name: "find_response", Args: []any{call},
		Read: func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&response}, func() error { return nil })
			return err
		},
	}, pg.Step{Name: "wait_for_commit", NoPlanner: true})
	if err != nil {
		return nil, fmt.Errorf("find the response of an earlier attempt: %w", err)
	}
	return response, nil
}

// IsInserted reports whether a task was inserted in the last minute as one that is the same to a
// worker.
func IsInserted(
	ctx context.Context, db *pg.DB, id, action, limitKey string, body []byte,
) (inserted bool, err error) {
	err = db.Run(ctx, pg.Step{
		Name: "inserted_lately", Args: []any{id, action, body, limitKey},
		Read: func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&inserted}, func() error { return nil })
			return err
		},
	})
	if err != nil {
		return false, fmt.Errorf("find the task of an earlier attempt: %w", err)
	}
	return inserted, nil
}
