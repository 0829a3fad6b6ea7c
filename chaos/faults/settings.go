//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func settingFaults() []Fault {
	return []Fault{
		{
			Name: "serializable", Do: sets(settings{
				"default_transaction_isolation": "serializable",
			}),
			Text: "transactions are serializable by default, so the server refuses some of them",
		},
		{
			Name: "repeatable-read", Do: sets(settings{
				"default_transaction_isolation": "repeatable read",
			}),
			Text: "transactions are REPEATABLE READ by default, so the server refuses some of them",
		},
		{
			Name: "read-only", Do: sets(settings{"default_transaction_read_only": "on"}),
			Text: "transactions are read-only by default, as at a server that is to be given up",
		},
		{
			Name: "short-timeouts", Do: sets(settings{
				"statement_timeout": "50ms", "lock_timeout": "20ms",
				"idle_in_transaction_session_timeout": "50ms",
			}),
			Text: "statements, waits for locks and idle transactions end after some milliseconds",
		},
		{
			Name: "generic-plans", Do: sets(settings{"plan_cache_mode": "force_generic_plan"}),
			Text: "the planner makes plans without looking at parameters",
		},
		{
			Name: "no-index-scans", Do: sets(settings{
				"enable_indexscan": "off", "enable_indexonlyscan": "off",
				"enable_bitmapscan": "off",
			}),
			Text: "the planner avoids indexes",
		},
	}
}

// settings are values by the names of settings of the server.
type settings map[string]string

// sets is a fault that changes settings.
func sets(
	changed settings,
) func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	return func(ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration) error {
		return withSettings(ctx, s, false, changed, func(ctx context.Context) error {
			pause(ctx, d)
			return nil
		})
	}
}

// withSettings calls do with other settings, and gives them back the values that they had. Some
// need the server to be restarted.
func withSettings(
	ctx context.Context, s *system.System, restart bool, changed settings,
	do func(ctx context.Context) error,
) (err error) {
	before := settings{}
	for name := range changed {
		if before[name], err = value[string](ctx, s, "setting", name); err != nil {
			return err
		}
	}
	defer heal(ctx, &err, func(ctx context.Context) error {
		return before.set(ctx, s, restart)
	})
	if err := changed.set(ctx, s, restart); err != nil {
		return err
	}
	return do(ctx)
}

// set gives settings their values, and waits until new sessions have them.
func (of settings) set(ctx context.Context, s *system.System, restart bool) (err error) {
	for name, value := range of {
		err = errors.Join(err, s.Server.Set(ctx, name, value))
	}
	if err != nil {
		return err
	}
	if restart {
		return s.Server.Restart(ctx)
	}
	for name, wanted := range of {
		err = errors.Join(err, until(ctx, name+" is "+wanted,
			func(ctx context.Context) (bool, error) {
				got, err := value[string](ctx, s, "setting", name)
				return got == wanted, err
			}))
	}
	return err
}
