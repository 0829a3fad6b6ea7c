//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func serverFaults() []Fault {
	return []Fault{
		{
			Name: "restart-server", Do: restartServer,
			Text: "the server is stopped in order and started again, every few seconds",
		},
		{
			Name: "crash-server", Do: crashServer,
			Text: "the server is stopped on the spot and recovers, every few seconds",
		},
		{
			Name: "kill-server", Do: killServer,
			Text: "all processes of the server are killed at once, and it recovers, every few " +
				"seconds",
		},
		{
			Name: "freeze-server", Do: freezeServer,
			Text: "all processes of the server stand still, and go on",
		},
	}
}

func restartServer(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return outages(ctx, s, r, d, s.Server.Stop)
}

func crashServer(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return outages(ctx, s, r, d, s.Server.Crash)
}

func killServer(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return outages(ctx, s, r, d, func(context.Context) error { return s.Server.Kill() })
}

// outages takes the server down again and again. Each time it is started after a moment.
func outages(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
	down func(ctx context.Context) error,
) error {
	const shortest, longest = 10 * time.Millisecond, time.Second
	return repeat(ctx, r, d, time.Second, 5*time.Second, func() (err error) {
		defer heal(ctx, &err, s.Server.Start)
		ctx, cancel := healing(ctx) // half of a stop is none
		defer cancel()
		err = down(ctx)
		pause(ctx, between(r, shortest, longest))
		return err
	})
}

func freezeServer(ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration) error {
	err := s.Server.Freeze()
	pause(ctx, d)
	return errors.Join(err, s.Server.Thaw())
}
