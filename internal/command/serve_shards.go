package command

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/shards"
)

// A shardSetup holds the flags of serve that make its store a shard.
type shardSetup struct {
	shard, topology, tokenFile string
	parsed                     shards.Topology
}

func (s *shardSetup) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.shard, "shard", "", "the store is the shard of this `name`")
	flags.StringVar(&s.topology, "topology", "",
		"where the shards are: static:1=`URL`,2=URL or pattern:URL with {shard} in it")
	flags.StringVar(&s.tokenFile, "peer-token-file", "",
		"send the token in this `file` to the services of other shards")
	cobra.CheckErr(cmd.MarkFlagFilename("peer-token-file"))
}

func (s *shardSetup) given() bool { return s.topology != "" }

func (s *shardSetup) check() (err error) {
	switch {
	case (s.shard == "") != (s.topology == ""):
		return said(errInput, "--shard and --topology belong together")
	case s.tokenFile != "" && !s.given():
		return said(errInput, "--peer-token-file needs --topology")
	case !s.given():
		return nil
	}
	if s.parsed, err = shards.ParseTopology(s.topology); err == nil {
		_, err = s.parsed.URL(s.shard)
	}
	if err != nil {
		return said(errInput, "%v", err)
	}
	return nil
}

// open returns the cluster in which a store is the shard.
func (s *shardSetup) open(own *stint.Store, logger *slog.Logger) (*shards.Cluster, error) {
	return shards.New(s.parsed, shards.Options{
		Logger: logger,
		Connect: func(ctx context.Context, shard, url string) (shards.Store, error) {
			if shard == s.shard {
				return ownShard{own}, nil
			}
			address, isService := serviceAt(url)
			if !isService {
				return shards.Connect(ctx, shard, url)
			}
			return client.New(address, client.Options{TokenFile: s.tokenFile, Logger: logger})
		},
	})
}

// serviceAt returns the address of a service that a topology names, or false for a database.
func serviceAt(url string) (address string, ok bool) {
	switch {
	case strings.HasPrefix(url, "postgres"):
		return "", false
	case !strings.Contains(url, "://"): // host:port, as enq has it
		url = "http://" + url
	}
	return url, true
}

// ownShard is the store of the service, which the service closes.
type ownShard struct{ *stint.Store }

// Close does nothing.
func (ownShard) Close(context.Context) error { return nil }

// relay runs a cluster until stop is called.
func relay(ctx context.Context, cluster *shards.Cluster) (stop func(context.Context) error) {
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- cluster.Run(running) }()
	return func(ctx context.Context) error {
		cancel()
		return errors.Join(<-ended, cluster.Close(ctx))
	}
}
