package command

import (
	"context"
	"errors"

	"github.com/stint-tasks/stint/shards"
)

// withTasks is withStore for what works across shards, too.
func (p *program) withTasks(
	ctx context.Context, work func(ctx context.Context, db *database) error,
) error {
	if p.topology == "" {
		return p.withStore(ctx, work)
	}
	return p.withShards(ctx, work)
}

// withShards calls work with the shards of the topology. If work found some of them away, that is
// the error, or part of it.
func (p *program) withShards(
	ctx context.Context, work func(ctx context.Context, db *database) error,
) (err error) {
	if err := p.checkPlace(); err != nil {
		return err
	}
	if p.remote.schemaGiven {
		return said(errInput, "--schema is for a database; the URL of a shard names its schema, "+
			"as in postgres://host/database?stint_schema=tasks")
	}
	topology, err := shards.ParseTopology(p.topology)
	if err != nil {
		return said(errInput, "invalid --topology or %s: %v", topologyVariable, err)
	}
	cluster, err := shards.New(topology, shards.Options{
		Connect: p.connectShard, Logger: p.storeOptions().Logger,
	})
	if err != nil {
		return err
	}
	db := &database{shards: newSharded(cluster)}
	defer func() { err = errors.Join(err, db.close(ctx)) }()
	return errors.Join(work(ctx, db), db.shards.takeAway())
}

// connectShard opens the store of a shard, of a database or a service.
func (p *program) connectShard(ctx context.Context, shard, url string) (shards.Store, error) {
	address, isService := serviceAt(url)
	if !isService {
		return shards.ConnectWith(p.storeOptions())(ctx, shard, url)
	}
	c, err := p.remote.newClient(address, p.storeOptions().Logger)
	if err != nil {
		return nil, err
	}
	return patient{c}, nil
}
