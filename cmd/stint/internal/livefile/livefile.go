// Package livefile keeps a value up to date with the files that it is read from. The command uses
// it for the certificates, tokens and grants of the service.
package livefile

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// A File is a value that is read from files. It is safe for concurrent use.
type File[T any] struct {
	paths  []string
	parse  func(texts [][]byte) (T, error)
	logger *slog.Logger

	mutex  sync.Mutex
	value  T
	read   []os.FileInfo // as they were when value was read, or last refused
	failed bool          // to parse what read describes
	looked time.Time
}

// Open reads files, and makes a value of their texts.
func Open[T any](
	logger *slog.Logger, parse func(texts [][]byte) (T, error), paths ...string,
) (*File[T], error) {
	f := &File[T]{paths: paths, parse: parse, logger: logger}
	if err := f.load(); err != nil {
		return nil, err
	}
	f.looked = now()
	return f, nil
}

// Get returns the value of the files as they were a second ago at the latest. If they cannot be
// read, or make no value, the value stays as it was, and the log says so.
func (f *File[T]) Get() T {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if at := now(); at.Sub(f.looked) >= lookEvery {
		f.looked = at
		f.look()
	}
	return f.value
}

func (f *File[T]) look() {
	infos, err := f.stat()
	same := err == nil && slices.EqualFunc(infos, f.read, func(a, b os.FileInfo) bool {
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
	if same && !f.failed {
		return
	}
	known := same || err != nil && f.failed
	if err == nil {
		err = f.load()
	}
	f.failed = err != nil
	if err != nil && !known {
		f.logger.Warn("a file has changed and is of no use; it stays in force as it was",
			slog.String("file", strings.Join(f.paths, ", ")), slog.Any("error", err))
		f.read = infos
	}
}

func (f *File[T]) stat() ([]os.FileInfo, error) {
	var infos []os.FileInfo
	var all error
	for _, path := range f.paths {
		info, err := os.Stat(path)
		infos, all = append(infos, info), errors.Join(all, err)
	}
	return infos, all
}

func (f *File[T]) load() error {
	infos, err := f.stat() // before they are read: a change between the two is seen next time
	if err != nil {
		return err
	}
	texts := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		texts[i], err = os.ReadFile(path) //nolint:gosec // the operator names the file
		if err != nil {
			return err
		}
	}
	value, err := f.parse(texts)
	if err != nil {
		return err
	}
	f.value, f.read = value, infos
	return nil
}

// now is the time of this process.
func now() time.Time { return time.Now() } //nolint:forbidigo // as the comment says
