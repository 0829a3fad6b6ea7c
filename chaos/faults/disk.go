//go:build linux

package faults

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func diskFaults() []Fault {
	needs := []string{"mkfs.ext4", "mount", "umount", "cp"}
	return []Fault{
		{
			Name: "full-disk", Do: fillDisk, Needs: needs,
			Text: "the disk of the server, data and WAL, is full for a while",
		},
		{
			Name: "power-loss", Do: losePower, Needs: needs,
			Text: "the disk refuses everything and forgets what was not flushed, and the server " +
				"starts anew",
		},
	}
}

// fillDisk fills the file system of the data, again and again, until the time is over.
func fillDisk(ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration) error {
	const room, rest = 96 << 20, 100 * time.Millisecond
	return onVolume(ctx, s, room, func(ctx context.Context, v *volume) (err error) {
		name := filepath.Join(v.data, "filler")
		filler, err := os.Create(name) //nolint:gosec // ours
		if err != nil {
			return err
		}
		defer heal(ctx, &err, func(ctx context.Context) error {
			return errors.Join(filler.Close(), os.Remove(name), answers(ctx, s))
		})
		live, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		for live.Err() == nil {
			_, err := io.Copy(filler, zeros{})
			if !errors.Is(err, syscall.ENOSPC) {
				return err
			}
			pause(live, rest)
		}
		return nil
	})
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// losePower does so several times. The server first sees a disk that refuses everything, then dies.
func losePower(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	const room, shortest, longest = 2 << 30, time.Second, 4 * time.Second
	const noticed = 500 * time.Millisecond
	return onVolume(ctx, s, room, func(ctx context.Context, v *volume) error {
		return repeat(ctx, r, d, shortest, longest, func() error {
			pause(ctx, between(r, shortest, longest))
			ctx, cancel := healing(ctx)
			defer cancel()
			if err := v.stop(); err != nil {
				return err
			}
			pause(ctx, between(r, 0, noticed))
			return errors.Join(s.Server.Kill(), v.mountAgain(ctx), s.Server.Start(ctx))
		})
	})
}
