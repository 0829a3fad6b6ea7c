package shards

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
)

// A TaskInfo is what a shard knows of one of its tasks.
type TaskInfo struct {
	Shard string
	stint.TaskInfo
}

// Name names the task in the cluster.
func (t TaskInfo) Name() ID { return ID{t.Shard, t.ID} }

// look asks a shard, but not for long. If the shard is away, look returns why. The error is one of
// the question, or of ctx.
func (c *Cluster) look(
	ctx context.Context, shard string, ask func(ctx context.Context, store Store) error,
) (away *ShardError, err error) {
	patience := lookFor
	if until, ok := ctx.Deadline(); ok { // the others are to be asked, too
		patience = min(patience, time.Until(until)/2)
	}
	brief, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	store, err := c.Store(brief, shard)
	if err == nil {
		err = ask(brief, store)
	}
	var bad *stint.ArgumentError
	switch {
	case err == nil:
		return nil, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &bad), errors.Is(err, stint.ErrTaskNotFound),
		errors.Is(err, ErrUnknownShard), errors.Is(err, ErrWrongShard),
		errors.Is(err, stint.ErrClosed):
		return nil, inShard(shard, err)
	case brief.Err() != nil:
		err = noAnswer(err, patience)
	}
	if errors.As(err, &away) {
		return away, nil
	}
	return &ShardError{shard, err}, nil
}

// ShardStats is how many tasks there are on a shard: [stint.Stats], and the name of the Shard. If
// it does not say, Err is why, and the counts are zero.
type ShardStats = views.Stats

// Stats is [stint.Store.Stats] on all shards of a static topology, or on those of a pattern that
// the cluster has used, in the order of their names. It includes the tasks that the cluster has
// inserted for itself. A shard that is away, or does not answer within twenty seconds, or
// half of the time that ctx leaves, is no error: its Err is set.
func (c *Cluster) Stats(ctx context.Context) ([]ShardStats, error) {
	names := c.known()
	all, errs := make([]ShardStats, len(names)), make([]error, len(names))
	var asking sync.WaitGroup
	for i, shard := range names {
		asking.Go(func() {
			one := &all[i]
			one.Shard = shard
			away, err := c.look(ctx, shard, func(ctx context.Context, store Store) (err error) {
				one.Stats, err = store.Stats(ctx)
				return err
			})
			if errs[i] = err; away != nil {
				one.Err = away
			}
		})
	}
	asking.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, said("stats", err)
	}
	return all, nil
}

// begunBy returns the shards that have tasks whose IDs, as [ID.String] writes them, may begin with
// a text, and how they begin there.
func (c *Cluster) begunBy(text string) (names []string, prefix string, err error) {
	shard, prefix, whole := strings.Cut(text, "/")
	if whole {
		_, err := c.topology.URL(shard)
		return []string{shard}, prefix, err
	}
	return slices.DeleteFunc(c.known(), func(name string) bool {
		return !strings.HasPrefix(name, shard)
	}), "", nil
}
