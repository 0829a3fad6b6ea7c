package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A herd is processes of workers that are killed at random moments, and started again.
type herd struct {
	args   []string
	pause  time.Duration
	killed atomic.Int64
	stdout io.Writer
}

const herdSize = 3

func newHerd(opts options, databaseURL string, stdout io.Writer) *herd {
	return &herd{
		args: []string{
			"-workers-only", "-database-url", databaseURL, "-to", opts.to,
			"-branches", strconv.Itoa(opts.branches), "-lease", opts.lease.String(),
			"-workers", strconv.Itoa(max(opts.workers/herdSize, 1)),
		},
		pause: opts.kill, stdout: stdout,
	}
}

// work keeps the processes at work until ctx ends.
func (h *herd) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var members sync.WaitGroup
	for range herdSize {
		members.Go(func() {
			for ctx.Err() == nil {
				if err := h.life(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	members.Wait()
	fmt.Fprintf(h.stdout, "%d worker processes were killed\n", h.killed.Load())
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// life is that of one process. It ends with its standard input at the latest, so it does not
// outlive this process.
func (h *herd) life(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	// Not CommandContext: what is not killed on purpose is to end in order.
	worker := exec.Command(program, h.args...) //nolint:gosec // It is this program.
	worker.Stderr = os.Stderr
	input, err := worker.StdinPipe()
	if err != nil {
		return err
	}
	if err := worker.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Wait() }()
	select {
	case err := <-ended:
		return fmt.Errorf("a worker process ended by itself: %w", err)
	case <-time.After(rand.N(2 * herdSize * h.pause)): //nolint:gosec // no secret
		if err := worker.Process.Kill(); err != nil {
			return err
		}
		if err := <-ended; err == nil {
			return errors.New("a worker process ended by itself")
		}
		h.killed.Add(1)
		return nil
	case <-ctx.Done():
		_ = input.Close()
		return <-ended
	}
}

// untilEnd is a context that ends when nothing more can be read.
func untilEnd(ctx context.Context, input io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	return ctx, cancel
}
