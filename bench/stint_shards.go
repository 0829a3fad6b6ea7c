package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/shards"
	"github.com/stint-tasks/stint/structures"
)

// Variants of W13: all tasks on one shard, or on two that are databases of one server or of two.
const (
	onOneShard   = "one shard"
	onTwoShards  = "two shards"
	onTwoServers = "two servers"
)

// shardEntries are those of W13.
func shardEntries() []entry {
	places := map[string]place{onTwoShards: sameServer, onTwoServers: ownServer}
	var entries []entry
	add := func(workload, variant string, fill, measure func(context.Context, *run) error) {
		entries = append(entries, entry{
			workload: workload, variant: variant, second: places[variant], fill: fill,
			measure: measure,
		})
	}
	one := func(n int) int { return n }
	members := func(n int) int { return n + 1 } // of a chord, with its callback
	both := func(n int) int { return 2 * n }
	for _, variant := range []string{onOneShard, onTwoShards} {
		add("W13-chord", variant, fillShards(insertChord, members), drainShards(members))
		add("W13-pairs", variant, fillShards(insertPairs(stintAction), both), drainShards(both))
		add("W13-edge", variant, fillShards(insertPairs(dependentAction), both), timeEdges)
	}
	for _, variant := range []string{onOneShard, onTwoShards, onTwoServers} {
		add(splitWorkload, variant, fillShards(insertSplit, one), drainShards(one))
	}
	return entries
}

// splitWorkload is the one of W13 in which no task waits for another.
const splitWorkload = "W13-split"

// dependentAction is that of the second task of a pair where the first one is owned apart from it.
const dependentAction = "dependent"

// shardAt is the name of a shard: of the first one, or of the other, which is the same one where
// there is only one.
func (r *run) shardAt(other bool) string {
	if other && r.Second != "" {
		return "2"
	}
	return "1"
}

func (r *run) shardNames() []string {
	if r.Second == "" {
		return []string{"1"}
	}
	return []string{"1", "2"}
}

// newCluster returns a cluster of the shards of the job, with stores of its own.
func (r *run) newCluster() (*shards.Cluster, error) {
	const connections = 20
	urls := map[string]string{r.shardAt(false): r.URL}
	if r.Second != "" {
		urls[r.shardAt(true)] = r.Second
	}
	topology, err := shards.Static(urls)
	if err != nil {
		return nil, err
	}
	return shards.New(topology, shards.Options{
		Connect: func(ctx context.Context, _, url string) (shards.Store, error) {
			pool, err := r.poolAt(ctx, url, connections)
			if err != nil {
				return nil, err
			}
			return stint.New(pool, stint.Options{})
		},
	})
}

// withRelay calls work with a cluster. If tasks of two shards wait for each other, another cluster
// is a relay, as in another process, until nothing is left to do on any shard.
func (r *run) withRelay(
	ctx context.Context, work func(c *shards.Cluster) error,
	settled func(ctx context.Context, store lister) error,
) error {
	c, err := r.newCluster()
	if err != nil {
		return err
	}
	relay, err := r.newCluster()
	if err != nil {
		return err
	}
	live, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		if r.Second == "" || r.Workload == splitWorkload {
			ended <- nil
			return
		}
		ended <- relay.Run(live)
	}()
	err = work(c)
	for _, shard := range r.shardNames() {
		if err == nil {
			err = awaitSettled(ctx, c, shard, settled)
		}
	}
	stop()
	return errors.Join(err, <-ended, relay.Close(ctx), c.Close(ctx))
}

// awaitSettled waits until a shard is settled, but not for ever.
func awaitSettled(
	ctx context.Context, c *shards.Cluster, shard string,
	settled func(ctx context.Context, store lister) error,
) error {
	const patience, pause = 30 * time.Second, 20 * time.Millisecond
	store, err := c.Store(ctx, shard)
	if err != nil {
		return err
	}
	for begun := now(); ; <-time.After(pause) {
		err := settled(ctx, store)
		if err == nil || ctx.Err() != nil || time.Since(begun) > patience {
			return err
		}
	}
}

// fillShards inserts, and tells how long that took and how much WAL it wrote for each task: with
// what relays do until the insert is through on all shards.
func fillShards(
	insert func(ctx context.Context, r *run, c *shards.Cluster) error, all func(n int) int,
) func(ctx context.Context, r *run) error {
	return func(ctx context.Context, r *run) error {
		before, err := r.readMeter(ctx)
		if err != nil {
			return err
		}
		err = r.withRelay(ctx, func(c *shards.Cluster) error {
			begun := now()
			err := insert(ctx, r, c)
			r.set(figureInsert, time.Since(begun).Seconds())
			return err
		}, decided)
		after, failed := r.readMeter(ctx)
		r.set(figureInsertWAL, float64(after.wal-before.wal)/float64(all(r.Tasks)))
		return errors.Join(err, failed)
	}
}

// decided makes sure that no insert over several shards is still under way.
func decided(ctx context.Context, store lister) error {
	left, err := store.ListTasks(ctx, stint.Filter{
		Actions: []string{"stint.Guard", "stint.Decision"},
		States:  []stint.State{stint.StateReady, stint.StateScheduled, stint.StateInProgress},
	})
	if err == nil && len(left.Tasks) > 0 {
		err = fmt.Errorf("task %s is %s", left.Tasks[0].ID, left.Tasks[0].State)
	}
	return err
}

