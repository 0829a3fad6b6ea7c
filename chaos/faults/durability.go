//go:build linux

package faults

import (
	"context"
	_ "embed"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

//go:embed preload/slowflush.c
var slowFlushC string

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

// slowFlush restarts the server before and afterwards: it has to be started with a library.
func slowFlush(ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration) (err error) {
	dir, err := os.MkdirTemp(s.Dir, "flush-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	source, library := filepath.Join(dir, "slowflush.c"), filepath.Join(dir, "slowflush.so")
	//nolint:gosec // the server runs as somebody else
	err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(source, []byte(slowFlushC), 0o644))
	if err != nil {
		return err
	}
	if err := run(ctx, "cc", "-O2", "-shared", "-fPIC", "-o", library, source); err != nil {
		return err
	}
	before := slices.Clone(s.Server.Env)
	defer heal(ctx, &err, func(ctx context.Context) error {
		s.Server.Env = before
		return s.Server.Restart(ctx)
	})
	s.Server.Env = append(slices.DeleteFunc(slices.Clone(before), func(entry string) bool {
		return strings.HasPrefix(entry, "LD_PRELOAD=")
	}), "LD_PRELOAD="+library)
	if err := s.Server.Restart(ctx); err != nil {
		return err
	}
	pause(ctx, d)
	return nil
}
