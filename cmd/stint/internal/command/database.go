package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/verbs"
)

// A database is what a sub-command works on.
type database struct {
	server *localpg.Server // nil if the database is the user's own.
	pool   *pgxpool.Pool
	direct *stint.Store // nil if only connect was asked for.

	// client is nil unless a service is worked on, and not on a database.
	client  *client.Client
	address string

	store allVerbs // direct or client; nil with shards

	shards *sharded // nil unless shards are worked on
}

// tasks are the verbs for tasks that are there.
func (db *database) tasks() taskVerbs {
	if db.shards != nil {
		return db.shards
	}
	return db.store
}

// ends are those that a store or shards tell of.
func (db *database) ends() verbs.Follower {
	if db.shards != nil {
		return db.shards
	}
	return db.store
}

// open makes the store.
func (db *database) open(options stint.Options) (err error) {
	if db.direct, err = stint.New(db.pool, options); err == nil {
		db.store = db.direct
	}
	return err
}

// close also closes a database that was opened only in part. An interruption does not end it early.
func (db *database) close(ctx context.Context) error {
	const closeMax = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
	defer cancel()
	var err error
	if db.store != nil {
		err = db.store.Close(ctx)
	}
	if db.shards != nil {
		err = db.shards.Close(ctx)
	}
	if db.pool != nil {
		db.pool.Close()
	}
	if db.server != nil {
		err = errors.Join(err, db.server.Close())
	}
	return err
}

// now is the time on the database's clock.
func (db *database) now(ctx context.Context) (now time.Time, err error) {
	switch {
	case db.shards != nil:
		return time.Now(), nil //nolint:forbidigo // each shard has another, and this is for people
	case db.client != nil:
		info, err := db.client.ServiceInfo(ctx)
		return info.Now, err
	}
	err = doctor.InTx(ctx, db.pool, func(tx pgx.Tx) error {
		now, err = doctor.Now(ctx, tx)
		return err
	})
	return now, err
}

// name names the database, or the service, for people.
func (db *database) name() string {
	switch {
	case db.shards != nil:
		return db.shards.name()
	case db.client != nil:
		return "the service at " + db.address
	case db.server != nil:
		return "the private PostgreSQL"
	}
	config := db.pool.Config().ConnConfig
	return fmt.Sprintf("%s on %s", config.Database, config.Host)
}

// task returns a task, with its body and result.
func (db *database) task(ctx context.Context, id stint.TaskID) (stint.TaskInfo, error) {
	tasks, err := db.tasks().GetTasks(ctx, []stint.TaskID{id})
	if err != nil {
		return stint.TaskInfo{}, err
	}
	return tasks[0], nil
}

// check looks for what is wrong.
func (db *database) check(ctx context.Context) ([]doctor.Finding, error) {
	if db.shards != nil {
		return db.shards.check(ctx)
	}
	if db.client == nil {
		return doctor.Examine(ctx, db.pool, db.direct, db.direct.Schema())
	}
	found, err := db.client.Check(ctx)
	var findings []doctor.Finding
	for _, f := range found {
		findings = append(findings, doctor.Finding{
			Severity: doctor.Severity(f.Severity), Topic: f.Topic, ID: f.ID, Text: f.Text,
		})
	}
	return findings, err
}
