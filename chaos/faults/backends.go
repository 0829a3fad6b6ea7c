//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func backendFaults() []Fault {
	return []Fault{
		{
			Name: "kill-backend", Do: killBackend,
			Text: "the process of a session is killed, for which the server ends all sessions " +
				"and recovers",
		},
		{
			Name: "freeze-backends", Do: freezeBackends,
			Text: "the processes of some sessions stand still, with the locks that they hold",
		},
		{
			Name: "end-backends", Do: endBackends,
			Text: "sessions are ended by pg_terminate_backend, ten a second",
		},
		{
			Name: "cancel-statements", Do: cancelStatements,
			Text: "statements are cancelled by pg_cancel_backend, ten a second",
		},
	}
}

const (
	stormShortest = 50 * time.Millisecond
	stormLongest  = 150 * time.Millisecond
)

// alive reports whether there is a process of that number.
func alive(pid int) bool { return pid > 1 && syscall.Kill(pid, 0) == nil }

// victims are the processes of sessions, in random order; busy ones first.
func victims(ctx context.Context, s *system.System) ([]int, error) {
	return list[int](ctx, s, "victims")
}

func killBackend(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) (err error) {
	defer heal(ctx, &err, func(ctx context.Context) error { return answers(ctx, s) })
	return repeat(ctx, r, d, 2*time.Second, 5*time.Second, func() error {
		pids, err := victims(ctx, s)
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil &&
			!errors.Is(err, syscall.ESRCH) {
			return err
		}
		return until(ctx, "the server notices", func(ctx context.Context) (bool, error) {
			return !alive(pids[0]) && s.Server.Pool().Ping(ctx) == nil, nil
		})
	})
}

func freezeBackends(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
) (err error) {
	const most = 3
	pids, err := victims(ctx, s)
	if err != nil {
		return err
	}
	pids = pids[:min(len(pids), 1+r.IntN(most))]
	defer func() { err = errors.Join(err, signalAll(pids, syscall.SIGCONT)) }()
	if err := signalAll(pids, syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, d)
	return nil
}

// signalAll sends a signal to those processes that have not ended.
func signalAll(pids []int, signal syscall.Signal) (err error) {
	for _, pid := range pids {
		if one := syscall.Kill(pid, signal); !errors.Is(one, syscall.ESRCH) {
			err = errors.Join(err, one)
		}
	}
	return err
}

func endBackends(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return repeat(ctx, r, d, stormShortest, stormLongest, func() error {
		return execute(ctx, s, "end_backend")
	})
}

func cancelStatements(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return repeat(ctx, r, d, stormShortest, stormLongest, func() error {
		return execute(ctx, s, "cancel_statement")
	})
}
