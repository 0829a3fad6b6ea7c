package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/shards"
)

// A shardSetup holds the flags of serve that make its store a shard.
type shardSetup struct {
	shard, topology                 string
	tokenFile, authority, cert, key string
	parsed                          shards.Topology
	tls                             *tls.Config // of calls to services of other shards
}

func (s *shardSetup) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.shard, "shard", "", "the store is the shard of this `name`")
	flags.StringVar(&s.topology, "topology", "",
		"where the shards are: static:1=`URL`,2=URL, pattern:URL with {shard} in it, or file:PATH "+
			"with a line like 1=URL for each")
	flags.StringVar(&s.tokenFile, "peer-token-file", "",
		"send the token in this `file` to the services of other shards")
	flags.StringVar(&s.authority, "peer-ca", "",
		"trust only the authorities in this PEM `file` to sign their certificates (default: the "+
			"system's)")
	flags.StringVar(&s.cert, "peer-cert", "", "show them the certificate in this PEM `file`")
	flags.StringVar(&s.key, "peer-key", "", "the certificate's key, a PEM `file`")
	for _, name := range s.files() {
		cobra.CheckErr(cmd.MarkFlagFilename(name.flag))
	}
}

// files are those that services of other shards are called with.
func (s *shardSetup) files() []namedFile {
	return []namedFile{
		{"peer-token-file", s.tokenFile},
		{"peer-ca", s.authority},
		{"peer-cert", s.cert},
		{"peer-key", s.key},
	}
}

func (s *shardSetup) given() bool { return s.topology != "" }

func (s *shardSetup) check() (err error) {
	if (s.shard == "") != (s.topology == "") {
		return said(errInput, "--shard and --topology belong together")
	}
	for _, file := range s.files() {
		if file.path != "" && !s.given() {
			return said(errInput, "--%s needs --topology", file.flag)
		}
	}
	switch {
	case (s.cert == "") != (s.key == ""):
		return said(errInput, "--peer-cert and --peer-key belong together")
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
			if address, isService := serviceAt(url); isService {
				return s.call(address, logger)
			}
			return shards.Connect(ctx, shard, url)
		},
	})
}

// openFiles reads the files that services of other shards are called with.
func (s *shardSetup) openFiles(logger *slog.Logger) (err error) {
	if s.tokenFile != "" {
		text, err := os.ReadFile(s.tokenFile)
		switch {
		case err != nil:
			return said(errInput, "--peer-token-file: %v", err)
		case len(bytes.TrimSpace(text)) == 0:
			return said(errInput, "--peer-token-file: %s is empty", s.tokenFile)
		}
	}
	s.tls, err = callerTLS(logger, namedFile{"peer-ca", s.authority},
		namedFile{"peer-cert", s.cert}, namedFile{"peer-key", s.key})
	return err
}

// checkURLs refuses URLs of services that cannot be called, or must not be shown the token.
func (s *shardSetup) checkURLs(ctx context.Context, logger *slog.Logger) error {
	names := s.parsed.Names()
	if len(names) == 0 { // a pattern, in which all are alike
		names = []string{s.shard}
	}
	for _, shard := range names {
		url, err := s.parsed.URL(shard)
		address, isService := serviceAt(url)
		if err != nil || !isService || shard == s.shard && len(names) > 1 {
			continue
		}
		c, err := s.call(address, logger)
		var refused *stint.ArgumentError
		switch {
		case errors.As(err, &refused) && refused.Argument == "Options.Token":
			return said(errInput, "--topology: shard %s: the token of --peer-token-file %s", shard,
				refused.Problem)
		case err != nil:
			return said(errInput, "--topology: shard %s: %v", shard, err)
		}
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// call returns a client of the service of another shard.
func (s *shardSetup) call(address string, logger *slog.Logger) (*client.Client, error) {
	options := client.Options{TokenFile: s.tokenFile, Logger: logger}
	if strings.HasPrefix(address, "https:") {
		options.TLS = s.tls
	}
	return client.New(address, options)
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
