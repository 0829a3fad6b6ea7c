package programs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint/worker"
)

const (
	resultBytesMax = 64 << 20 // what the store takes
	// resolvedBytesMax is how long the results may be that stand in a body in place of references.
	resolvedBytesMax = 2 * resultBytesMax
	statusBytesMax   = 64 << 10

	// killGrace is how long a program that was told to end may take.
	killGrace = 5 * time.Second
	// stopGrace is the same when the worker stops, since it then waits for handlers only a second.
	stopGrace = 500 * time.Millisecond
	// lookEvery is the pause between looks whether any process of an ending program is left.
	lookEvery = 10 * time.Millisecond
)

// The errors of this package, to be matched with [errors.Is].
var (
	// ErrNoPrograms reports a directory without programs.
	ErrNoPrograms = errors.New("no executable file")

	// ErrUnsupported reports a system that is not Unix, where a program could not be ended together
	// with the processes that it has started.
	ErrUnsupported = errors.New("programs are run on Unix only")

	// ErrNotProgram reports an action whose file is not to be run: it is in another directory, or
	// hidden, or not regular, or not executable.
	ErrNotProgram = errors.New("not a program")
)

// A Directory is a directory of programs, each named after the action that it performs.
type Directory struct {
	// Fence has each program given a number of [worker.Task.Fence].
	Fence bool

	// Env are further variables of the environment of each program.
	Env []string

	// Dead says, if it is closed when the context of a program ends, that the worker dies together
	// with the program, which is then killed at once.
	Dead <-chan struct{}

	path           string
	actions        []string
	resultBytesMax int
	killGrace      time.Duration

	running sync.WaitGroup
	closing chan struct{}
	close   func()
}

// Open reads which programs are in a directory, or looks for those of the actions given, if any
// are. Hidden files are no programs, nor are, unless they are given, the copies that editors and
// package managers leave, such as greet~ and greet.bak. A directory without any is refused with
// [ErrNoPrograms], an action without a program with [ErrNotProgram] or [os.ErrNotExist], and any
// directory with [ErrUnsupported] where the system is not Unix.
func Open(path string, actions ...string) (*Directory, error) {
	d, err := open(path, actions)
	if err != nil {
		return nil, fmt.Errorf("open programs: %w", err)
	}
	return d, nil
}

func open(path string, actions []string) (*Directory, error) {
	if !supported {
		return nil, fmt.Errorf("%w, not on %s: write a worker with package worker", ErrUnsupported,
			runtime.GOOS)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &Directory{
		path: path, resultBytesMax: resultBytesMax, killGrace: killGrace,
		closing: make(chan struct{}),
	}
	d.close = sync.OnceFunc(func() { close(d.closing) })
	for _, action := range actions {
		if _, err := d.program(action); err != nil {
			return nil, err
		}
	}
	if len(actions) > 0 {
		d.actions = slices.Compact(slices.Sorted(slices.Values(actions)))
		return d, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if isLeftover(entry.Name()) {
			continue
		}
		_, err := d.program(entry.Name())
		switch {
		case errors.Is(err, ErrNotProgram), errors.Is(err, os.ErrNotExist): // a broken link
		case err != nil:
			return nil, err
		default:
			d.actions = append(d.actions, entry.Name())
		}
	}
	if len(d.actions) == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNoPrograms)
	}
	return d, nil
}

// isLeftover reports whether a name is one that editors, patches and package managers give to a
// copy of a file that they replace: a program of an older version would perform tasks.
func isLeftover(name string) bool {
	if strings.HasSuffix(name, "~") ||
		strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") {
		return true
	}
	switch ending := filepath.Ext(name); ending {
	case ".bak", ".old", ".orig", ".rej", ".swp", ".tmp", ".rpmnew", ".rpmorig", ".rpmsave":
		return true
	default:
		return strings.HasPrefix(ending, ".dpkg-") || strings.HasPrefix(ending, ".ucf-")
	}
}

// program is the path of the program that performs an action.
func (d *Directory) program(action string) (string, error) {
	if action == "" || action[0] == '.' || strings.ContainsAny(action, `/\`) ||
		filepath.Base(action) != action {
		return "", fmt.Errorf("%q: %w: the name is hidden or a path", action, ErrNotProgram)
	}
	path := filepath.Join(d.path, action)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: %w: not a regular file", path, ErrNotProgram)
	case !executable(info):
		return "", fmt.Errorf("%s: %w: not executable", path, ErrNotProgram)
	}
	return path, nil
}

// Actions returns the actions that the directory has programs for, in order.
func (d *Directory) Actions() []string { return append([]string(nil), d.actions...) }

// Handlers returns the handlers of the actions of the directory, each with the options, for
// [worker.New], which refuses a file whose name no action can have.
func (d *Directory) Handlers(options ...worker.HandlerOption) []worker.Registration {
	handlers := make([]worker.Registration, len(d.actions))
	for i, action := range d.actions {
		handlers[i] = worker.Handle(action, d.perform, options...)
	}
	return handlers
}

// Close kills the programs that are still running, and waits for their ends. Call it when the
// worker's Run has returned: Run may have given up waiting for a program.
func (d *Directory) Close() {
	d.close()
	d.running.Wait()
}
