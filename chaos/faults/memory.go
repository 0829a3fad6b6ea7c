//go:build linux

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-tasks/stint/chaos/system"
)

func memoryFaults() []Fault {
	return []Fault{
		{
			Name: "server-memory", Do: starveServer,
			Text: "the processes of the server get almost no more memory, so some statements fail",
		},
		{
			Name: "worker-memory", Do: starveWorkers,
			Text: "a worker gets no more memory and dies of that, every few seconds",
		},
	}
}

// starveServer limits the postmaster, from which new sessions inherit it, and the sessions that
// stand.
func starveServer(ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration) (err error) {
	const rest = 200 * time.Millisecond
	postmaster := s.Server.PostmasterPID()
	_, usual, err := memoryOf(postmaster)
	if err != nil {
		return err
	}
	starved := map[int]bool{}
	defer heal(ctx, &err, func(ctx context.Context) error {
		err := limitMemory(postmaster, usual) // first: whom it starts later has its limit
		for pid := range starved {
			err = errors.Join(err, limitMemory(pid, usual))
		}
		pids, more := victims(ctx, s)
		for _, pid := range pids {
			err = errors.Join(err, limitMemory(pid, usual))
		}
		return errors.Join(err, more)
	})
	pids, err := victims(ctx, s)
	if err != nil {
		return err
	}
	live, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for live.Err() == nil {
		for _, pid := range append(pids, postmaster) {
			if err := starve(pid, starved); err != nil {
				return err
			}
		}
		pause(live, rest)
		pids, _ = victims(live, s) // the server may have no memory to say so
	}
	return nil
}

// starve leaves a process a little more than it has.
func starve(pid int, starved map[int]bool) error {
	const spare = 4 << 20
	if starved[pid] {
		return nil
	}
	used, _, err := memoryOf(pid)
	if err == nil {
		starved[pid] = true
		err = limitMemory(pid, used+spare)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return ignoreGone(err)
}

// starveWorkers leaves each worker what it has. Go asks for more sooner or later.
func starveWorkers(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return repeat(ctx, r, d, 2*time.Second, 4*time.Second, func() error {
		processes, err := those(s, r, isWorker)
		if err != nil {
			return err
		}
		pid := processes[0].PID()
		used, _, err := memoryOf(pid)
		if err == nil {
			err = limitMemory(pid, used)
		}
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return nil // it has just ended
		}
		return err
	})
}

// memoryOf is how much address space a process has, and how much it may have.
func memoryOf(pid int) (used, limit uint64, err error) {
	var limits unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_AS, nil, &limits); err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, 0, err
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	pages, err := strconv.ParseUint(string(first), 10, 64)
	return pages * uint64(os.Getpagesize()), limits.Cur, err //nolint:gosec // positive
}

// limitMemory limits how much address space a process may have, if it has not ended.
func limitMemory(pid int, bytes uint64) error {
	var limits unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_AS, nil, &limits); err != nil {
		return ignoreGone(err)
	}
	limits.Cur = min(bytes, limits.Max)
	return ignoreGone(unix.Prlimit(pid, unix.RLIMIT_AS, &limits, nil))
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
