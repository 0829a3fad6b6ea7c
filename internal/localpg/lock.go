//go:build unix && !aix && !solaris

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// The locks of a directory. They are flock(2) locks: they belong to the opened file, so two Servers
// of one process count as two, and they end with the last process that has the file open.
const (
	// startLock is held exclusively by whoever starts or stops the server.
	startLock = "start.lock"
	// usersLock is held, shared, by each user of the server, so whoever can take it exclusively is
	// the last one. It is touched only by the holder of startLock.
	usersLock = "users.lock"
	// serverLock is inherited by the processes of the server, and of initdb. It is free exactly
	// when none of them is left, whatever postmaster.pid says and whoever has that number by now.
	serverLock = "server.lock"
)

// tryLock takes a lock, or changes it to the other kind, without waiting.
func tryLock(file *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, syscall.EINTR):
			continue
		}
		return false, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
}

// unlock frees a lock at once. Closing the file alone would leave it, until its exec, to a child
// that another goroutine is forking at the moment.
func unlock(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}

// bequeath leaves a lock to the processes that inherited it, and, as with unlock, to no others.
func bequeath(file *os.File) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return file.Close()
}

// poll calls step until it is done, fails, or ctx ends, after pauses that grow up to a limit.
func poll(ctx context.Context, step func() (done bool, err error)) error {
	const longest = 100 * time.Millisecond
	pause := 2 * time.Millisecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		if done, err := step(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, longest)
		timer.Reset(pause)
	}
}
