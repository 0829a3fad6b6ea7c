package stint

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	stepNameBytesMax   = 255
	stepResultBytesMax = 1 << 20
	stepsMax           = 1000
	stepsBytesMax      = 16 << 20 // of the results of one task
)

// A RecordedStep is what a step of a task returned, in this try of the task or in one before.
type RecordedStep struct {
	Name       string
	Result     []byte
	RecordedAt time.Time     // on the database's clock
	Ago        time.Duration // how long before the call that was
}

// RecordStep records what a step of an owned task returned, so that the next owner of the task,
// after a failure or a loss, can go on behind it: [Store.Steps]. Steps are known by their names; if
// one with the name is recorded, that stays as it is. RecordStep returns the result that is
// recorded then: the one given, or the one from before. [worker.Step] calls it for handlers.
//
// Steps stay when the task is tried again, put off, or retried after it was aborted, and go with
// the task. A name is 1 to 255 bytes of UTF-8 without NUL, a result at most 1 MiB; a task may have
// 1,000 steps, with results of 16 MiB together. The error for what exceeds this is [ErrTooLarge],
// in an [*ArgumentError].
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken] (R8), and
// nothing is recorded. The call may be repeated after any failure.
//
// [worker.Step]: https://pkg.go.dev/github.com/stint-tasks/stint/worker#Step
func (s *Store) RecordStep(
	ctx context.Context, owned OwnedTask, name string, result []byte,
) ([]byte, error) {
	kept, err := s.recordStep(ctx, owned, name, result)
	if err != nil {
		return nil, fmt.Errorf("record step: %w", err)
	}
	return kept, nil
}

// A recording is what record_step says.
type recording struct {
	added, full, known bool
	result             []byte
}

func (s *Store) recordStep(
	ctx context.Context, owned OwnedTask, name string, result []byte,
) ([]byte, error) {
	if err := checkText("step name", name, stepNameBytesMax); err != nil {
		return nil, err
	}
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return nil, err
	}
	if len(result) > stepResultBytesMax {
		return nil, tooLarge("step result bytes", len(result), stepResultBytesMax)
	}
	if result == nil {
		result = []byte{}
	}
	p := owned.performance()
	stillOwned := map[performance]bool{}
	var answer recording
	record := step{
		name: "record_step",
		args: []any{p.key, int64(p.claim), name, result, stepsMax, stepsBytesMax},
		read: func(rows pgx.Rows) error {
			clear(stillOwned)
			answer = recording{}
			for rows.Next() { // there is one, or none
				var found performance
				err := rows.Scan(&found.key, &found.claim, &answer.added, &answer.full,
					&answer.known, &answer.result)
				if err != nil {
					return err
				}
				stillOwned[found] = true
			}
			return rows.Err()
		},
	}
	// Steps has cut the task out of the row that it may share with others, as a rule.
	if err := s.run(ctx, record); err != nil {
		return nil, err
	}
	for range attemptsMax {
		var err error
		if len(stillOwned) == 0 {
			steps := append(s.apart(ctx, owned), record)
			err = s.whileOwned(ctx, []OwnedTask{owned}, stillOwned, steps...)
		}
		switch {
		case err != nil:
			return nil, err
		case answer.added:
			return result, nil
		case answer.known:
			return answer.result, nil
		case answer.full:
			return nil, stepsTooLarge(owned.ID)
		}
		clear(stillOwned) // another call has recorded it meanwhile: look again
	}
	return nil, taskError([]TaskID{owned.ID}, errUnstable)
}

func stepsTooLarge(id TaskID) error {
	return at(&ArgumentError{
		Argument: "steps", Index: -1, Err: ErrTooLarge,
		Problem: fmt.Sprintf("of a task may be %d, with results of %d bytes together",
			stepsMax, stepsBytesMax),
	}, -1, id)
}

// Steps returns the steps that were recorded of an owned task, in this try or in those before, in
// the order in which they were recorded.
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken] (R8), in a
// [*TaskError].
func (s *Store) Steps(ctx context.Context, owned OwnedTask) ([]RecordedStep, error) {
	steps, err := s.steps(ctx, owned)
	if err != nil {
		return nil, fmt.Errorf("steps: %w", err)
	}
	return steps, nil
}

func (s *Store) steps(ctx context.Context, owned OwnedTask) ([]RecordedStep, error) {
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return nil, err
	}
	p := owned.performance()
	stillOwned := map[performance]bool{}
	check := step{
		name: "owned_task", args: []any{p.key, int64(p.claim)}, read: readPerformances(stillOwned),
	}
	var recorded []RecordedStep
	list := step{name: "list_steps", args: []any{p.key}, read: func(rows pgx.Rows) (err error) {
		recorded, err = pgx.CollectRows(rows, pgx.RowToStructByPos[RecordedStep])
		return err
	}}
	// Whoever asks for steps is about to record some, which takes a row of the task's own.
	steps := append(s.apart(ctx, owned), check, list)
	return recorded, s.whileOwned(ctx, []OwnedTask{owned}, stillOwned, steps...)
}

// A StepInfo is a recorded step without its result.
type StepInfo struct {
	Name       string
	RecordedAt time.Time
	Bytes      int // of the result
}

// stepsOf notes the steps of a task.
func stepsOf(id TaskID, steps *[]StepInfo) step {
	return step{
		name: "explain_steps", args: []any{string(id)},
		read: func(rows pgx.Rows) (err error) {
			*steps, err = pgx.CollectRows(rows, pgx.RowToStructByPos[StepInfo])
			return err
		},
	}
}
