package stint

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// An Input is how a predecessor of a task ended, with the result that it left.
type Input struct {
	ID         TaskID
	StatusCode StatusCode
	AbortCause AbortCause // why it was aborted, if it was
	Status     string
	Result     []byte
}

// Inputs returns how the predecessors of an owned task ended, with their results. A spontaneous
// predecessor that completed has no result and stands for the tasks that it waited for: behind a
// join come the tasks that were joined. Tasks that were inserted together with the same action and
// priority come in the order of the insert.
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken] (R8), in a
// [*TaskError].
func (s *Store) Inputs(ctx context.Context, owned OwnedTask) ([]Input, error) {
	inputs, err := s.inputs(ctx, owned)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	return inputs, nil
}

func (s *Store) inputs(ctx context.Context, owned OwnedTask) ([]Input, error) {
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return nil, err
	}
	var inputs []Input
	p := owned.performance()
	stillOwned := map[performance]bool{}
	check := step{
		name: "owned_task", args: []any{p.key, int64(p.claim)}, read: readPerformances(stillOwned),
	}
	err := s.whileOwned(ctx, []OwnedTask{owned}, stillOwned, check, step{
		name: "inputs", args: []any{[]int64{p.key}, true},
		read: func(rows pgx.Rows) error {
			inputs = nil
			return readInputs(rows, func(_ int64, input Input) { inputs = append(inputs, input) })
		},
	})
	if err != nil {
		return nil, err
	}
	return inputs, nil
}

func readInputs(rows pgx.Rows, each func(key int64, input Input)) error {
	for rows.Next() {
		var key int64
		var input Input
		var cause int16
		var status *string
		if err := rows.Scan(&key, &input.ID, &cause, &status, &input.Result); err != nil {
			return err
		}
		input.StatusCode = StatusCompleted
		if cause != 0 {
			input.StatusCode, input.AbortCause = StatusAborted, abortCause(cause)
		}
		if status != nil {
			input.Status = *status
		}
		each(key, input)
	}
	return rows.Err()
}
