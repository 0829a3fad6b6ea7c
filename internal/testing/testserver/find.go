package testserver

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stint-tasks/stint/internal/localpg"
)

// find returns the server named by STINT_TEST_DATABASE_URL, whose role must be allowed to create
// databases; or else starts one in a container of the image that STINT_TEST_CONTAINER names; or
// else a private one with the PostgreSQL programs on this machine, or with downloaded ones if there
// are none.
func (s *Server) find(ctx context.Context) (*found, error) {
	if url := os.Getenv("STINT_TEST_DATABASE_URL"); url != "" {
		return &found{url: url, stop: func() error { return nil }}, nil
	}
	if image := os.Getenv("STINT_TEST_CONTAINER"); image != "" && s.Container != nil {
		url, stop, err := s.Container(ctx, image, settings())
		if err != nil {
			return nil, fmt.Errorf("STINT_TEST_CONTAINER=%s: %w", image, err)
		}
		return &found{url: url, stop: stop}, nil
	}
	local, err := s.startLocal(ctx)
	if err != nil {
		return nil, fmt.Errorf("no database to test with: install PostgreSQL (Debian: apt-get "+
			"install postgresql, macOS: brew install postgresql), or set STINT_TEST_DATABASE_URL "+
			"to a server whose role may create databases: %w", err)
	}
	return &found{url: local.URL("postgres"), stop: local.Close}, nil
}

// startLocal starts a private server, or joins that of the run. Where there can be none for the
// run, the binary has one of its own, whose error says more.
func (s *Server) startLocal(ctx context.Context) (*localpg.Server, error) {
	if run := runOf(); s.OfRun && run != 0 && testing.Short() && !benchmarking() {
		if server, err := startOfRun(ctx, run); err == nil {
			return server, nil
		}
	}
	return localpg.Start(ctx, localpg.Config{Settings: settings(), Announce: localpg.Stderr})
}

// settings are those of a server that the tests start.
func settings() map[string]string {
	if benchmarking() {
		// Durable, as in production, and without checkpoints in the middle of a measurement.
		return map[string]string{
			"max_connections": "300",
			"shared_buffers":  "2GB",
			"max_wal_size":    "8GB",
		}
	}
	return map[string]string{
		"max_connections": "300",
		// Nothing here outlives the tests, so nothing needs to reach the disk.
		"fsync":              "off",
		"synchronous_commit": "off",
		"full_page_writes":   "off",
		// A fifth of the time otherwise: each test ends with a check of its store, which would
		// begin workers for tables of a few rows, and queries of tests would be compiled.
		// Statements of verbs turn jit off themselves.
		"max_parallel_workers_per_gather": "0",
		"jit":                             "off",
	}
}

// benchmarking reports whether the binary was asked for benchmarks, which want a durable server.
func benchmarking() bool {
	bench := flag.Lookup("test.bench")
	return bench != nil && bench.Value.String() != ""
}
