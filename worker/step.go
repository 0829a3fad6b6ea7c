package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// Step calls do and records what it returned, so that no later try of the task calls it again: they
// get the recorded value. A handler with several steps goes on where the last try ended, whether
// that failed, was lost or was put off.
//
// The record is made once. The call is made at least once: if the process dies, or the task is
// lost, between the end of do and the record, the next try makes the call again. So does an owner
// that has lost the task without knowing, once, of a step that the next owner has recorded since.
// What must not be done twice outside of the database takes a key of idempotency, such as the ID of
// the task with the name of the step; what is done in the database takes [StepIn]. If do returns an
// error, nothing is recorded, and Step returns that error.
//
// A step is known by its name, not by its place, so that code may change between two tries: a step
// that is new is called, one that is gone is ignored. In one try a name serves one step: a loop
// adds its index. A name of a [Sleep] is none of a step. Names are 1 to 255 bytes of UTF-8 without
// NUL; a task may have 1,000 steps. What is wrong with the name or the number is found before do is
// called: the error is a [*stint.ArgumentError], for too much a [stint.ErrTooLarge].
//
// The value is kept as JSON, at most 1 MiB, and 16 MiB together with those of the other steps. If
// it cannot be kept, which is known only when do has returned, the error is also an [Abort]: a
// handler that returns it has the task aborted, since every try would make the call again. A
// recorded value that does not fit T is an error that names the step; it stays recorded.
//
// Ctx and task are those of the handler. If ctx ends, which it does when the worker stops or the
// task is lost, it ends for do as well; what do returns all the same is recorded, unless the task
// is lost ([stint.ErrInvalidToken]). While the database cannot be reached, Step goes on trying to
// record until ctx ends.
func Step[T any](
	ctx context.Context, task *Task, name string, do func(ctx context.Context) (T, error),
) (T, error) {
	value, err := takeStep(ctx, task, name, do)
	if err != nil {
		var none T
		return none, fmt.Errorf("step %q: %w", name, err)
	}
	return value, nil
}

func takeStep[T any](
	ctx context.Context, task *Task, name string, do func(ctx context.Context) (T, error),
) (value T, err error) {
	recorded, known, err := task.steps.begin(ctx, task.queue, task.OwnedTask, name)
	if err != nil || known {
		return valueOf[T](recorded, err)
	}
	kept := -1 // how many bytes were recorded
	defer func() { task.steps.end(name, kept) }()
	if value, err = traced(ctx, task, name, do); err != nil {
		return value, err
	}
	encoded, err := encode(value)
	if err != nil {
		return value, err
	}
	recorded, err = recordStep(ctx, task, name, encoded)
	if err == nil {
		kept = len(recorded)
	}
	return valueOf[T](recorded, unkept(err))
}

// StepIn is [Step] in a transaction of the handler: the value is recorded if and only if tx is
// committed, together with what do wrote in tx. So a step whose effects are in the database takes
// effect exactly once. The handler commits tx; it may repeat the transaction after a failure, with
// the same name. A name that a transaction of this try has committed is refused, as is one of a
// Step: also if only the reply to the commit was lost, where the next try gets the value.
//
// If tx is nil, the error is [stint.ErrInvalidArgument], and do is not called. A worker whose
// [Queue] is not a store has no transactions, and gets [ErrNotStore].
func StepIn[T any](
	ctx context.Context, task *Task, tx pgx.Tx, name string,
	do func(ctx context.Context) (T, error),
) (T, error) {
	value, err := takeStepIn(ctx, task, tx, name, do)
	if err != nil {
		var none T
		return none, fmt.Errorf("step %q: %w", name, err)
	}
	return value, nil
}

func takeStepIn[T any](
	ctx context.Context, task *Task, tx pgx.Tx, name string,
	do func(ctx context.Context) (T, error),
) (value T, err error) {
	queue, ok := task.queue.(txQueue)
	if !ok {
		return value, ErrNotStore
	}
	if err := checkStepName(name); err != nil {
		return value, err
	}
	waits, err := task.steps.enter(tx, name)
	if err != nil {
		return value, err
	}
	defer func() { task.steps.end(name, -1) }()
	store := queue.WithTx(tx)
	// Nobody else can be given the task from here on, so no other owner records the step.
	if err := store.HoldOwnership(ctx, []stint.OwnedTask{task.OwnedTask}); err != nil {
		return value, err
	}
	if waits {
		if err := waitForStep(ctx, queue, tx, task, name); err != nil {
			return value, err
		}
	}
	steps, err := store.Steps(ctx, task.OwnedTask)
	if err != nil {
		return value, err
	}
	recorded, known, err := task.steps.beginIn(ctx, tx, name, steps)
	if err != nil || known {
		return valueOf[T](recorded, err)
	}
	if value, err = traced(ctx, task, name, do); err != nil {
		return value, err
	}
	encoded, err := encode(value)
	if err != nil {
		return value, err
	}
	recorded, err = store.RecordStep(ctx, task.OwnedTask, name, encoded)
	return valueOf[T](recorded, unkept(err))
}

