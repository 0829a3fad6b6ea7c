package stint

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-tasks/stint/internal/pg"
)

// The limits of design: each is checked here before the database sees the value, and again by a
// constraint of the table.
const (
	idBytesMax     = 512
	actionBytesMax = 255
	keyBytesMax    = 255
	actorBytesMax  = 255
	statusBytesMax = 64 << 10
	bodyBytesMax   = 64 << 20
	resultBytesMax = 64 << 20
	schemaBytesMax = 63
	ownedTasksMax  = 100_000
	leaseMax       = 10 * 365 * 24 * time.Hour
	actionsMax     = 10_000
	listedTasksMax = 10_000
	// A page looks at the queue of each action.
	listedActionsMax = 1000
	retryAfterMax    = leaseMax
)

func argumentError(argument, problem string) *ArgumentError {
	return &ArgumentError{
		Argument: argument, Index: -1, Problem: problem, Err: ErrInvalidArgument,
	}
}

func tooLarge(argument string, size, limit int) *ArgumentError {
	return &ArgumentError{
		Argument: argument, Index: -1, Err: ErrTooLarge,
		Problem: fmt.Sprintf("%d exceeds the limit of %d", size, limit),
	}
}

// checkText checks a name: not empty, not too long, valid UTF-8, no NUL.
func checkText(argument, text string, bytesMax int) error {
	switch {
	case text == "":
		return argumentError(argument, "must not be empty")
	case len(text) > bytesMax:
		return tooLarge(argument+" bytes", len(text), bytesMax)
	case !utf8.ValidString(text):
		return argumentError(argument, "must be valid UTF-8")
	case strings.IndexByte(text, 0) >= 0:
		return argumentError(argument, "must not contain a NUL byte")
	}
	return nil
}

// at adds the place in a list to an argument's error.
func at(err error, index int, id TaskID) error {
	if argument, ok := err.(*ArgumentError); ok { //nolint:errorlint // made just before, unwrapped
		argument.Index, argument.ID = index, id
	}
	return err
}

func checkTask(task *Task, index int) error {
	if err := task.check(); err != nil {
		return at(err, index, task.ID)
	}
	return nil
}

func (t *Task) check() error {
	if err := checkText("Task.ID", string(t.ID), idBytesMax); err != nil {
		return err
	}
	if err := checkText("Task.Action", t.Action, actionBytesMax); err != nil {
		return err
	}
	if t.Key != "" {
		if err := checkText("Task.Key", t.Key, keyBytesMax); err != nil {
			return err
		}
	}
	if t.AnswerKey != "" {
		if err := t.AnswerKey.check("Task.AnswerKey"); err != nil {
			return err
		}
	}
	switch {
	case t.AnswerKey != "" && t.Action != External:
		return argumentError("Task.AnswerKey", "is for tasks with the action "+External)
	case len(t.Body) > bodyBytesMax:
		return tooLarge("Task.Body bytes", len(t.Body), bodyBytesMax)
	case t.MaxTries < UnlimitedTries || t.MaxTries > math.MaxInt32:
		return argumentError("Task.MaxTries", "must be UnlimitedTries or 0 to 2147483647")
	case t.OnAbort != AbortToo && t.OnAbort != RunAnyway:
		return argumentError("Task.OnAbort", "must be AbortToo or RunAnyway")
	case !pg.IsStorable(t.NotBefore):
		return argumentError("Task.NotBefore", "must be between the years 1 and 9999")
	case !pg.IsStorable(t.Deadline):
		return argumentError("Task.Deadline", "must be between the years 1 and 9999")
	}
	for _, id := range t.After {
		if err := checkText("Task.After", string(id), idBytesMax); err != nil {
			return err
		}
	}
	for _, id := range t.ToSignalAfter {
		if err := checkText("Task.ToSignalAfter", string(id), idBytesMax); err != nil {
			return err
		}
	}
	return nil
}

func checkLease(lease time.Duration) error {
	switch {
	case lease == NoExpiry:
		return nil
	case lease <= 0:
		return argumentError("lease", "must be positive; use NoExpiry for none")
	case lease < time.Microsecond:
		return argumentError("lease", "must be at least a microsecond")
	case lease > leaseMax:
		return &ArgumentError{
			Argument: "lease", Index: -1, Err: ErrTooLarge, Problem: "must not exceed ten years",
		}
	}
	return nil
}

func checkIDs(ids []TaskID) error {
	for i, id := range ids {
		if err := checkText("task ID", string(id), idBytesMax); err != nil {
			return at(err, i, "")
		}
	}
	return nil
}

// statusText makes any text storable, since a status must never make a return impossible (R11): it
// replaces NUL and bytes that are not UTF-8, and cuts text that is too long.
func statusText(text string) *string {
	if text == "" {
		return nil
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	text = strings.ReplaceAll(text, "\x00", string(utf8.RuneError))
	if len(text) > statusBytesMax {
		cut := statusBytesMax
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	return &text
}

func checkActor(actor ActorID, actions []string) error {
	if err := checkText("actor", string(actor), actorBytesMax); err != nil {
		return err
	}
	if len(actions) == 0 {
		return argumentError("actions", "must not be empty")
	}
	if len(actions) > actionsMax {
		return tooLarge("actions", len(actions), actionsMax)
	}
	for i, action := range actions {
		if err := checkText("action", action, actionBytesMax); err != nil {
			return at(err, i, "")
		}
		if action == Spontaneous {
			return at(argumentError("action", "spontaneous tasks are never handed out"), i, "")
		}
		if action == External {
			return at(argumentError("action",
				"external tasks are never handed out: AnswerTasks ends them"), i, "")
		}
	}
	return nil
}
