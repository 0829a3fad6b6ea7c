package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/sharding"
)

// A TaskInfo is what a shard knows of one of its tasks.
type TaskInfo struct {
	Shard string
	stint.TaskInfo
}

// Name names the task in the cluster.
func (t TaskInfo) Name() ID { return ID{t.Shard, t.ID} }

// lookFor is how long a look across shards waits for one of them: as long as until a shard counts
// as silent.
const lookFor = quietFor + answerFor

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
type ShardStats = sharding.Stats

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

// A TaskPage is an answer of [Cluster.ListTasks].
type TaskPage struct {
	Tasks []TaskInfo

	// Next is [stint.Filter.After] for the next page; empty if there are no more tasks. There may
	// be a next page even if this one has few tasks, or none.
	Next stint.Cursor

	// Looked is how many tasks the shards read to find Tasks.
	Looked int

	// Away are the shards that did not say what they have: their tasks are missing.
	Away []*ShardError
}

// listedTasksDefault is the limit of a page if the filter has none.
const listedTasksDefault = 100

// ListTasks is [stint.Store.ListTasks] on all shards of a static topology, or on those of a pattern
// that the cluster has used: shard by shard in the order of their names, and on each in the order
// that the filter has there. [stint.Filter.IDPrefix] is the beginning of the ID as [ID.String]
// writes it, such as "eu/mail", which asks this shard alone; so is [stint.Filter.After] where tasks
// come in the order of their IDs. The tasks that the cluster has inserted for itself are listed
// like others; [IsOwn] tells.
//
// A shard that is away, or does not answer within twenty seconds, or half of the time that ctx
// leaves, is no error: the page names it, and goes on with the shards behind it. If the prefix
// names an unknown shard, the error is [ErrUnknownShard].
func (c *Cluster) ListTasks(ctx context.Context, filter stint.Filter) (TaskPage, error) {
	page, err := c.listTasks(ctx, filter)
	if err != nil {
		return TaskPage{}, said("list tasks", err)
	}
	return page, nil
}

func (c *Cluster) listTasks(ctx context.Context, filter stint.Filter) (TaskPage, error) {
	var page TaskPage
	names, prefix, err := c.begunBy(filter.IDPrefix)
	if err != nil {
		return page, err
	}
	from, after, ok := strings.Cut(string(filter.After), "/")
	if !ok && from != "" {
		return page, &stint.ArgumentError{
			Argument: "Filter.After", Index: -1, Err: stint.ErrInvalidArgument,
			Problem: fmt.Sprintf("%.80q must be the Next of a page, or shard/task", filter.After),
		}
	}
	names = slices.DeleteFunc(names, func(shard string) bool { return shard < from })
	filter.IDPrefix = prefix
	if filter.Limit == 0 {
		filter.Limit = listedTasksDefault
	}
	for i, shard := range names {
		if filter.After = ""; shard == from {
			filter.After = stint.Cursor(after)
		}
		var found stint.TaskPage
		away, err := c.look(ctx, shard, func(ctx context.Context, store Store) (err error) {
			found, err = store.ListTasks(ctx, filter)
			return err
		})
		switch {
		case err != nil:
			return page, err
		case away != nil:
			page.Away = append(page.Away, away)
			continue
		}
		for _, info := range found.Tasks {
			page.Tasks = append(page.Tasks, TaskInfo{shard, info})
		}
		page.Looked += found.Looked
		filter.Limit -= len(found.Tasks)
		switch {
		case found.Next != "":
			page.Next = stint.Cursor(shard+"/") + found.Next
			return page, nil
		case filter.Limit == 0 && i+1 < len(names):
			page.Next = stint.Cursor(names[i+1] + "/")
			return page, nil
		}
	}
	return page, nil
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
