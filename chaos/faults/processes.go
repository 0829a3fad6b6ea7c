//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func processFaults() []Fault {
	return []Fault{
		{
			Name: "kill-workers", Do: killsOf(isWorker),
			Text: "a worker is killed every second or two",
		},
		{
			Name: "kill-all-workers", Do: killAllWorkers,
			Text: "all workers are killed at the same moment",
		},
		{
			Name: "freeze-workers", Do: freezesOf(isWorker),
			Text: "some workers stand still, most for longer than their leases, and go on",
		},
		{
			Name: "kill-service", Do: killsOf(isService),
			Text: "the service is killed every second or two",
		},
		{
			Name: "freeze-service", Do: freezesOf(isService),
			Text: "the service stands still, and goes on",
		},
	}
}

func isService(p *system.Process) bool { return p.Kind == "service" }

func isWorker(p *system.Process) bool { return !isService(p) }

// those are the processes that match, in random order.
func those(
	s *system.System, r *rand.Rand, match func(*system.Process) bool,
) ([]*system.Process, error) {
	all := slices.DeleteFunc(slices.Clone(s.Processes()), func(p *system.Process) bool {
		return !match(p)
	})
	if len(all) == 0 {
		return nil, notHere("the system has no such process")
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

// killsOf is a fault that kills processes that match. Whoever runs them starts them again.
func killsOf(
	match func(*system.Process) bool,
) func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	return func(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
		return repeat(ctx, r, d, time.Second, 2*time.Second, func() error {
			processes, err := those(s, r, match)
			if err != nil {
				return err
			}
			return processes[0].Kill()
		})
	}
}

func killAllWorkers(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	processes, err := those(s, r, isWorker)
	for _, p := range processes {
		err = errors.Join(err, p.Kill())
	}
	pause(ctx, d)
	return err
}

// freezesOf is a fault that stops one or several of the processes that match, and lets them go on.
func freezesOf(
	match func(*system.Process) bool,
) func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	return func(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
		processes, err := those(s, r, match)
		if err != nil {
			return err
		}
		processes = processes[:1+r.IntN(len(processes))]
		for _, p := range processes {
			err = errors.Join(err, p.Freeze())
		}
		pause(ctx, d)
		for _, p := range processes {
			err = errors.Join(err, p.Thaw())
		}
		return err
	}
}
