//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func durabilityFaults() []Fault {
	return []Fault{
		{
			Name: "asynchronous-crash", Do: crashAsynchronous, Loses: true,
			Text: "commits do not wait for the disk, and all processes of the server are killed",
		},
		{
			Name: "slow-flush", Do: slowFlush, Needs: []string{"cc"},
			Text: "each flush of the disk takes up to a fifth of a second",
		},
	}
}

func crashAsynchronous(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	late := settings{
		"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB",
	}
	return withSettings(ctx, s, false, late, func(ctx context.Context) error {
		return repeat(ctx, r, d, 0, time.Second, func() (err error) {
			pause(ctx, between(r, time.Second, 3*time.Second))
			defer heal(ctx, &err, s.Server.Start)
			return s.Server.Kill()
		})
	})
}

func slowFlush(ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration) (err error) {
	library, err := newPreload(ctx, s, "slowflush")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, library.remove()) }()
	return library.inServer(ctx, s, func(ctx context.Context) error {
		pause(ctx, d)
		return nil
	})
}
