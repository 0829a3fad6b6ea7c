package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// A journal is the file in which all processes record what they do: the evidence that check judges,
// next to the table of results. It does not go through the store or the database.
//
// Each entry is appended by one system call. The kernel puts the calls of all processes in one
// order, and an entry that has been appended survives the death of its process. So if one entry
// comes before another in the file, then the later one was not yet complete when the earlier one
// began to be written; no clock is needed to know that.
type journal struct {
	process string
	file    *os.File
}

// A kind is what an entry tells.
type kind string

const (
	// By clients, of a request.
	asked    kind = "asked"    // It is about to insert the task.
	answered kind = "answered" // It has the result.

	// By workers, of a performance.
	began     kind = "began"     // It owns the task, and is about to compute.
	extending kind = "extending" // It is about to extend the lease.
	extended  kind = "extended"  // It owned the task since that entry.
	returning kind = "returning" // It is about to return the task and add the result.
	accepted  kind = "accepted"  // Both were done.
	refused   kind = "refused"   // Neither was, since the task is not its own.
	lost      kind = "lost"      // It was told, while computing, that it has lost the task.

	// By the first process.
	killing   kind = "killing"   // It is about to kill Victim, for good: names are not used again.
	died      kind = "died"      // Victim is dead.
	pausing   kind = "pausing"   // It is about to stop Victim, which resumes later.
	crashing  kind = "crashing"  // It is about to crash the server.
	restarted kind = "restarted" // The server is back.
	deleted   kind = "deleted"   // The task of a finished computation was deleted.
)

// An entry says what a process did, or is about to do. Which fields it has depends on its kind.
type entry struct {
	Process     string       `json:"process"`
	Kind        kind         `json:"kind"`
	Computation stint.TaskID `json:"computation,omitempty"`

	// Of asked and answered.
	Request int `json:"request,omitempty"`

	// Of answered. Insertion says how the task came to be there, InsertedAt tells it from another
	// one of the same name that was deleted.
	Insertion  insertion     `json:"insertion,omitempty"`
	InsertedAt time.Time     `json:"inserted_at,omitzero"`
	Answer     answer        `json:"answer,omitzero"`
	Waited     time.Duration `json:"waited,omitempty"`

	// Of all entries on a performance, its name.
	Performance string `json:"performance,omitempty"`

	// Of began. The task was fetched at From, with a lease until Until, on the database's clock.
	Token stint.Token `json:"token,omitzero"`
	Try   int         `json:"try,omitempty"`
	From  time.Time   `json:"from,omitzero"`
	Until time.Time   `json:"until,omitzero"`

	// Of killing, died and pausing, the name of the process.
	Victim string `json:"victim,omitempty"`

	// Of crashing and restarted.
	At time.Time `json:"at,omitzero"`
}

// An insertion is how a request met the task of its computation.
type insertion string

const (
	inserted insertion = "inserted"
	joined   insertion = "joined"
	// unsure is of a request that found the task after an insert of its own whose outcome it did
	// not hear.
	unsure insertion = "unsure"
)

// An answer is the result of a task.
type answer struct {
	Value       string `json:"value"`
	Performance string `json:"performance"`
}

func openJournal(path, process string) (*journal, error) {
	const private = 0o600 // Tokens are in it.
	const mode = os.O_APPEND | os.O_CREATE | os.O_WRONLY
	file, err := os.OpenFile(path, mode, private) //nolint:gosec // The user says which.
	if err != nil {
		return nil, fmt.Errorf("-journal: %w", err)
	}
	return &journal{process: process, file: file}, nil
}

// write appends an entry. It begins with the end of the line before, since a process that is killed
// while it writes may leave a torn one.
func (j *journal) write(e entry) error {
	e.Process = j.process
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append([]byte("\n"), append(line, '\n')...))
	return err
}

func (j *journal) close() error { return j.file.Close() }

// readJournal returns the entries in order, and how many lines are torn.
func readJournal(input io.Reader) (entries []entry, torn int, err error) {
	text, err := io.ReadAll(input)
	if err != nil {
		return nil, 0, err
	}
	for line := range bytes.Lines(text) {
		if len(strings.TrimSpace(string(line))) == 0 {
			continue
		}
		var e entry
		err := json.Unmarshal(line, &e)
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			torn++
		case err != nil:
			return nil, 0, fmt.Errorf("journal: %w: %.200s", err, line)
		default:
			entries = append(entries, e)
		}
	}
	return entries, torn, nil
}
