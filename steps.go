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
	call := recordedCall{owned.performance(), name, append([]byte{}, result...)} // not nil
	answer, err := s.recordOne(ctx, call)
	// Steps has cut the task out of the row that it may share with others, as a rule.
	for range attemptsMax {
		if err != nil || answer.answered {
			break
		}
		answer, err = s.recordAlone(ctx, owned, call)
	}
	switch {
	case err != nil:
		return nil, err
	case !answer.answered:
		return nil, taskError([]TaskID{owned.ID}, errUnstable)
	case !answer.known:
		return nil, stepsTooLarge(owned.ID)
	}
	return answer.result, nil
}

// recordAlone records a step of a task that may share its row with others, or whose owner is late.
func (s *Store) recordAlone(
	ctx context.Context, owned OwnedTask, call recordedCall,
) (recordAnswer, error) {
	answers := make([]recordAnswer, 1)
	stillOwned := map[performance]bool{}
	record := recording([]recordedCall{call}, answers)
	read := record.read
	record.read = func(rows pgx.Rows) error {
		clear(stillOwned)
		err := read(rows)
		if answers[0].answered {
			stillOwned[call.performance] = true
		}
		return err
	}
	err := s.whileOwned(ctx, []OwnedTask{owned}, stillOwned, append(s.apart(ctx, owned), record)...)
	return answers[0], err
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
	found, err := s.listOne(ctx, owned)
	if err != nil || found.owned {
		return found.steps, err
	}
	return nil, taskError([]TaskID{owned.ID}, ErrInvalidToken)
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
			*steps, err = pgx.AppendRows([]StepInfo(nil), rows, pgx.RowToStructByPos[StepInfo])
			return err
		},
	}
}
