//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stint-tasks/stint/chaos/system"
)

// A volume is a file system of its own, in a file, on which the server keeps its data meanwhile.
type volume struct {
	s     *system.System
	image string
	data  string // where the data are, as the server knows it
	aside string // where they were
}

// onVolume calls do while the server has its data on a file system with room for so many bytes
// beside them. The server is stopped before and afterwards, while the data are copied.
func onVolume(
	ctx context.Context, s *system.System, room int64,
	do func(ctx context.Context, v *volume) error,
) (err error) {
	if os.Geteuid() != 0 {
		return notHere("only root may mount a file system")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return notHere("there are no loop devices")
	}
	dir, err := os.MkdirTemp(s.Dir, "volume-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil || errors.Is(err, ErrNotHere) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	v := &volume{
		s: s, image: filepath.Join(dir, "image"), data: s.Server.Data(),
		aside: s.Server.Data() + ".aside",
	}
	if err := v.makeImage(ctx, room); err != nil {
		return err
	}
	defer heal(ctx, &err, v.moveBack)
	within, cancel := healing(ctx) // half of a move is none
	defer cancel()
	if err := v.move(within); err != nil {
		return err
	}
	return do(ctx, v)
}

// makeImage makes the file system, and finds out whether it can be mounted.
func (v *volume) makeImage(ctx context.Context, room int64) error {
	const overhead = 16 << 20
	size, err := sizeOf(v.data)
	if err != nil {
		return err
	}
	if err := os.WriteFile(v.image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(v.image, size+room+overhead); err != nil {
		return err
	}
	if err := run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", v.image); err != nil {
		return err
	}
	trial := v.image + ".trial"
	if err := os.Mkdir(trial, 0o700); err != nil {
		return err
	}
	if err := run(ctx, "mount", "-o", "loop", v.image, trial); err != nil {
		return notHere("a file system cannot be mounted: %v", err)
	}
	return errors.Join(os.Remove(filepath.Join(trial, "lost+found")), run(ctx, "umount", trial))
}

// move moves the data onto the volume.
func (v *volume) move(ctx context.Context) error {
	if err := v.s.Server.Stop(ctx); err != nil {
		return err
	}
	if err := os.Rename(v.data, v.aside); err != nil {
		return err
	}
	if err := v.makeDir(v.data); err != nil {
		return err
	}
	if err := v.mount(ctx); err != nil {
		return err
	}
	if err := v.makeOwn(v.data); err != nil {
		return err
	}
	// What a copy does not flush, a loss of power would lose.
	if err := errors.Join(copyAll(ctx, v.aside, v.data), v.flush()); err != nil {
		return err
	}
	return v.s.Server.Start(ctx)
}

// moveBack undoes as much of move as was done.
func (v *volume) moveBack(ctx context.Context) error {
	if _, err := os.Stat(v.aside); err != nil {
		return v.s.Server.Start(ctx) // it was not moved
	}
	if err := v.s.Server.Stop(ctx); err != nil {
		if err := v.s.Server.Kill(); err != nil {
			return err
		}
	}
	if v.mounted() {
		back := v.data + ".back"
		if err := errors.Join(v.makeDir(back), copyAll(ctx, v.data, back)); err != nil {
			return err
		}
		err := errors.Join(v.unmount(ctx), os.Remove(v.data), os.Rename(back, v.data))
		if err = errors.Join(err, os.RemoveAll(v.aside)); err != nil {
			return err
		}
		return v.s.Server.Start(ctx)
	}
	_ = os.Remove(v.data) // if it was made
	return errors.Join(os.Rename(v.aside, v.data), v.s.Server.Start(ctx))
}

func (v *volume) makeDir(path string) error {
	return errors.Join(os.Mkdir(path, 0o700), v.makeOwn(path))
}

// makeOwn gives a directory to the account of the server.
func (v *volume) makeOwn(path string) error {
	info, err := os.Stat(v.aside)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("the data have no owner")
	}
	//nolint:gosec // a directory
	return errors.Join(os.Chmod(path, 0o700), os.Chown(path, int(stat.Uid), int(stat.Gid)))
}

func (v *volume) mount(ctx context.Context) error {
	return run(ctx, "mount", "-o", "loop", v.image, v.data)
}

func (v *volume) unmount(ctx context.Context) error { return run(ctx, "umount", v.data) }

func (v *volume) mounted() bool {
	var above, at unix.Stat_t
	return unix.Stat(filepath.Dir(v.data), &above) == nil && unix.Stat(v.data, &at) == nil &&
		above.Dev != at.Dev
}

// flush writes all to the disk.
func (v *volume) flush() error {
	dir, err := os.Open(v.data)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close())
}

// stop makes the file system forget what it has not written to its disk, and refuse all that is
// asked of it from now on, as a disk does that was cut off.
func (v *volume) stop() error {
	const (
		request = 0x8004587d // EXT4_IOC_SHUTDOWN
		noFlush = 2          // not even the journal
	)
	dir, err := os.Open(v.data)
	if err != nil {
		return err
	}
	err = unix.IoctlSetPointerInt(int(dir.Fd()), request, noFlush)
	return errors.Join(err, dir.Close())
}

// mountAgain mounts a file system that was stopped, which brings it to what its journal says.
func (v *volume) mountAgain(ctx context.Context) error {
	return errors.Join(v.unmount(ctx), v.mount(ctx))
}

// sizeOf is how many bytes there are below a directory.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // files come and go
		}
		if err != nil {
			return err
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size, err
}

// copyAll copies what is in a directory, with its owners.
func copyAll(ctx context.Context, from, to string) error {
	return run(ctx, "cp", "-a", "--", from+"/.", to+"/")
}

// run runs a program of the system.
func run(ctx context.Context, program string, args ...string) error {
	said, err := exec.CommandContext(ctx, program, args...).CombinedOutput() //nolint:gosec // ours
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, said)
	}
	return nil
}
