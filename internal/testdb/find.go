package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/stint-tasks/stint/internal/localpg"
)

// find returns the first server that is to be had.
func find(ctx context.Context) (*server, error) {
	if url := os.Getenv("STINT_TEST_DATABASE_URL"); url != "" {
		return &server{url: url, stop: func() error { return nil }}, nil
	}
	if os.Getenv("STINT_TEST_CONTAINER") != "" {
		return startContainer(ctx)
	}
	local, localErr := startLocal(ctx)
	if localErr == nil {
		return local, nil
	}
	container, containerErr := startContainer(ctx)
	if containerErr == nil {
		return container, nil
	}
	return nil, fmt.Errorf("no database to test with: install PostgreSQL (Debian: apt-get install "+
		"postgresql, macOS: brew install postgresql), or start Docker, or set "+
		"STINT_TEST_DATABASE_URL to a server whose role may create databases: %w",
		errors.Join(localErr, containerErr))
}

func startLocal(ctx context.Context) (*server, error) {
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
	return &server{url: local.URL("postgres"), stop: local.Close}, nil
}

// containerImage can be any image that understands the environment of the official one.
const containerImage = "postgres:17-alpine"

func startContainer(ctx context.Context) (*server, error) {
	const port = "5432/tcp"
	container, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        containerImage,
			ExposedPorts: []string{port},
			Env:          map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"},
			Cmd: []string{
				"postgres", "-c", "fsync=off", "-c", "max_connections=300",
			},
			// The first start is the one that initdb's scripts run against.
			WaitingFor: wait.ForLog("database system is ready to accept connections").
				WithOccurrence(2),
		},
		Started: true,
	})
	if err != nil {
		return nil, fmt.Errorf("start container of %s: %w", containerImage, err)
	}
	stop := func() error { return testcontainers.TerminateContainer(container) }
	endpoint, err := container.PortEndpoint(ctx, port, "postgres")
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return &server{url: endpoint + "/postgres?user=postgres&sslmode=disable", stop: stop}, nil
}
