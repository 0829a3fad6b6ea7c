package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint/internal/localpg"
)

// keeper names the directory of the server that a process keeps until its run ends.
const keeper = "STINT_TEST_KEEPER"

// prefix is that of temporary servers, so that a later one removes what a killed run leaves behind.
const prefix = "stint-postgres-run-"

// The server of a run must outlive the binary that starts it, and end with the command go. No
// process of a run does: so a binary starts itself once more, to do that and nothing else.
//
//nolint:gochecknoinits // before a TestMain prepares anything
func init() {
	if dir := os.Getenv(keeper); dir != "" {
		if err := keep(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// startOfRun starts or joins the server that all test binaries of a run of go test share. To make
// one takes a second of a processor, which many packages need for nothing else.
func startOfRun(ctx context.Context, run int) (*localpg.Server, error) {
	dir := filepath.Join(os.TempDir(), prefix+strconv.Itoa(run))
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	first := err == nil
	server, err := start(ctx, dir)
	if err != nil || !first {
		return server, err
	}
	if err := startKeeper(ctx, dir); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

func start(ctx context.Context, dir string) (*localpg.Server, error) {
	shared := settings()
	shared["max_connections"] = "1000" // a large machine tests many packages at once
	return localpg.Start(ctx, localpg.Config{
		Dir: dir, Temporary: true, Settings: shared, Announce: localpg.Stderr,
	})
}

// startKeeper starts a process that uses the server until the command go has ended.
func startKeeper(ctx context.Context, dir string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	//nolint:gosec // this program
	process := exec.CommandContext(context.WithoutCancel(ctx), program)
	process.Env = append(os.Environ(), keeper+"="+dir)
	detach(process) // Ctrl-C is for the tests
	if err := process.Start(); err != nil {
		return err
	}
	return process.Process.Release()
}

// keep uses the server of a run until the run has ended.
func keep(ctx context.Context, dir string) error {
	const pause = 100 * time.Millisecond
	run, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), prefix))
	if err != nil {
		return err
	}
	began := commandLine(run)
	server, err := start(ctx, dir)
	if err != nil {
		return err
	}
	for tick := time.Tick(pause); began != "" && commandLine(run) == began; {
		<-tick
	}
	return server.Close()
}
