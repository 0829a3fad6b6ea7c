package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/shards"
)

// ShardSchema is the schema of the shard that is in the database of the other tasks.
const ShardSchema = "stint_shard"

// The shards: one beside the other tasks, one on a server of its own.
const (
	hereShard  = "here"
	thereShard = "there"
)

// Cluster returns the two shards: in the schema [ShardSchema] of the database here, and in that
// there.
func Cluster(here, there string, logger *slog.Logger) (*shards.Cluster, error) {
	address, err := url.Parse(here)
	if err != nil {
		return nil, err
	}
	query := address.Query()
	query.Set("stint_schema", ShardSchema)
	const conns = "8"
	query.Set("pool_max_conns", conns)
	address.RawQuery = query.Encode()
	topology, err := shards.Static(map[string]string{
		hereShard: address.String(), thereShard: there + "&pool_max_conns=" + conns,
	})
	if err != nil {
		return nil, err
	}
	const decideWithin = 5 * time.Second
	return shards.New(topology, shards.Options{DecideWithin: decideWithin, Logger: logger})
}

// shard inserts networks over two shards, performs them, and relays ends from one to the other.
func (p *process) shard(ctx context.Context) error {
	cluster, err := Cluster(p.URL, p.Shard, p.logger)
	if err != nil {
		return err
	}
	s := &sharder{p, cluster}
	failed := make(chan error, 1)
	p.all(ctx, []func(context.Context, *rand.Rand){
		s.insert, s.perform(hereShard), s.perform(thereShard),
		func(ctx context.Context, _ *rand.Rand) { failed <- cluster.Run(ctx) },
	})
	const most = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	err = <-failed
	_ = cluster.Close(ctx) // one that is away does not close
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// A sharder works on a cluster.
type sharder struct {
	*process
	cluster *shards.Cluster
}

// insert inserts small networks over the shards.
func (s *sharder) insert(ctx context.Context, r *rand.Rand) {
	const most = 8
	for Pause(ctx, time.Duration(r.IntN(300))*time.Millisecond) {
		if s.paces.Load() < 0 {
			continue
		}
		tasks := make([]shards.Task, 2+r.IntN(most))
		items := make([]Item, len(tasks))
		number := s.ids.Add(1)
		for i := range tasks {
			id := fmt.Sprintf("%d/%s.%d/%d/%d", s.Round, s.Name, s.Number, number, i)
			t := &tasks[i]
			t.Shard = []string{hereShard, thereShard}[r.IntN(2)]
			t.Task = stint.Task{ID: stint.TaskID(id), Action: plainAction, MaxTries: 3}
			if r.IntN(3) == 0 {
				t.Task.OnAbort = stint.RunAnyway
			}
			items[i] = Item{ID: t.Task.ID, Said: Waiting}
			for j := range i {
				if r.IntN(i+1) == 0 {
					before := shards.ID{Shard: tasks[j].Shard, Task: tasks[j].Task.ID}
					t.After = append(t.After, before)
				}
			}
		}
		_ = s.call(ctx, insertTasks, items, func(ctx context.Context) error {
			return s.cluster.InsertTasks(ctx, tasks)
		})
	}
}

// perform performs the tasks of a shard.
func (s *sharder) perform(shard string) func(context.Context, *rand.Rand) {
	return func(ctx context.Context, r *rand.Rand) {
		for ctx.Err() == nil {
			store, err := s.cluster.Store(ctx, shard)
			if err != nil {
				Pause(ctx, 100*time.Millisecond)
				continue
			}
			l := &loop{
				process: s.process, queue: recorder{store, s.journal, &s.tally},
				actions: []string{plainAction}, random: r,
				actor: stint.ActorID(fmt.Sprintf("%s.%d/%s", s.Name, s.Number, shard)),
			}
			l.run(ctx)
		}
	}
}