// insertChord inserts a group that ends in one join, and on the other shard a task that waits for
// it.
func insertChord(ctx context.Context, r *run, c *shards.Cluster) error {
	group, err := structures.Build("chord", structures.Map(
		stintTasks(0, r.Tasks, r.BodyBytes),
		func(task stint.Task) structures.Task { return structures.Task(task) }))
	if err != nil {
		return err
	}
	tasks := make([]shards.Task, len(group.Tasks), len(group.Tasks)+1)
	for i, task := range group.Tasks {
		tasks[i] = shards.Task{Shard: r.shardAt(false), Task: task}
	}
	return c.InsertTasks(ctx, append(tasks, shards.Task{
		Shard: r.shardAt(true), Task: stint.Task{ID: "callback", Action: stintAction},
		After: []shards.ID{{Shard: r.shardAt(false), Task: group.End}},
	}))
}

// insertPairs inserts pairs of tasks. The second one waits for the first, on the other shard.
func insertPairs(action string) func(ctx context.Context, r *run, c *shards.Cluster) error {
	return func(ctx context.Context, r *run, c *shards.Cluster) error {
		return inBatches(ctx, inserters, r.Tasks, r.insertBatch()/2,
			func(ctx context.Context, from, to int) error {
				var tasks []shards.Task
				stored := stintTasks(2*from, 2*to, r.BodyBytes)
				for i := 0; i < len(stored); i += 2 {
					first, second := stored[i], stored[i+1]
					second.Action = action
					tasks = append(tasks, shards.Task{Shard: r.shardAt(false), Task: first},
						shards.Task{
							Shard: r.shardAt(true), Task: second,
							After: []shards.ID{{Shard: r.shardAt(false), Task: first.ID}},
						})
				}
				return c.InsertTasks(ctx, tasks)
			})
	}
}

// insertSplit inserts tasks that wait for nothing, every second one on the other shard.
func insertSplit(ctx context.Context, r *run, c *shards.Cluster) error {
	return inBatches(ctx, inserters, r.Tasks, r.insertBatch(),
		func(ctx context.Context, from, to int) error {
			stored := stintTasks(from, to, r.BodyBytes)
			parts := map[string][]shards.Task{}
			for i, task := range stored {
				shard := r.shardAt(i%2 > 0)
				parts[shard] = append(parts[shard], shards.Task{Shard: shard, Task: task})
			}
			for _, part := range parts {
				if err := c.InsertTasks(ctx, part); err != nil {
					return err
				}
			}
			return nil
		})
}

// drainShards owns and completes all tasks, from the first fetch to the last return. There are
// as many workers as with one shard, an equal share of them for each.
func drainShards(all func(n int) int) func(ctx context.Context, r *run) error {
	return func(ctx context.Context, r *run) error {
		return r.withRelay(ctx, func(c *shards.Cluster) error {
			return r.measure(ctx, func(ctx context.Context) (int, error) {
				return completeShards(ctx, r, c, all(r.Tasks))
			})
		}, func(ctx context.Context, store lister) error { return checkStint(ctx, r, store) })
	}
}

func completeShards(
	ctx context.Context, r *run, c *shards.Cluster, all int,
) (int, error) {
	live, stop := context.WithCancel(ctx)
	defer stop()
	var done atomic.Int64
	names := r.shardNames()
	err := inParallel(ctx, drainers, func(ctx context.Context, goroutine int) error {
		context.AfterFunc(ctx, stop)
		store, err := c.Store(ctx, names[goroutine%len(names)])
		if err != nil {
			return err
		}
		d := drainer{actor: workerName(goroutine), batch: r.drainBatch()}
		return d.drainWhile(ctx, live, store, func(tasks int) {
			if done.Add(int64(tasks)) >= int64(all) {
				stop()
			}
		})
	})
	return int(done.Load()), err
}

// timeEdges returns the first task of a pair at each beat, unless the second one of the pair before
// has not been fetched yet, and tells the time from the call of the return until the second one
// is fetched, to a worker that has a store of its own.
func timeEdges(ctx context.Context, r *run) error {
	listening, err := r.newCluster()
	if err != nil {
		return err
	}
	last, err := listening.Store(ctx, r.shardAt(true))
	if err != nil {
		return err
	}
	took := make([]float64, 0, r.Tasks)
	err = r.withRelay(ctx, func(c *shards.Cluster) error {
		first, err := c.Store(ctx, r.shardAt(false))
		if err != nil {
			return err
		}
		return r.measure(ctx, func(ctx context.Context) (int, error) {
			beat := time.NewTicker(latencyPace)
			defer beat.Stop()
			for range r.Tasks {
				<-beat.C
				one, err := timeEdge(ctx, first, last)
				if err != nil {
					return 0, err
				}
				took = append(took, one)
			}
			return r.Tasks, nil
		})
	}, func(ctx context.Context, store lister) error { return checkStint(ctx, r, store) })
	from := min(latencyWarmUp, len(took)/2)
	r.set(figureP50, percentile(took[from:], 0.50))
	r.set(figureP99, percentile(took[from:], 0.99))
	return errors.Join(err, listening.Close(ctx))
}

// timeEdge owns and returns the first task of a pair, and then the second.
func timeEdge(ctx context.Context, first, last shards.Store) (millisTaken float64, err error) {
	owned, err := first.OwnTasks(ctx, "actor", 1, []string{stintAction}, time.Minute)
	if err != nil || len(owned) != 1 {
		return 0, fmt.Errorf("owned %d tasks: %w", len(owned), err)
	}
	var begun, handed time.Time
	err = inParallel(ctx, 2, func(ctx context.Context, goroutine int) error {
		if goroutine == 0 {
			next, err := last.WaitToOwnTasks(
				ctx, "listener", 1, []string{dependentAction}, time.Minute)
			handed = now()
			if err != nil {
				return err
			}
			return returnAll(ctx, last, next)
		}
		const untilHeard = latencyPace / 4 // the other one looks once before it waits
		<-time.After(untilHeard)
		begun = now()
		return returnAll(ctx, first, owned)
	})
	return millis(handed.Sub(begun)), err
}
