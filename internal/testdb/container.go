package testdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// containerImage can be any image that understands the environment of the official one.
const containerImage = "postgres:17-alpine"

func startContainer(ctx context.Context) (url string, stop func() error, err error) {
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
		return "", nil, fmt.Errorf("start container of %s: %w", containerImage, err)
	}
	stop = func() error { return testcontainers.TerminateContainer(container) }
	endpoint, err := container.PortEndpoint(ctx, port, "postgres")
	if err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return endpoint + "/postgres?user=postgres&sslmode=disable", stop, nil
}
