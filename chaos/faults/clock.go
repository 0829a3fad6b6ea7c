//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func clockFaults() []Fault {
	return []Fault{
		{
			Name: "server-clock", Do: jumpServer, Jumps: true,
			Text: "the clock of the server jumps, forth and back, by seconds or an hour",
		},
		{
			Name: "worker-clock", Do: jumpWorkers,
			Text: "the clocks of workers in Python and TypeScript jump by an hour",
		},
	}
}

// A fakeClock makes the clock of programs jump: what changes is the time of day alone. Programs in
// Go ask the kernel without a library, and cannot be lied to so.
type fakeClock struct{ library, file string }

func newFakeClock(dir string) (*fakeClock, error) {
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(found) == 0 {
		return nil, notHere("there is no libfaketime: apt-get install libfaketime")
	}
	of, err := os.MkdirTemp(dir, "clock-")
	if err != nil {
		return nil, err
	}
	c := &fakeClock{library: found[0], file: filepath.Join(of, "offset")}
	//nolint:gosec // the server runs as somebody else
	return c, errors.Join(os.Chmod(of, 0o755), c.jump(0))
}

// environment is that of programs whose clock it is.
func (c *fakeClock) environment() []string {
	return []string{
		"LD_PRELOAD=" + c.library, "FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
	}
}

// jump makes the clock be off by so much. Its readers see the old time or the new one.
func (c *fakeClock) jump(by time.Duration) error {
	next := c.file + ".next"
	text := fmt.Appendf(nil, "%+d\n", int64(by.Seconds()))
	if err := os.WriteFile(next, text, 0o644); err != nil { //nolint:gosec // as above
		return err
	}
	return os.Rename(next, c.file)
}

func (c *fakeClock) remove() error { return os.RemoveAll(filepath.Dir(c.file)) }

// jumps are what happens to a clock in a time.
func (c *fakeClock) jumps(ctx context.Context, r *rand.Rand, d time.Duration) error {
	const often = 3
	for range often {
		by := []time.Duration{10 * time.Second, time.Hour}[r.IntN(2)]
		if r.IntN(2) == 0 {
			by = -by
		}
		if err := c.jump(by); err != nil {
			return err
		}
		pause(ctx, d/often)
	}
	return nil
}

// jumpServer restarts the server before and afterwards: it has to be started with the library.
func jumpServer(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
) (err error) {
	clock, err := newFakeClock(s.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clock.remove()) }()
	before := slices.Clone(s.Server.Env)
	defer heal(ctx, &err, func(ctx context.Context) error {
		s.Server.Env = before
		return errors.Join(clock.jump(0), s.Server.Restart(ctx))
	})
	s.Server.Env = append(slices.Clone(before), clock.environment()...)
	if err := s.Server.Restart(ctx); err != nil {
		return err
	}
	return clock.jumps(ctx, r, d)
}

func jumpWorkers(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
) (err error) {
	processes, err := those(s, r, func(p *system.Process) bool {
		return p.Kind == "python" || p.Kind == "typescript"
	})
	if err != nil {
		return err
	}
	clock, err := newFakeClock(s.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clock.remove()) }()
	for _, p := range processes {
		before := slices.Clone(p.Env)
		defer heal(ctx, &err, func(ctx context.Context) error {
			p.Env = before
			return p.Restart(ctx)
		})
		p.Env = append(slices.Clone(before), clock.environment()...)
		if err := p.Restart(ctx); err != nil {
			return err
		}
	}
	return clock.jumps(ctx, r, d)
}
