package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
)

const serverPort = "5432/tcp" // in the container

// startContainer starts a server with these settings, each NAME=VALUE, in a container of an image
// that understands the environment of the official one. It returns the address of the server, and
// what removes it.
func startContainer(
	ctx context.Context, image string, settings []string,
) (address string, stop func() error, err error) {
	if err := findDocker(ctx); err != nil {
		return "", nil, fmt.Errorf("no Docker answers: start it, let DOCKER_HOST name it, or "+
			"unset STINT_TEST_CONTAINER: %w", err)
	}
	password := uuid.NewString()
	args := []string{"postgres"}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	container, err := testcontainers.Run(ctx, image,
		testcontainers.WithExposedPorts(serverPort),
		testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD": password}),
		testcontainers.WithCmd(args...))
	stop = func() error { return testcontainers.TerminateContainer(container) }
	if err == nil {
		address, err = awaitServer(ctx, container, url.UserPassword("postgres", password))
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("start a container of %s: %w", image, err), stop())
	}
	return address, stop, nil
}

// findDocker says whether a daemon answers. Where there is none, the client panics.
func findDocker(ctx context.Context) (err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("%v", found)
		}
	}()
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return err
	}
	return errors.Join(provider.Health(ctx), provider.Close())
}

// awaitServer waits until the server in a container answers, and returns its address. If the
// container ends before, or it takes too long, the error has the end of what it said.
func awaitServer(
	ctx context.Context, container testcontainers.Container, user *url.Userinfo,
) (address string, err error) {
	const (
		patience = time.Minute
		pause    = 100 * time.Millisecond
	)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		address, err := answers(ctx, container, user)
		if err == nil {
			return address, nil
		}
		state, stateErr := container.State(ctx)
		if ctx.Err() != nil || stateErr != nil || !state.Running {
			return "", fmt.Errorf("%w; the container said:\n%s", err,
				saidBy(context.WithoutCancel(ctx), container))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// answers returns the address of the server in a container, if the server answers.
func answers(
	ctx context.Context, container testcontainers.Container, user *url.Userinfo,
) (address string, err error) {
	endpoint, err := container.PortEndpoint(ctx, serverPort, "")
	if err != nil {
		return "", err
	}
	server := url.URL{
		Scheme: "postgres", User: user, Host: endpoint, Path: "/postgres",
		RawQuery: "sslmode=disable",
	}
	conn, err := pgx.Connect(ctx, server.String())
	if err != nil {
		return "", err
	}
	return server.String(), conn.Close(ctx)
}

// saidBy returns the end of what a container said.
func saidBy(ctx context.Context, container testcontainers.Container) []byte {
	const (
		patience = 10 * time.Second
		end      = 2000
	)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	output, err := container.Logs(ctx)
	if err != nil {
		return []byte(err.Error())
	}
	defer output.Close() //nolint:errcheck // it was read
	said, _ := io.ReadAll(output)
	return said[max(0, len(said)-end):]
}
