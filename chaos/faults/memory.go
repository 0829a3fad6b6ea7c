//go:build linux

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func memoryFaults() []Fault {
	return []Fault{
		{
			Name: "server-memory", Do: starveServer, Needs: []string{"prlimit"},
			Text: "the processes of the server get almost no more memory, so some statements fail",
		},
		{
			Name: "worker-memory", Do: starveWorkers, Needs: []string{"prlimit"},
			Text: "a worker gets no more memory and dies of that, every few seconds",
		},
	}
}

// unlimited is what processes may have that are not starved.
const unlimited = "unlimited"

// starveServer limits the postmaster, from which new sessions inherit it, and the sessions that
// stand.
func starveServer(
	ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration,
) (err error) {
	const rest = 200 * time.Millisecond
	account, err := accountOf(s.Server)
	if err != nil {
		return err
	}
	postmaster, starved := s.Server.PostmasterPID(), map[int]bool{}
	feed := func(ctx context.Context, pids ...int) (err error) {
		for _, pid := range pids {
			err = errors.Join(err, limitMemory(ctx, account, pid, unlimited))
		}
		return err
	}
	defer heal(ctx, &err, func(ctx context.Context) error {
		err := feed(ctx, postmaster) // first: whom it starts later has its limit
		err = errors.Join(err, feed(ctx, slices.Collect(maps.Keys(starved))...))
		pids, more := victims(ctx, s)
		return errors.Join(err, more, feed(ctx, pids...))
	})
	pids, err := victims(ctx, s)
	if err != nil {
		return err
	}
	live, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for live.Err() == nil {
		for _, pid := range append(pids, postmaster) {
			if starved[pid] {
				continue
			}
			starved[pid] = true
			if err := starve(ctx, account, pid); err != nil {
				return ended(ctx, err)
			}
		}
		pause(live, rest)
		pids, _ = victims(live, s) // the server may have no memory to say so
	}
	return nil
}

// starve leaves a process a little more than it has, if it has not ended.
func starve(ctx context.Context, account *syscall.Credential, pid int) error {
	const spare = 4 << 20
	used, err := memoryOf(pid)
	if err != nil {
		return nil //nolint:nilerr // it has ended
	}
	return limitMemory(ctx, account, pid, strconv.FormatUint(used+spare, 10))
}

// starveWorkers leaves a worker what it has. Go asks for more sooner or later.
func starveWorkers(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return repeat(ctx, r, d, 2*time.Second, 4*time.Second, func() error {
		processes, err := those(s, r, isWorker)
		if err != nil {
			return err
		}
		return ended(ctx, starve(ctx, nil, processes[0].PID()))
	})
}

// memoryOf is how much address space a process has, in bytes.
func memoryOf(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	pages, err := strconv.ParseUint(string(first), 10, 64)
	return pages * uint64(os.Getpagesize()), err //nolint:gosec // positive
}

// limitMemory limits how much address space a process may have, if it has not ended. The account
// of the process may do so, and root only with a right that containers often lack.
func limitMemory(ctx context.Context, account *syscall.Credential, pid int, limit string) error {
	//nolint:gosec // a program of the system
	command := exec.CommandContext(ctx, "prlimit", "--pid", strconv.Itoa(pid), "--as="+limit+":")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	said, err := command.CombinedOutput()
	if err != nil && alive(pid) {
		return fmt.Errorf("prlimit of process %d: %w: %s", pid, err, said)
	}
	return nil
}
