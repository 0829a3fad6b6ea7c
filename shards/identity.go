package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
)

// ErrWrongShard reports that the database at the URL of a shard is another shard: the topology has
// been changed, and does not fit what the databases say.
var ErrWrongShard = views.ErrWrong

// A WrongShardError is [ErrWrongShard], with the names of both. It comes in a [*ShardError].
type WrongShardError struct {
	Shard string // whose URL leads there
	Found string // the shard that is there
}

func (e *WrongShardError) Error() string {
	return fmt.Sprintf("%v: the database at the URL of %q is that of shard %q, as the task %q "+
		"there says; mend the topology, or, if the shard has been renamed or its database copied "+
		"on purpose, delete that task there, as the documentation of shards says",
		ErrWrongShard, e.Shard, e.Found, nameTask)
}

// Unwrap returns [ErrWrongShard].
func (*WrongShardError) Unwrap() error { return ErrWrongShard }

// nameTask is the ID of the task by which a database knows which shard it is. It waits for a time
// that does not come, so that it stays.
const nameTask = "stint.shard"

// shardName is its body.
type shardName struct {
	Shard string `json:"shard"`
}

// nameOf returns the name of the shard whose database a store has, or nothing if it has not been
// named.
func nameOf(ctx context.Context, store Store) (string, error) {
	found, err := find(ctx, store, nameTask)
	if err != nil || found == nil {
		return "", err
	}
	var name shardName
	if err := json.Unmarshal(found.Body, &name); err != nil {
		return "", fmt.Errorf("read %q: %w", nameTask, err)
	}
	return name.Shard, nil
}

// identify makes sure that the store of a shard is that of no other one. A caller who may not look
// is spared that.
func (o *connection) identify(ctx context.Context, shard string) error {
	if o.known.Load() {
		return nil
	}
	brief, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	name, err := nameOf(brief, o.store)
	switch {
	case isNotAllowed(err):
	case err != nil && ctx.Err() == nil && brief.Err() != nil:
		return inShard(shard, noAnswer(err, lookFor))
	case err != nil:
		return inShard(shard, err)
	case name != "" && name != shard:
		return inShard(shard, &WrongShardError{shard, name})
	}
	o.known.Store(true)
	return nil
}

// claim names the database of a shard, unless it has a name. Who makes other shards rely on the
// name does this first.
func (c *Cluster) claim(ctx context.Context, shard string) error {
	store, err := c.Store(ctx, shard)
	if err != nil {
		return err
	}
	at, _, err := c.connection(shard)
	if err != nil {
		return err
	}
	defer c.leave(shard, at)
	if at.claimed.Load() {
		return nil
	}
	body, err := json.Marshal(shardName{shard})
	if err != nil {
		return err
	}
	const never = 9999
	err = store.InsertTasks(ctx, []stint.Task{{
		ID: nameTask, Action: stint.External, Body: body,
		NotBefore: time.Date(never, time.January, 1, 0, 0, 0, 0, time.UTC),
	}})
	switch {
	case isNotAllowed(err):
		return nil
	case errors.Is(err, stint.ErrTaskExists):
		at.known.Store(false) // perhaps named since, by somebody with another topology
		if err := at.identify(ctx, shard); err != nil {
			return err
		}
	case err != nil:
		return inShard(shard, err)
	}
	at.claimed.Store(true)
	return nil
}

// isNotAllowed reports whether the role, or the grants, of the caller do not suffice.
func isNotAllowed(err error) bool {
	const insufficientPrivilege, readOnlyTransaction = "42501", "25006"
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code == insufficientPrivilege || said.Code == readOnlyTransaction
	}
	return errors.Is(err, stint.ErrRefused)
}
