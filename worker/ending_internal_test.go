package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/traceheaders"
)

// How a handler ended is told by the first error of this package along what it wraps, in the order
// of the lists, and a later Abort counts for more than a pause.
func TestCall_JudgesByWhatAnErrorWraps(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for what, c := range map[string]struct {
		err   error
		kind  endingKind
		pause time.Duration
	}{
		"an error":       {other, endedFailed, 0},
		"an Abort":       {fmt.Errorf("w: %w", Abort(other)), endedAbort, 0},
		"a pause":        {errors.Join(other, Snooze(time.Second)), endedSnooze, time.Second},
		"another":        {errors.Join(other, RetryAfter(time.Hour)), endedRetryAfter, time.Hour},
		"a pause, Abort": {errors.Join(Snooze(time.Second), Abort(other)), endedAbort, 0},
		"two pauses": {
			errors.Join(RetryAfter(1), Snooze(time.Minute), Snooze(2)), endedSnooze, time.Minute,
		},
		"behind a list that has none": {
			errors.Join(errors.Join(other, other), Abort(other)), endedAbort, 0,
		},
	} {
		end := call(t.Context(), func(context.Context, *Task) (Result, error) {
			return Result{Status: "not used"}, c.err
		}, nil)
		if end.kind != c.kind || end.pause != c.pause || end.text != c.err.Error() ||
			end.class != traceheaders.ClassOf(c.err) || end.result.Status != "" ||
			end.cause != nil || end.ofCause {
			t.Errorf("%s: %+v", what, end)
		}
	}
}

// The cause is that which the context had when the handler returned, and whether the error is of
// it is told by what the error wraps.
func TestCall_TellsWhetherAnErrorIsOfTheCause(t *testing.T) {
	t.Parallel()
	cause, other := errors.New("cause"), errors.New("other")
	for what, c := range map[string]struct {
		err  error
		want bool
	}{
		"itself": {cause, true}, "wrapped": {fmt.Errorf("w: %w", cause), true},
		"in a list": {errors.Join(other, errors.Join(other, cause)), true},
		"other":     {other, false}, "of the same text": {errors.New("cause"), false},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		end := call(ctx, func(context.Context, *Task) (Result, error) {
			cancel(cause)
			return Result{}, c.err
		}, nil)
		if end.cause != cause || end.ofCause != c.want { //nolint:errorlint // the very same
			t.Errorf("%s: the cause is %v, of it %v, want %v", what, end.cause, end.ofCause, c.want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	end := call(ctx, func(context.Context, *Task) (Result, error) {
		cancel(cause)
		panic("ouch")
	}, nil)
	if end.kind != endedPanic || end.cause != cause || //nolint:errorlint // the very same
		end.panicked != "ouch" || end.stack == "" {
		t.Errorf("a panic has become %+v", end)
	}
}
