//go:build linux

package faults

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func clockFaults() []Fault {
	return []Fault{
		{
			Name: "server-clock", Do: jumpServer, Jumps: true, Needs: []string{"cc"},
			Text: "the clock of the server jumps, forth and back, by seconds or an hour",
		},
		{
			Name: "worker-clock", Do: jumpWorkers, Needs: []string{"cc"},
			Text: "the clocks of workers in Python and TypeScript jump by an hour",
		},
	}
}

// A fakeClock is the time of day of programs that are started with it.
type fakeClock struct {
	*preload
	offset *os.File
}

func newFakeClock(ctx context.Context, s *system.System) (*fakeClock, error) {
	library, err := newPreload(ctx, s, "clock")
	if err != nil {
		return nil, err
	}
	offset, err := os.Create(filepath.Join(library.dir, "offset"))
	if err != nil {
		return nil, errors.Join(err, library.remove())
	}
	c := &fakeClock{preload: library, offset: offset}
	// The server runs as somebody else.
	return c, errors.Join(offset.Chmod(0o644), c.jump(0))
}

// jump makes the clock be off by so much.
func (c *fakeClock) jump(by time.Duration) error {
	//nolint:gosec // the other program takes it for signed again
	seconds := binary.NativeEndian.AppendUint64(nil, uint64(int64(by.Seconds())))
	_, err := c.offset.WriteAt(seconds, 0)
	return err
}

// variable tells programs where to look.
func (c *fakeClock) variable() string { return "CLOCK_OFFSET=" + c.offset.Name() }

func (c *fakeClock) remove() error { return errors.Join(c.offset.Close(), c.preload.remove()) }

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

func jumpServer(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
) (err error) {
	clock, err := newFakeClock(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clock.remove()) }()
	return clock.inServer(ctx, s, func(ctx context.Context) error {
		return errors.Join(clock.jumps(ctx, r, d), clock.jump(0))
	}, clock.variable())
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
	clock, err := newFakeClock(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clock.remove()) }()
	for _, p := range processes {
		before := p.Env
		defer heal(ctx, &err, func(ctx context.Context) error {
			p.Env = before
			return p.Restart(ctx)
		})
		p.Env = clock.environment(before, clock.variable())
		if err := p.Restart(ctx); err != nil {
			return err
		}
	}
	return errors.Join(clock.jumps(ctx, r, d), clock.jump(0))
}
