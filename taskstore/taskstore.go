package taskstore

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
)

// Options adjust a [Store]. The zero value is a good default.
type Options struct {
	// Schema is the database schema that the migrations made. Default: "stint".
	Schema string

	// Durability says whether changes wait for the disk. After a crash of the server that loses
	// opportunistic changes, a client may have been told of a task that the store does not know.
	// Its update or deletion fails with [ErrConflict], since the ID is not given to another task.
	// Default: [stint.Strict].
	Durability stint.Durability
}

// A Task is a task as the store has it.
type Task struct {
	// ID is positive, and no other task ever has it.
	ID int64

	Group string

	Data []byte

	// TimeSpec is the available time, in milliseconds since the Epoch. Until then the task belongs
	// to Owner; from then on to nobody.
	TimeSpec int64

	// Owner is the client that wrote the task.
	Owner int64
}

// A Store keeps tasks in a schema of a PostgreSQL database. It is safe for concurrent use. Any
// number of stores, in any number of processes, may work on one schema. A store has nothing to
// close.
type Store struct {
	db *pg.DB
	// strict is the same database for what is durable whatever the options say.
	strict *pg.DB
}

// New returns a store that uses pool, which stays the caller's. New does not contact the database.
// If the tables are missing, the calls return [stint.ErrSchemaVersion]. An option that cannot be is
// an [stint.ErrInvalidArgument].
func New(pool *pgxpool.Pool, opts Options) (*Store, error) {
	if opts.Schema == "" {
		opts.Schema = "stint"
	}
	if err := checkOptions(pool, opts); err != nil {
		return nil, fmt.Errorf("new task store: %w", err)
	}
	db, err := open(pool, opts.Schema, opts.Durability)
	if err != nil {
		return nil, fmt.Errorf("new task store: %w", err)
	}
	strict, err := open(pool, opts.Schema, stint.Strict)
	if err != nil {
		return nil, fmt.Errorf("new task store: %w", err)
	}
	return &Store{db: db, strict: strict}, nil
}
