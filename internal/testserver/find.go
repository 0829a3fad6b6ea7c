package testserver

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/stint-tasks/stint/internal/localpg"
)

// find returns the server named by STINT_TEST_DATABASE_URL, whose role must be allowed to create
// databases; or else starts a private one with the PostgreSQL programs on this machine, or with
// downloaded ones if there are none.
func find(ctx context.Context) (*found, error) {
	if url := os.Getenv("STINT_TEST_DATABASE_URL"); url != "" {
		return &found{url: url, stop: func() error { return nil }}, nil
	}
	local, err := startLocal(ctx)
	if err != nil {
		return nil, fmt.Errorf("no database to test with: install PostgreSQL (Debian: apt-get "+
			"install postgresql, macOS: brew install postgresql), or set STINT_TEST_DATABASE_URL "+
			"to a server whose role may create databases: %w", err)
	}
	return local, nil
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

// benchmarking reports whether the binary was asked for benchmarks, which want a durable server.
func benchmarking() bool {
	bench := flag.Lookup("test.bench")
	return bench != nil && bench.Value.String() != ""
}
