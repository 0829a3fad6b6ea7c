// Package work is what the processes of a round do: they call the verbs of stores, of clients and
// of workers, by choices that come from a seed, and write each call with its answer into a journal.
package work

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
)

// An Outcome is what a caller knows of its call.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused" // it has changed nothing
	Unknown Outcome = "unknown" // no answer came, or one that does not tell
	// asked says in a journal that a call has begun: that of a process which is killed before its
	// answer is unknown to Read.
	asked Outcome = "asked"
)

// A Call is a call of a verb with its answer: a line of a journal.
type Call struct {
	Process string `json:"p"`
	Number  int    `json:"n"`
	Verb    string `json:"v"`
	// Begin and End are nanoseconds of a clock that all processes of the machine share, and that no
	// server can change.
	Begin   int64   `json:"b"`
	End     int64   `json:"e"`
	Outcome Outcome `json:"o"`
	Error   string  `json:"x,omitempty"` // the kind of error
	Items   []Item  `json:"i,omitempty"`
}

// An Item is a task that a call named, or that it was told of.
type Item struct {
	ID    stint.TaskID `json:"id"`
	Token *stint.Token `json:"t,omitempty"`
	Try   int          `json:"y,omitempty"`
	// Said is what was asked for or answered, such as the status code of a return.
	Said string `json:"s,omitempty"`
	// Number is a fence that was drawn, or when the task ended, in microseconds.
	Number int64 `json:"m,omitempty"`
	// Outcome and Error are those of the item, if they are not those of the call.
	Outcome Outcome `json:"o,omitempty"`
	Error   string  `json:"x,omitempty"`
}

// Of is the outcome of an item of the call.
func (c *Call) Of(i int) Outcome {
	if c.Items[i].Outcome != "" {
		return c.Items[i].Outcome
	}
	return c.Outcome
}

// The verbs of lines that are no calls.
const (
	// Born is the first line of a process.
	Born = "born"
	// Gone is the last line of a process that was not killed.
	Gone = "gone"
)

// A Kind is what verbs of a kind have in common.
type Kind int

// The kinds of verbs.
const (
	Others Kind = iota
	Inserts
	Fetches
	Returns
	Changes // a task may begin anew, end or go
	Waits
	Fences
	Ends
)

// KindOf is the kind of a verb.
func KindOf(verb string) Kind {
	switch verb {
	case insertTasks, insertTasksFrom, ensureTasks:
		return Inserts
	case "OwnTasks", "WaitToOwnTasks", "ReturnAndOwnTasks":
		return Fetches
	case "ReturnTasks", "ReturnAndOwnTasks: returns", "ReturnIn", FinishTask:
		return Returns
	case replaceTasks, debounce, "RetryTasks", "DeleteTasks", "AbortTasks":
		return Changes
	case "WaitForTasks":
		return Waits
	case "Fence":
		return Fences
	case ends:
		return Ends
	}
	return Others
}

// A Journal is written by one process. Each line is one write, so that a process that is killed
// loses only the calls that were under way.
type Journal struct {
	process string
	file    *os.File
	mutex   sync.Mutex
	number  int
	failed  error
}

// OpenJournal opens the journal of a process.
func OpenJournal(path, process string) (*Journal, error) {
	const mode = 0o644
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, mode) //nolint:gosec // ours
	if err != nil {
		return nil, err
	}
	return &Journal{process: process, file: file}, nil
}

// Instant is now, on the clock of [Call.Begin].
func Instant() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // there is this clock
	return now.Nano()
}

// Write writes a call that ends now.
func (j *Journal) Write(call Call) {
	call.Process, call.End = j.process, Instant()
	if call.Begin == 0 {
		call.Begin = call.End
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.number++
	call.Number = j.number
	line, err := json.Marshal(call)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	j.failed = errors.Join(j.failed, err)
}

// Close ends the journal.
func (j *Journal) Close() error {
	j.Write(Call{Verb: Gone, Outcome: OK})
	return errors.Join(j.failed, j.file.Close())
}

// Read reads a journal. The last line of a process that was killed may be half written.
func Read(from io.Reader, each func(Call)) error {
	lines := bufio.NewReader(from)
	open := map[int64]Call{} // by when they began
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			for _, call := range open {
				call.Outcome = Unknown
				each(call)
			}
			return nil
		}
		if err != nil {
			return err
		}
		var call Call
		if err := json.Unmarshal(line, &call); err != nil {
			return fmt.Errorf("read a journal: %w: %.200s", err, line)
		}
		if call.Outcome == asked {
			open[call.Begin] = call
			continue
		}
		delete(open, call.Begin)
		each(call)
	}
}

// A kind is an error that says that a call, or its item, has changed nothing.
type kind struct {
	name string
	err  error
}

// refusals are in the order in which they are looked for: some are others, too.
func refusals() []kind {
	return []kind{
		{"ErrInvalidToken", stint.ErrInvalidToken},
		{"ErrTaskExists", stint.ErrTaskExists},
		{"ErrTaskNotFound", stint.ErrTaskNotFound},
		{"ErrTaskInProgress", stint.ErrTaskInProgress},
		{"ErrTaskStarted", stint.ErrTaskStarted},
		{"ErrTaskFinished", stint.ErrTaskFinished},
		{"ErrTaskBlocked", stint.ErrTaskBlocked},
		{"ErrCycle", stint.ErrCycle},
		{"ErrPredecessorAborted", stint.ErrPredecessorAborted},
		{"ErrInvalidAnswerKey", stint.ErrInvalidAnswerKey},
		{"ErrScheduleNotFound", stint.ErrScheduleNotFound},
		{"ErrNoPostResult", stint.ErrNoPostResult},
		{"ErrBusy", stint.ErrBusy},
		{"ErrInvalidArgument", stint.ErrInvalidArgument},
	}
}

// AlreadyReturned is the kind of error of a return that was made before.
const AlreadyReturned = "ErrAlreadyReturned"

// Judge says what a caller knows by an error, and of which kind it is.
func Judge(err error) (Outcome, string) {
	var refusal *pgconn.PgError
	var network net.Error
	switch {
	case err == nil:
		return OK, ""
	case errors.Is(err, stint.ErrAlreadyReturned):
		return OK, AlreadyReturned
	case errors.As(err, &refusal):
		return Unknown, refusal.Code
	}
	for _, known := range refusals() {
		if errors.Is(err, known.err) {
			return Refused, known.name
		}
	}
	switch {
	case errors.Is(err, stint.ErrClosed):
		return Unknown, "closed"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Unknown, "context"
	case errors.Is(err, client.ErrUnavailable):
		return Unknown, "unavailable"
	case errors.As(err, &network):
		return Unknown, "network"
	}
	return Unknown, "connection"
}