// waitForStep waits until no other transaction can commit a step with this name. It records one,
// which waits for these, and undoes that.
func waitForStep(
	ctx context.Context, queue txQueue, tx pgx.Tx, task *Task, name string,
) error {
	errUndo := errors.New("undo")
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		_, err := queue.WithTx(savepoint).RecordStep(ctx, task.OwnedTask, name, nil)
		return cmp.Or(err, errUndo)
	})
	if errors.Is(err, errUndo) {
		return nil
	}
	return err
}

// encode returns a value as it is recorded. If it cannot be, no try can record it.
func encode(value any) ([]byte, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, Abort(fmt.Errorf("the value cannot be recorded: %w", err))
	}
	return encoded, nil
}

// unkept is the error of a record. If the value is too large, no try can record it.
func unkept(err error) error {
	if errors.Is(err, stint.ErrTooLarge) {
		return Abort(fmt.Errorf("the value cannot be recorded: %w", err))
	}
	return err
}

// valueOf reads what was recorded.
func valueOf[T any](recorded []byte, err error) (value T, _ error) {
	if err != nil {
		return value, err
	}
	if bytes.HasPrefix(recorded, []byte(sleepPrefix)) {
		return value, errKind("step", "sleep")
	}
	if err := json.Unmarshal(recorded, &value); err != nil {
		return value, fmt.Errorf("the recorded value does not fit %T: %w", value, err)
	}
	return value, nil
}

// Sleep is a step that takes time, for which it holds neither a worker nor a slot: it gives the
// task back until d has passed since the first call with this name, in whatever try that was. Until
// then it returns an error, which the handler returns: the task is put off as with [Snooze], which
// does not count as a try. Afterwards it returns nil. Times are on the database's clock; d is that
// of the first call, more than 0, and at most ten years.
//
//	if err := worker.Sleep(ctx, task, "cool down", 24*time.Hour); err != nil {
//		return worker.Result{}, err
//	}
func Sleep(ctx context.Context, task *Task, name string, d time.Duration) error {
	if err := sleepFor(ctx, task, name, d); err != nil {
		return fmt.Errorf("sleep %q: %w", name, err)
	}
	return nil
}

func sleepFor(ctx context.Context, task *Task, name string, d time.Duration) error {
	if d <= 0 || d > pauseMax {
		return argumentError("d", "must be more than 0, and at most ten years")
	}
	recorded, known, err := task.steps.begin(ctx, task.queue, task.OwnedTask, name)
	if err != nil {
		return err
	}
	if known {
		if d, err = sleepOf(recorded); err != nil {
			return err
		}
		if left := d - task.steps.ago(name); left > 0 {
			return Snooze(left)
		}
		return nil
	}
	kept := -1
	defer func() { task.steps.end(name, kept) }()
	recorded, err = recordStep(ctx, task, name, fmt.Append(nil, sleepPrefix, d.Nanoseconds()))
	if err != nil {
		return err
	}
	kept = len(recorded)
	return Snooze(d)
}

// sleepPrefix is ahead of the nanoseconds of a sleep, and makes it no value of a step, which is
// JSON.
const sleepPrefix = "sleep "

// sleepOf reads what was recorded of a sleep.
func sleepOf(recorded []byte) (time.Duration, error) {
	text, ok := strings.CutPrefix(string(recorded), sleepPrefix)
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return 0, errKind("sleep", "step")
	}
	return time.Duration(n), nil
}

func errKind(wanted, found string) error {
	return argumentError("name", fmt.Sprintf(
		"must be another one for a %s: the task has a %s with this name", wanted, found))
}

// recordStep records a step that has been taken. It does so also if ctx has just ended, since the
// worker stops or the task has a time-out, and goes on while the database cannot be reached until
// ctx ends. The token decides whether the task is still owned.
func recordStep(ctx context.Context, task *Task, name string, value []byte) ([]byte, error) {
	attempt := func() ([]byte, error) {
		recording, cancel := context.WithTimeout(
			context.WithoutCancel(ctx), attemptToSend(len(value)))
		defer cancel()
		return task.queue.RecordStep(recording, task.OwnedTask, name, value)
	}
	for tries := 1; ; tries++ {
		kept, err := attempt()
		if !unanswered(err) || !sleep(ctx, reconnect().pause(tries)) {
			return kept, err
		}
	}
}
