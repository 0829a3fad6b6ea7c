package testserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/stint-tasks/stint/internal/localpg"
)

// find returns the first server that is to be had: the one named by STINT_TEST_DATABASE_URL, whose
// role must be allowed to create databases; else a private one, started from PostgreSQL programs on
// this machine; else a container.
func (s *Server) find(ctx context.Context) (*found, error) {
	if url := os.Getenv("STINT_TEST_DATABASE_URL"); url != "" {
		return &found{url: url, stop: func() error { return nil }}, nil
	}
	if s.Container != nil && os.Getenv("STINT_TEST_CONTAINER") != "" {
		return s.startContainer(ctx)
	}
	local, err := startLocal(ctx)
	if err == nil {
		return local, nil
	}
	advice := "install PostgreSQL (Debian: apt-get install postgresql, macOS: brew install " +
		"postgresql)"
	if s.Container != nil {
		container, containerErr := s.startContainer(ctx)
		if containerErr == nil {
			return container, nil
		}
		advice += ", or start Docker"
		err = errors.Join(err, containerErr)
	}
	return nil, fmt.Errorf("no database to test with: %s, or set STINT_TEST_DATABASE_URL to a "+
		"server whose role may create databases: %w", advice, err)
}

func startLocal(ctx context.Context) (*found, error) {
	settings := map[string]string{
		"max_connections": "300",
		// Nothing here outlives the tests, so nothing needs to reach the disk.
		"fsync":              "off",
		"synchronous_commit": "off",
		"full_page_writes":   "off",
	}
	if benchmarking() {
		// Durable, as in production, and without checkpoints in the middle of a measurement.
		settings = map[string]string{
			"max_connections": "300",
			"shared_buffers":  "2GB",
			"max_wal_size":    "8GB",
		}
	}
	local, err := localpg.Start(ctx, localpg.Config{Settings: settings})
	if err != nil {
		return nil, err
	}
	return &found{url: local.URL("postgres"), stop: local.Close}, nil
}

func (s *Server) startContainer(ctx context.Context) (*found, error) {
	url, stop, err := s.Container(ctx)
	if err != nil {
		return nil, err
	}
	return &found{url: url, stop: stop}, nil
}

// benchmarking reports whether the binary was asked for benchmarks, which want a durable server.
func benchmarking() bool {
	bench := flag.Lookup("test.bench")
	return bench != nil && bench.Value.String() != ""
}
