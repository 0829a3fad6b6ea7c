//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func standbyFaults() []Fault {
	return []Fault{
		{
			Name: "failover", Do: failover(false), Loses: true, Replaces: true,
			Text: "the server is killed, and a standby that may lack the last commits takes its " +
				"place",
		},
		{
			Name: "synchronous-failover", Do: failover(true), Replaces: true,
			Text: "the server is killed, and a standby for which commits had waited takes its " +
				"place",
		},
		{
			Name: "standby-address", Do: leadToStandby,
			Text: "the address of the server leads to a standby, where nobody can write",
		},
		{
			Name: "lost-standby", Do: loseStandby,
			Text: "commits wait for a standby that is gone, until it comes back",
		},
	}
}

// newStandby makes a standby that receives what the server writes.
func newStandby(ctx context.Context, s *system.System) (*spare, error) {
	p, err := newSpare(ctx, s, "--write-recovery-conf")
	if err != nil {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.end(ctx))
	}
	if err := streams(ctx, s, "async"); err != nil {
		return nil, errors.Join(err, p.end(ctx))
	}
	return p, nil
}

// streams waits until the standby receives what the server writes, and is so synchronous.
func streams(ctx context.Context, s *system.System, state string) error {
	return until(ctx, "the standby is "+state, func(ctx context.Context) (bool, error) {
		n, err := value[int](ctx, s, "standbys", spareName, state)
		return n > 0, err
	})
}

// synchronous calls do while commits wait for the standby.
func synchronous(
	ctx context.Context, s *system.System, do func(ctx context.Context) error,
) error {
	of := settings{"synchronous_standby_names": spareName}
	return withSettings(ctx, s, false, of, func(ctx context.Context) error {
		if err := streams(ctx, s, "sync"); err != nil {
			return err
		}
		return do(ctx)
	})
}

// failover is a fault that has the server replaced by a standby, and later moves the data of that
// to the place of the server.
func failover(
	sync bool,
) func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	return func(
		ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration,
	) (err error) {
		p, err := newStandby(ctx, s)
		if err != nil {
			return err
		}
		defer heal(ctx, &err, p.end)
		// The settings of the old server end with it. So does the wait for the standby.
		if sync {
			err = errors.Join(s.Server.Set(ctx, "synchronous_standby_names", spareName),
				streams(ctx, s, "sync"))
		}
		if err != nil {
			return errors.Join(err, s.Server.Set(ctx, "synchronous_standby_names", ""))
		}
		pause(ctx, d/2)
		within, cancel := healing(ctx) // half of a failover is none
		defer cancel()
		return p.replace(within, ctx, d/2)
	}
}

// replace kills the server and has the spare serve in its place, first at another address.
func (p *spare) replace(within, ctx context.Context, d time.Duration) error {
	config, err := p.config()
	if err != nil {
		return err
	}
	if err := errors.Join(p.s.Server.Kill(), p.promote(within)); err != nil {
		return errors.Join(err, p.s.Server.Start(within))
	}
	return leading(within, p.s, config, func(context.Context) error {
		pause(ctx, d)
		return errors.Join(p.stop(within), p.takeOver(within))
	})
}

func leadToStandby(
	ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration,
) (err error) {
	p, err := newStandby(ctx, s)
	if err != nil {
		return err
	}
	defer heal(ctx, &err, p.end)
	config, err := p.config()
	if err != nil {
		return err
	}
	return leading(ctx, s, config, func(ctx context.Context) error {
		pause(ctx, d)
		return nil
	})
}

// loseStandby lets commits wait for most of the time. Clients that give up do not know whether
// theirs took place.
func loseStandby(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
) (err error) {
	p, err := newStandby(ctx, s)
	if err != nil {
		return err
	}
	defer heal(ctx, &err, p.end)
	return synchronous(ctx, s, func(ctx context.Context) error {
		return repeat(ctx, r, d, time.Second, 2*time.Second, func() (err error) {
			defer heal(ctx, &err, p.start)
			ctx, cancel := healing(ctx)
			defer cancel()
			err = p.stop(ctx)
			pause(ctx, between(r, time.Second, 3*time.Second))
			return err
		})
	})
}
