//go:build unix

// Package faults disturbs a system: its processes, the network between them and their server, the
// server, its disk, its clock and its settings. Each fault is for real, heals what it did, and says
// so where a machine does not allow it.
package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

// A Fault is something that can go wrong.
type Fault struct {
	// Name is a plain name such as "kill-server", Text a sentence that says what happens.
	Name, Text string

	// Needs are programs without which the fault cannot be tried.
	Needs []string

	// Do disturbs the system for about d, and has healed what it did when it returns, also if ctx
	// ends or a step fails. The error is [ErrNotHere] if the fault cannot be tried.
	Do func(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error

	// Loses says that commits may be lost that were acknowledged.
	Loses bool

	// Jumps says that the clock of the server jumps.
	Jumps bool

	// Replaces says that the server is another one afterwards, with a history of its own.
	Replaces bool
}

// ErrNotHere says that a fault cannot be tried on this machine, or with this system. The error that
// wraps it says why.
var ErrNotHere = errors.New("cannot be tried here")

func notHere(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotHere, fmt.Sprintf(format, args...))
}

// All returns the faults, sorted by name.
func All() []Fault {
	all := kinds()
	for i := range all {
		all[i].Do = all[i].checked()
	}
	slices.SortFunc(all, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// checked is what the fault does, if its programs are here.
func (f Fault) checked() func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	return func(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
		for _, program := range f.Needs {
			_, err := exec.LookPath(program)
			_, inServer := exec.LookPath(s.Server.Bin(program))
			if err != nil && inServer != nil {
				return notHere("there is no program %s: install it", program)
			}
		}
		if err := f.Do(ctx, s, r, d); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		return nil
	}
}
