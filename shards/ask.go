package shards

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
)

// ErrNoAnswer reports that a shard is silent, though it can be connected to: its server is frozen,
// for example, or something on the way swallows what is sent.
var ErrNoAnswer = views.ErrNoAnswer

const (
	// quietFor is for how long a call may be under way before its shard is asked whether it is
	// there, and answerFor is how long the shard then has.
	quietFor  = 5 * time.Second
	answerFor = 15 * time.Second // a busy machine is not silent

	// lookFor is how long a look across shards waits for one of them: as long as until a shard
	// counts as silent.
	lookFor = quietFor + answerFor
)

// ask calls a verb of a shard, which may take as long as it likes as long as the shard answers
// somebody. If the shard is silent, the call ends with [ErrNoAnswer] after twenty seconds.
func (c *Cluster) ask(
	ctx context.Context, shard string, call func(ctx context.Context, store Store) error,
) error {
	store, err := c.Store(ctx, shard)
	if err != nil {
		return err
	}
	calling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(quietFor, func() { listen(calling, store, cancel) })
	defer quiet.Stop()
	err = call(calling, store)
	if err != nil && errors.Is(context.Cause(calling), ErrNoAnswer) {
		err = noAnswer(err, lookFor)
	}
	return inShard(shard, err)
}

func noAnswer(err error, within time.Duration) error {
	return fmt.Errorf("%w within %v: %w", ErrNoAnswer, within.Round(time.Millisecond), err)
}

// listen ends a call when its shard is silent.
func listen(ctx context.Context, store Store, cancel context.CancelCauseFunc) {
	for ctx.Err() == nil {
		brief, stop := context.WithTimeout(ctx, answerFor)
		_, _ = nameOf(brief, store) // any answer will do
		silent := brief.Err() != nil
		stop()
		if silent {
			cancel(ErrNoAnswer) // without effect if the call has ended
			return
		}
		select {
		case <-time.After(quietFor):
		case <-ctx.Done():
		}
	}
}

// An asker calls verbs of shards.
type asker interface {
	ask(ctx context.Context, shard string, call func(ctx context.Context, store Store) error) error
}

// A round asks many shards many things. It asks a shard that is silent no more.
type round struct {
	cluster *Cluster
	mutex   sync.Mutex
	silent  map[string]error
}

func (c *Cluster) newRound() *round { return &round{cluster: c, silent: map[string]error{}} }

func (r *round) ask(
	ctx context.Context, shard string, call func(ctx context.Context, store Store) error,
) error {
	r.mutex.Lock()
	err := r.silent[shard]
	r.mutex.Unlock()
	if err != nil {
		return err
	}
	err = r.cluster.ask(ctx, shard, call)
	if errors.Is(err, ErrNoAnswer) {
		r.mutex.Lock()
		r.silent[shard] = err
		r.mutex.Unlock()
	}
	return err
}

// settleFor is for how long a call tries to find out what became of it, and to tidy up, when its
// own time is over. Relays do what is left.
const settleFor = 5 * time.Second

func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleFor)
}

// insertInto inserts tasks into a shard.
func (c *Cluster) insertInto(ctx context.Context, shard string, tasks []stint.Task) error {
	return c.ask(ctx, shard, func(ctx context.Context, store Store) error {
		return store.InsertTasks(ctx, tasks)
	})
}

// find returns a task, or nil if there is none.
func find(ctx context.Context, store Store, id stint.TaskID) (*stint.TaskInfo, error) {
	found, err := store.GetTasks(ctx, []stint.TaskID{id})
	if errors.Is(err, stint.ErrTaskNotFound) {
		return nil, nil //nolint:nilnil // as the comment says
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// findAt is find for a task of any shard.
func findAt(ctx context.Context, at asker, id ID) (found *stint.TaskInfo, err error) {
	err = at.ask(ctx, id.Shard, func(ctx context.Context, store Store) (err error) {
		found, err = find(ctx, store, id.Task)
		return err
	})
	return found, err
}
