// Package branch exports the newest commit of each branch of a repository to a directory, by tasks.
// It is the branch-export story that Stint was designed for, to copy from.
//
// A branch has a cycle of tasks, whose actions are their names without the branch:
//
//	       Commit: replaced, and made to wait for done-export
//	             │
//	     next-export-{branch} ◄──────────────────────────────────────┐
//	             │ creates, when it is performed                     │ waits for
//	     start-export-{branch}                                       │
//	             │ creates, when it is performed                     │
//	copy, delete, copy, … ──► _SUCCESS of each prefix ──► done-export-{branch}
//	                                                                 │
//	                                                              manifest
//
// What holds, whoever dies or is late at whatever moment:
//
//   - At most one export of a branch is under way. Any number of branches are exported at once.
//   - The newest commit is exported in the end; those in between that no export got to are not.
//   - A prefix has its _SUCCESS object when all the objects below it are in place.
//
// Where to read:
//
//   - request.go asks for an export, in the transaction of the commit. It is the heart of it.
//   - next.go and start.go are the tasks that make other tasks.
//   - plan.go lays out the tasks of an export, object.go performs them.
//   - destination.go is the directory, and keeps late workers out of it.
//   - worker.go is the loop: own, perform, record and return in one commit.
//   - report.go checks all that was promised, without asking the store.
//   - repository.go and schema.sql are the application: branches, commits, objects.
package branch

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// An Exporter is what the parts of the application share.
type Exporter struct {
	pool  *pgxpool.Pool
	store *stint.Store
	dir   string
	lease time.Duration
}

//go:embed schema.sql
var schema string

//go:embed sql/*.sql
var statements embed.FS

// statement is the text of a file in sql/.
func statement(name string) string {
	text, err := statements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// New returns an exporter to the directories below dir, one for each branch. It makes its tables
// in the first schema of the pool's search path.
func New(
	ctx context.Context, pool *pgxpool.Pool, store *stint.Store, dir string, lease time.Duration,
) (*Exporter, error) {
	if _, err := pool.Exec(ctx, schema); err != nil {
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	return &Exporter{pool: pool, store: store, dir: dir, lease: lease}, nil
}

// inTx runs work in a transaction, together with whatever tasks it changes. If it gets into a
// deadlock with somebody who locks tasks of the network in another order, it begins again.
func (e *Exporter) inTx(
	ctx context.Context, work func(tx pgx.Tx, tasks *stint.Store) error,
) error {
	const attempts = 5
	const deadlockDetected = "40P01"
	var err error
	for range attempts {
		err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
			return work(tx, e.store.WithTx(tx))
		})
		var failure *pgconn.PgError
		if !errors.As(err, &failure) || failure.Code != deadlockDetected {
			break
		}
	}
	return err
}
