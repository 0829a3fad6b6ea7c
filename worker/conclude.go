package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
)

// conclude notes how a performance ended.
func (e *execution) conclude(p *performance, o Outcome) {
	p.outcome = o
	switch {
	case o == OutcomeLost, o == OutcomeOverdue: // the reason was logged
	case p.ending.kind == endedWell:
		e.log(p, slog.LevelDebug, "task completed")
	case o == OutcomeStopped && p.ending.kind != endedPanic:
		e.log(p, slog.LevelInfo, "task given back, since the worker stops",
			slog.String("error", logged(p.ending.text)))
	case o == OutcomeSnoozed:
		e.log(p, slog.LevelDebug, "task snoozed", slog.String("error", logged(p.ending.text)))
	case p.ending.kind == endedPanic:
		e.count(p, slog.LevelError, "handler panicked",
			slog.String("panic", logged(p.ending.panicked)), slog.String("stack", p.ending.stack))
	default:
		e.count(p, slog.LevelWarn, "handler failed", slog.String("error", logged(p.ending.text)),
			slog.String("outcome", string(o)))
	}
	p.end(nil)
}

// finish tells of performances that were concluded, and lets go of them.
func (e *execution) finish(over ...*performance) {
	e.telemetry.end(over)
	e.letGo(over...)
}

// count logs that a performance failed: at once if it is the first of its kind and its action for a
// minute, else with the others at the end of the minute.
func (e *execution) count(p *performance, level slog.Level, message string, attrs ...slog.Attr) {
	e.failures.Failed(context.WithoutCancel(p.ctx),
		outage.Kind{What: message, Level: level, Of: p.task.Action},
		append(attrs, p.task.attrs()...)...)
}

// log logs a record about a task.
func (e *execution) log(p *performance, level slog.Level, message string, attrs ...slog.Attr) {
	if !e.logger.Enabled(p.ctx, level) {
		return
	}
	// The context may have ended, but the record should have its values all the same.
	ctx := context.WithoutCancel(p.ctx)
	//nolint:sloglint // callers' constants
	e.logger.LogAttrs(ctx, level, message, append(attrs, p.task.attrs()...)...)
}

// attrs are what the records about a task have in common.
func (t *Task) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("task", string(t.ID)), slog.String("action", t.Action), slog.Int("try", t.Try),
	}
}

// logged cuts the text of an error that would flood a log, such as the output of a program.
func logged(text string) string {
	if len(text) <= loggedBytesMax {
		return text
	}
	begun := strings.ToValidUTF8(text[:loggedBytesMax], "")
	return fmt.Sprintf("%s... (%d bytes)", begun, len(text))
}

// loggedBytesMax is how much of the text of an error is logged. The status of the task has more.
const loggedBytesMax = 2 << 10

// failure returns how to return a task whose handler ended with an error.
func (t *Task) failure(end *ending, retry Retry) (stint.Return, Outcome) {
	ret := stint.Return{
		ID: t.ID, Token: t.Token, Code: stint.StatusPending, Status: end.text, Log: t.log.text(),
		Spent: t.spent.Load(),
	}
	if end.cause != nil && !end.ofCause {
		ret.Status = fmt.Sprintf("%v: %s", end.cause, end.text)
	}
	switch {
	case end.kind == endedAbort:
		ret.Code = stint.StatusAborted
		return ret, OutcomeAborted
	case end.kind == endedSnooze:
		ret.RetryAfter, ret.Release = end.pause, true
		return ret, OutcomeSnoozed
	case errors.Is(end.cause, ErrStopping):
		// Deploys must not use up the tries of a long task; but one try is one try.
		ret.Release = t.MaxTries != 1
		ret.RetryAfter = end.pause
		if !ret.Release {
			return ret, OutcomeAborted // by the store
		}
		return ret, OutcomeStopped
	case end.kind == endedRetryAfter:
		ret.RetryAfter = end.pause
	default:
		ret.RetryAfter = retry.pause(t.Try)
	}
	if end.kind == endedUnwaited {
		return ret, OutcomeOverdue
	}
	if t.MaxTries > 0 && t.Try >= t.MaxTries {
		return ret, OutcomeAborted // by the store
	}
	return ret, OutcomeRetried
}
