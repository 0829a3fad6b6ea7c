package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/shards"
)

// topologyVariable names the variable of the environment that stands for --topology.
const topologyVariable = "STINT_TOPOLOGY"

// checkTopology refuses a topology besides another place to work on. The flag of the same name of
// serve is another one.
func (p *program) checkTopology(cmd *cobra.Command) error {
	switch {
	case !cmd.Root().PersistentFlags().Changed("topology"):
		return nil
	case p.topology == "":
		return errors.New("--topology is empty; leave it out to work on one database or service")
	case p.databaseURL != "":
		return errors.New("--topology and --database-url name two places to work on: give one")
	case p.remote.address != "":
		return errors.New("--topology and --server name two places to work on: give one")
	}
	return nil
}

// refuseTopology is the error of what works on one database or service.
func (p *program) refuseTopology() error {
	if err := p.checkPlace(); err != nil {
		return err
	}
	return said(errInput, "this works on one database or service, not across shards: instead of "+
		"--topology or %s, use --database-url with the URL of a shard", topologyVariable)
}

// checkPlace refuses an environment that names two places to work on, of which one is a topology.
func (p *program) checkPlace() error {
	other := ""
	switch {
	case p.databaseURL != "": // one flag alone would have won
		other = urlVariable
	case p.remote.address != "":
		other = serverVariable
	default:
		return nil
	}
	return said(errInput, "%s and %s are both set: unset one of them, or give --topology, "+
		"--server or --database-url", topologyVariable, other)
}

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
	c, err := p.newClient(address, p.storeOptions().Logger)
	if err != nil {
		return nil, err
	}
	return patient{c}, nil
}

// name names the shards, for people.
func (s *sharded) name() string {
	names := s.Cluster().Topology().Names()
	if len(names) == 0 {
		return "the shards of a pattern"
	}
	return fmt.Sprintf("the shards %s", strings.Join(names, ", "))
}
