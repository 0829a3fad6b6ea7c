package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A copier copies files between two directories, and never reaches outside of them.
//
// A copy is made under a temporary name and then renamed, so that there is either the whole of it
// or nothing. A task may be performed twice, when its owner dies before it has returned it or is
// late; the second performance puts the same file in the place of the first.
//
// Copies are not flushed to the disk one by one. They survive the death of the program; whoever
// wants to be safe from a power failure as well has to call Sync before the rename.
type copier struct {
	from, to *os.Root
	// parts is the directory in to for what is not copied in full. It is the same for all the runs
	// of a job, so the run that finishes the job removes what killed ones have left.
	parts string
}

func newCopier(opts options, job job) (*copier, error) {
	const openToOthers = 0o777 // But for the umask.
	if err := os.MkdirAll(opts.to, openToOthers); err != nil {
		return nil, fmt.Errorf("-to: %w", err)
	}
	from, err := os.OpenRoot(opts.from)
	if err != nil {
		return nil, fmt.Errorf("-from: %w", err)
	}
	to, err := os.OpenRoot(opts.to)
	if err != nil {
		_ = from.Close()
		return nil, fmt.Errorf("-to: %w", err)
	}
	parts := ".stint-export-" + job.name()
	return &copier{from: from, to: to, parts: parts}, nil
}

func (c *copier) close() {
	_ = c.to.Remove(c.parts) // Unless a killed run has left something in it.
	_ = c.from.Close()
	_ = c.to.Close()
}

func copyable(mode fs.FileMode) bool {
	return mode.IsRegular() || mode.Type() == fs.ModeSymlink
}

// copy copies a regular file or a symbolic link, and returns its size.
func (c *copier) copy(path string) (int64, error) {
	info, err := c.from.Lstat(path)
	if err != nil {
		return 0, err
	}
	if !copyable(info.Mode()) {
		return 0, errors.New("neither a regular file nor a symbolic link any more")
	}
	if err := c.to.Mkdir(c.parts, ownerOnly); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, err
	}
	part := filepath.Join(c.parts, rand.Text())
	var bytes int64
	if info.Mode().IsRegular() {
		bytes, err = c.copyContent(path, part)
	} else {
		err = c.copyLink(path, part)
	}
	if err == nil {
		err = c.to.Rename(part, path)
	}
	if err != nil {
		_ = c.to.Remove(part) // Or the run that finishes the job does.
		return 0, err
	}
	return bytes, nil
}

// ownerOnly is the mode of what is not finished.
const ownerOnly = 0o700

func (c *copier) copyContent(path, part string) (bytes int64, err error) {
	source, err := c.from.Open(path)
	if err != nil {
		return 0, err
	}
	defer source.Close() //nolint:errcheck // It was only read.
	// Of before the reading: a file that is written to meanwhile differs from its copy then, and
	// the next run sees it.
	info, err := source.Stat()
	if err != nil {
		return 0, err
	}
	target, err := c.to.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, ownerOnly)
	if err != nil {
		return 0, err
	}
	bytes, err = io.Copy(target, source)
	err = errors.Join(err, target.Chmod(info.Mode().Perm()), target.Close())
	if err != nil {
		return 0, err
	}
	return bytes, c.to.Chtimes(part, time.Time{}, info.ModTime())
}

func (c *copier) copyLink(path, part string) error {
	target, err := c.from.Readlink(path)
	if err != nil {
		return err
	}
	return c.to.Symlink(target, part)
}

// differs reports whether a file is another one than its copy, as far as that can be told without
// reading them.
func (c *copier) differs(file entry) bool {
	source := file.info
	target, err := c.to.Lstat(file.path)
	if err != nil || source.Mode().Type() != target.Mode().Type() {
		return true
	}
	if source.Mode().Type() == fs.ModeSymlink {
		sourceLink, sourceErr := c.from.Readlink(file.path)
		targetLink, targetErr := c.to.Readlink(file.path)
		return sourceErr != nil || targetErr != nil || sourceLink != targetLink
	}
	return source.Size() != target.Size() || !source.ModTime().Equal(target.ModTime()) ||
		source.Mode().Perm() != target.Mode().Perm()
}

// makeDirectories makes the directories before the files come, open to their owner, whatever the
// original is. It refuses symbolic links, lest files go where they lead.
func (c *copier) makeDirectories(directories []entry) error {
	for _, dir := range directories {
		err := c.to.Mkdir(dir.path, ownerOnly)
		if errors.Is(err, fs.ErrExist) {
			err = c.openDirectory(dir.path)
		}
		if err != nil {
			return fmt.Errorf("make the directories: %w", err)
		}
	}
	return nil
}

func (c *copier) openDirectory(path string) error {
	info, err := c.to.Lstat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%q is a directory here and something else there", path)
	case info.Mode().Perm()&ownerOnly == ownerOnly:
		return nil
	default:
		return c.to.Chmod(path, info.Mode().Perm()|ownerOnly)
	}
}

// finish gives the directories their modes and times, now that no files come any more, children
// before their parents.
func (c *copier) finish(directories []entry) []problem {
	var problems []problem
	if err := c.to.RemoveAll(c.parts); err != nil {
		problems = append(problems, problem{c.parts, err.Error()})
	}
	for _, dir := range slices.Backward(directories) {
		err := errors.Join(
			c.to.Chtimes(dir.path, time.Time{}, dir.info.ModTime()),
			c.to.Chmod(dir.path, dir.info.Mode().Perm()))
		if err != nil {
			problems = append(problems, problem{dir.path, err.Error()})
		}
	}
	return problems
}
