package prune

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// How many tasks one statement looks at, and how much longer the pauses between two walks are
	// than a walk.
	orphansMax   = 1000
	orphansShare = 50
)

// KeepTries says how many ended tries of a task stay, the newest ones, and for how long; 0: any
// time.
type KeepTries struct {
	Most int
	Age  time.Duration
}

// Terms name the number and the age.
func (k KeepTries) Terms() string {
	return terms(int64(k.Most), longest(pg.NonZero(k.Age)))
}

// Suits reports whether a store with the given terms deletes all that this one would.
func (k KeepTries) Suits(given string) bool { return suits(given, k.Terms()) }

// Orphans deletes what is kept for tasks besides their definitions, once they are gone.
type Orphans struct {
	db   *pg.DB
	keep KeepTries
	// begun is when the last walk began, and took how long it took: pauses of this process, no
	// times in the store.
	begun time.Time
	took  time.Duration
}

// NewOrphans returns one that keeps some tries.
func NewOrphans(db *pg.DB, keep KeepTries) *Orphans { return &Orphans{db: db, keep: keep} }

// Some walks through everything, unless the last walk was not long ago.
func (o *Orphans) Some(ctx context.Context) error {
	if time.Since(o.begun) < orphansShare*o.took {
		return nil
	}
	o.begun = time.Now() //nolint:forbidigo // a pause of this process
	err := o.All(ctx)
	o.took = time.Since(o.begun)
	return err
}

// All walks through everything.
func (o *Orphans) All(ctx context.Context) error {
	for _, statement := range []string{"drop_steps", "drop_answer_keys"} {
		if err := o.walk(ctx, statement); err != nil {
			return err
		}
	}
	return o.walk(ctx, "drop_tries", o.keep.Most, pg.NonZero(o.keep.Age))
}

// walk goes through a table with a statement that looks at some tasks at a time.
func (o *Orphans) walk(ctx context.Context, statement string, more ...any) error {
	for after, looked := int64(0), int64(orphansMax); looked == orphansMax; {
		err := o.db.Run(ctx, pg.Step{
			Name: statement, Args: append([]any{after, orphansMax}, more...),
			Read: func(rows pgx.Rows) error {
				for rows.Next() { // there is one
					var last *int64
					if err := rows.Scan(&looked, &last); err != nil {
						return err
					}
					if last != nil {
						after = *last
					}
				}
				return rows.Err()
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
