package stint

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// How many tasks one statement looks at, and how much longer the pauses between two walks are
	// than a walk.
	droppedMax   = 1000
	droppedShare = 50
)

// A dropper deletes what is kept for tasks besides their definitions, once they are gone.
type dropper struct {
	store *Store
	// begun is when the last walk began, and took how long it took: pauses of this process, no
	// times in the store.
	begun time.Time
	took  time.Duration
}

// keepUp walks through everything, unless the last walk was not long ago.
func (d *dropper) keepUp(ctx context.Context) error {
	if time.Since(d.begun) < droppedShare*d.took {
		return nil
	}
	d.begun = time.Now() //nolint:forbidigo // see there
	err := d.pass(ctx)
	d.took = time.Since(d.begun)
	return err
}

func (d *dropper) pass(ctx context.Context) error {
	for _, statement := range []string{"drop_steps", "drop_answer_keys"} {
		if err := d.walk(ctx, statement); err != nil {
			return err
		}
	}
	keep := d.store.history
	if keep.Tries == 0 { // others keep tries, and say how many
		keep.Tries = keptTriesMax
	}
	return d.walk(ctx, "drop_tries", keep.Tries, positive(keep.Age))
}

// walk goes through a table with a statement that looks at some tasks at a time.
func (d *dropper) walk(ctx context.Context, statement string, more ...any) error {
	for after, looked := int64(0), int64(droppedMax); looked == droppedMax; {
		err := d.store.run(ctx, step{
			name: statement, args: append([]any{after, droppedMax}, more...),
			read: func(rows pgx.Rows) error {
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
