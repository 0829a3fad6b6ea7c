//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/system"
)

func restoreFaults() []Fault {
	return []Fault{
		{
			Name: "restore", Do: restore, Loses: true, Replaces: true,
			Text: "the server is stopped, and goes on with an earlier backup of its data",
		},
		{
			Name: "restore-beside", Do: restoreBeside,
			Text: "a backup is started as a second server, with a store that maintains its tasks",
		},
	}
}

func restore(ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration) (err error) {
	p, err := newSpare(ctx, s)
	if err != nil {
		return err
	}
	defer heal(ctx, &err, p.end)
	pause(ctx, d/2)
	within, cancel := healing(ctx)
	defer cancel()
	if err := s.Server.Stop(within); err != nil {
		return errors.Join(err, s.Server.Start(within))
	}
	err = p.takeOver(within)
	pause(ctx, d/2)
	return err
}

func restoreBeside(
	ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration,
) (err error) {
	p, err := newSpare(ctx, s)
	if err != nil {
		return err
	}
	defer heal(ctx, &err, p.end)
	if err := p.start(ctx); err != nil {
		return err
	}
	store, err := stint.New(p.pool, stint.Options{
		Schema: s.Schema, MaxLosses: stint.UnlimitedLosses,
	})
	if err != nil {
		return err
	}
	defer heal(ctx, &err, store.Close)
	live, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for live.Err() == nil {
		if err := store.Maintain(live); err != nil {
			return ended(live, err)
		}
		pause(live, time.Second)
	}
	return nil
}
