package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// Step calls do and records what it returned, so that no later try of the task calls it again: they
// get the recorded value. A handler with several steps goes on where the last try ended, whether
// that failed, was lost or was put off.
//
// The record is made once. The call is made at least once: if the process dies, or the task is
// lost, between the end of do and the record, the next try makes the call again. What must not be
// done twice outside of the database takes a key of idempotency, such as the ID of the task with
// the name of the step; what is done in the database takes [StepIn]. If do returns an error,
// nothing is recorded, and Step returns that error.
//
// A step is known by its name, not by its place, so that code may change between two tries: a step
// that is new is called, one that is gone is ignored. In one try a name serves one step: a loop
// adds its index. The value is kept as JSON, at most 1 MiB; a task may have 1,000 steps with values
// of 16 MiB together. Names are 1 to 255 bytes. What exceeds this is an error [stint.ErrTooLarge],
// in a [*stint.ArgumentError], and so are bad names. A recorded value that does not fit T is an
// error that names the step; it stays recorded.
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
	recorded, known, err := task.steps.begin(ctx, task, name)
	if err != nil || known {
		return valueOf[T](recorded, err)
	}
	done := false
	defer func() { task.steps.end(name, done) }()
	if value, err = do(ctx); err != nil {
		return value, err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return value, err
	}
	kept, err := recordStep(ctx, task, name, encoded)
	done = err == nil
	return valueOf[T](kept, err)
}

// StepIn is [Step] in a transaction of the handler: the value is recorded if and only if tx is
// committed, together with what do wrote in tx. So a step whose effects are in the database takes
// effect exactly once. The handler commits tx; it may repeat the transaction after a failure, with
// the same name.
//
// A worker whose [Queue] is not a store has no transactions, and gets [ErrNotStore].
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
	store := queue.WithTx(tx)
	// Nobody else can be given the task from here on, so nobody else records the step.
	if err := store.HoldOwnership(ctx, []stint.OwnedTask{task.OwnedTask}); err != nil {
		return value, err
	}
	steps, err := store.Steps(ctx, task.OwnedTask)
	if err != nil {
		return value, err
	}
	for _, recorded := range steps {
		if recorded.Name == name {
			return valueOf[T](recorded.Result, nil)
		}
	}
	if value, err = do(ctx); err != nil {
		return value, err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return value, err
	}
	kept, err := store.RecordStep(ctx, task.OwnedTask, name, encoded)
	return valueOf[T](kept, err)
}

// valueOf reads what was recorded.
func valueOf[T any](recorded []byte, err error) (value T, _ error) {
	if err != nil {
		return value, err
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
	recorded, known, err := task.steps.begin(ctx, task, name)
	if err != nil {
		return err
	}
	if known {
		if d, err = valueOf[time.Duration](recorded, nil); err != nil {
			return err
		}
		if left := d - task.steps.ago(name); left > 0 {
			return Snooze(left)
		}
		return nil
	}
	encoded, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, err = recordStep(ctx, task, name, encoded)
	task.steps.end(name, err == nil)
	if err != nil {
		return err
	}
	return Snooze(d)
}

// recordStep records a step that has been taken. It does so also if ctx has just ended, since the
// worker stops or the task has a time-out, and goes on while the database cannot be reached until
// ctx ends. The token decides whether the task is still owned.
func recordStep(ctx context.Context, task *Task, name string, value []byte) ([]byte, error) {
	attempt := func() ([]byte, error) {
		recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptMax)
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

// taskSteps are the steps of one performance.
type taskSteps struct {
	mutex sync.Mutex
	// loaded is when the answer came that has the recorded steps; zero if none has.
	loaded   time.Time
	recorded map[string]stint.RecordedStep
	// taken are the steps of this try, those under way among them.
	taken map[string]bool
}

// begin begins a step, and returns its value if that is recorded.
func (s *taskSteps) begin(
	ctx context.Context, task *Task, name string,
) (value []byte, known bool, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.loaded.IsZero() {
		steps, err := task.queue.Steps(ctx, task.OwnedTask)
		if err != nil {
			return nil, false, err
		}
		s.loaded, s.taken = now(), map[string]bool{}
		s.recorded = make(map[string]stint.RecordedStep, len(steps))
		for _, recorded := range steps {
			s.recorded[recorded.Name] = recorded
		}
	}
	if s.taken[name] {
		return nil, false, argumentError("name",
			"must be used for one step in a try: add the index of a loop, for example")
	}
	s.taken[name] = true
	recorded, known := s.recorded[name]
	return recorded.Result, known, nil
}

// end ends a step. One that failed may be taken again.
func (s *taskSteps) end(name string, done bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.taken[name] = done
}

// ago is how long ago a step of an earlier try was recorded, at least.
func (s *taskSteps) ago(name string) time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.recorded[name].Ago + now().Sub(s.loaded)
}
