package taskstore

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// The limits: each is checked here before the database sees the value, those of a single task again
// by a constraint of the table.
const (
	// tasksMax is how many tasks a call may name or add.
	tasksMax       = 10_000
	groupBytesMax  = 255
	dataBytesMax   = 1 << 20
	schemaBytesMax = 63
	// requestBytesMax is for the data of all tasks of a call together, answerBytesMax for an
	// answer.
	requestBytesMax = 16 << 20
	answerBytesMax  = 64 << 20
	// timeMax is the end of the year 9999.
	timeMax     = 253402300799999
	durationMax = 10 * 365 * 24 * time.Hour
)

func invalid(argument string, index int, problem string) error {
	return &stint.ArgumentError{
		Argument: argument, Index: index, Problem: problem, Err: stint.ErrInvalidArgument,
	}
}

func tooLarge(argument string, index, size, limit int) error {
	return &stint.ArgumentError{
		Argument: argument, Index: index, Err: stint.ErrTooLarge,
		Problem: fmt.Sprintf("%d exceeds the limit of %d", size, limit),
	}
}

func checkOptions(pool *pgxpool.Pool, opts Options) error {
	switch {
	case pool == nil:
		return invalid("pool", -1, "must not be nil")
	case opts.Durability != stint.Strict && opts.Durability != stint.Opportunistic:
		return invalid("Options.Durability", -1, "must be Strict or Opportunistic")
	}
	return checkName("Options.Schema", -1, opts.Schema, schemaBytesMax)
}

func checkName(argument string, index int, name string, bytesMax int) error {
	switch {
	case name == "":
		return invalid(argument, index, "must not be empty")
	case len(name) > bytesMax:
		return tooLarge(argument+" bytes", index, len(name), bytesMax)
	case !utf8.ValidString(name):
		return invalid(argument, index, "must be valid UTF-8")
	case strings.IndexByte(name, 0) >= 0:
		return invalid(argument, index, "must not contain a NUL byte")
	}
	return nil
}

func checkClient(client int64) error {
	if client <= 0 {
		return invalid("clientid", -1, "must be positive")
	}
	return nil
}

func checkCount(argument string, count int) error {
	if count > tasksMax {
		return tooLarge(argument, -1, count, tasksMax)
	}
	return nil
}

func (r *Request) check() error {
	if err := checkClient(r.Client); err != nil {
		return err
	}
	count := len(r.Adds) + len(r.Updates) + len(r.Deletes) + len(r.Depends)
	if err := checkCount("adds, updates, deletes and depends", count); err != nil {
		return err
	}
	bytes := 0
	for i, add := range r.Adds {
		if err := checkName("adds.group", i, add.Group, groupBytesMax); err != nil {
			return err
		}
		if err := checkContent("adds", i, add.Data, add.TimeSpec); err != nil {
			return err
		}
		bytes += len(add.Data)
	}
	for i, change := range r.Updates {
		if err := checkContent("updates", i, change.Data, change.TimeSpec); err != nil {
			return err
		}
		bytes += len(change.Data)
	}
	if bytes > requestBytesMax {
		return tooLarge("bytes of all data", -1, bytes, requestBytesMax)
	}
	return r.checkIDs()
}

func checkContent(list string, index int, data []byte, timeSpec int64) error {
	switch {
	case len(data) > dataBytesMax:
		return tooLarge(list+".data bytes", index, len(data), dataBytesMax)
	case timeSpec < -timeMax || timeSpec > timeMax:
		return invalid(list+".timespec", index, "must not be beyond the year 9999")
	}
	return nil
}

// checkIDs checks that no ID is in the lists twice, but for depends. To update and to delete a task
// contradict each other, and who depends on a task does not change it.
func (r *Request) checkIDs() error {
	named := make(map[int64]string, len(r.Updates)+len(r.Deletes)+len(r.Depends))
	check := func(list string, index int, id int64) error {
		other, found := named[id]
		switch {
		case id <= 0:
			return invalid(list, index, fmt.Sprintf("%d is no ID, which is positive", id))
		case found && other == list && list == "depends":
			return nil
		case found:
			return invalid(list, index, fmt.Sprintf("%d is in %s already", id, other))
		}
		named[id] = list
		return nil
	}
	for i, change := range r.Updates {
		if err := check("updates", i, change.ID); err != nil {
			return err
		}
	}
	for i, id := range r.Deletes {
		if err := check("deletes", i, id); err != nil {
			return err
		}
	}
	for i, id := range r.Depends {
		if err := check("depends", i, id); err != nil {
			return err
		}
	}
	return nil
}

func (c *Claim) check() error {
	if err := checkClient(c.Client); err != nil {
		return err
	}
	if err := checkName("group", -1, c.Group, groupBytesMax); err != nil {
		return err
	}
	switch {
	case c.Duration < time.Millisecond:
		return invalid("duration", -1, "must be a millisecond at least")
	case c.Duration > durationMax:
		return invalid("duration", -1, "must not exceed ten years")
	}
	if err := checkCount("depends", len(c.Depends)); err != nil {
		return err
	}
	depends := Request{Depends: c.Depends}
	return depends.checkIDs()
}
