package worker

import (
	"context"
	_ "embed"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// The limits of [stint.Store.RecordStep], as far as they are known before a step is called.
const (
	stepNameBytesMax = 255
	stepsMax         = 1000
	stepsBytesMax    = 16 << 20
)

// transactionStatus asks for the number of a transaction, and what became of an earlier one.
//
//go:embed sql/transaction_status.sql
var transactionStatus string

// taskSteps are the steps of one performance.
type taskSteps struct {
	mutex sync.Mutex
	// loaded is when the answer came that has the recorded steps; zero if none has.
	loaded   time.Time
	recorded map[string]stint.RecordedStep
	// taken are the steps of this try that were recorded, or are under way.
	taken map[string]bool
	// bytes are those of the values that are recorded.
	bytes int
	// usedIn are the last transactions of this try that took a step.
	usedIn map[string]stepUse
}

// A stepUse is a transaction that took a step.
type stepUse struct {
	tx pgx.Tx
	// found is the number of the transaction, if the step was recorded before that.
	found string
}

func checkStepName(name string) error {
	switch {
	case name == "":
		return argumentError("name", "must not be empty")
	case len(name) > stepNameBytesMax:
		return tooLarge("name", fmt.Sprintf("has %d bytes, and may have %d",
			len(name), stepNameBytesMax))
	case !utf8.ValidString(name):
		return argumentError("name", "must be valid UTF-8")
	case strings.Contains(name, "\x00"):
		return argumentError("name", "must not contain a NUL byte")
	}
	return nil
}

func errTwice() error {
	return argumentError("name",
		"must be used for one step in a try: add the index of a loop, for example")
}

func tooLarge(argument, problem string) error {
	return &stint.ArgumentError{
		Argument: argument, Index: -1, Problem: problem, Err: stint.ErrTooLarge,
	}
}

// checkRoom refuses a step for which there is no room in any case.
func checkRoom(steps, bytes int) error {
	if steps >= stepsMax || bytes >= stepsBytesMax {
		return tooLarge("steps", fmt.Sprintf(
			"of a task may be %d, with values of %d bytes together, and there are %d with %d bytes",
			stepsMax, stepsBytesMax, steps, bytes))
	}
	return nil
}

// begin begins a step, and returns its value if that is recorded.
func (s *taskSteps) begin(
	ctx context.Context, queue Queue, task stint.OwnedTask, name string,
) (value []byte, known bool, err error) {
	if err := checkStepName(name); err != nil {
		return nil, false, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	// What transactions of this try have recorded is not among those that were asked for.
	if s.loaded.IsZero() || len(s.usedIn) > 0 {
		steps, err := queue.Steps(ctx, task)
		if err != nil {
			return nil, false, err
		}
		s.load(steps)
	}
	if _, used := s.usedIn[name]; used || s.taken[name] {
		return nil, false, errTwice()
	}
	recorded, known := s.recorded[name]
	if !known {
		if err := checkRoom(s.count(), s.bytes); err != nil {
			return nil, false, err
		}
	}
	s.take(name)
	return recorded.Result, known, nil
}

// load takes the steps that are recorded.
func (s *taskSteps) load(steps []stint.RecordedStep) {
	s.loaded, s.bytes = now(), 0
	s.recorded = make(map[string]stint.RecordedStep, len(steps))
	for _, recorded := range steps {
		s.recorded[recorded.Name] = recorded
		s.bytes += len(recorded.Result)
	}
}

// count is how many steps there are, those under way among them.
func (s *taskSteps) count() int {
	n := len(s.recorded)
	for name := range s.taken {
		if _, known := s.recorded[name]; !known {
			n++
		}
	}
	return n
}

// end ends a step of which so many bytes were recorded. One that failed, of which less than none
// were, may be taken again.
func (s *taskSteps) end(name string, bytes int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if bytes < 0 {
		delete(s.taken, name)
		return
	}
	s.bytes += bytes
}

func (s *taskSteps) take(name string) {
	if s.taken == nil {
		s.taken = map[string]bool{}
	}
	s.taken[name] = true
}

// enter keeps others from a step that is under way in a transaction. It reports whether another
// transaction of this try took the step, and may not have ended yet.
func (s *taskSteps) enter(tx pgx.Tx, name string) (waits bool, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.taken[name] {
		return false, errTwice()
	}
	s.take(name)
	before, used := s.usedIn[name]
	return used && !same(before.tx, tx), nil
}

// beginIn begins a step in a transaction that sees these recorded steps.
func (s *taskSteps) beginIn(
	ctx context.Context, tx pgx.Tx, name string, steps []stint.RecordedStep,
) (value []byte, known bool, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.usedIn == nil {
		s.usedIn = map[string]stepUse{}
	}
	use := stepUse{tx: tx}
	before, used := s.usedIn[name]
	bytes := 0
	for _, recorded := range steps {
		bytes += len(recorded.Result)
		if recorded.Name != name {
			continue
		}
		if used && (before.found == "" || same(before.tx, tx)) { // recorded by the one before
			return nil, false, errTwice()
		}
		// It was recorded before this try. One transaction may have it, once it is committed.
		var status *string
		err := tx.QueryRow(ctx, transactionStatus, before.found).Scan(&use.found, &status)
		if err != nil {
			return nil, false, err
		}
		if status != nil && *status == "committed" {
			return nil, false, errTwice()
		}
		s.usedIn[name] = use
		return recorded.Result, true, nil
	}
	if err := checkRoom(len(steps), bytes); err != nil {
		return nil, false, err
	}
	s.usedIn[name] = use
	return nil, false, nil
}

// same reports whether both are one transaction, and the same savepoint of it.
func same(a, b pgx.Tx) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// ago is how long ago a step of an earlier try was recorded, at least.
func (s *taskSteps) ago(name string) time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.recorded[name].Ago + now().Sub(s.loaded)
}
