package stint

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// An Input is how a predecessor of a task ended, with the result that it left.
type Input struct {
	ID         TaskID
	Action     string
	StatusCode StatusCode
	AbortCause AbortCause // why it was aborted, if it was
	Status     string
	Result     []byte
}

// Inputs returns how the predecessors of an owned task ended, with their results. A spontaneous
// predecessor that completed has no result and stands for the tasks that it waited for: the result
// lists those tasks in its place. Tasks that were inserted together with the same action and
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
		name: "inputs", args: []any{p.key},
		read: func(rows pgx.Rows) error {
			var err error
			inputs, err = readInputs(rows)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return inputs, nil
}

func readInputs(rows pgx.Rows) ([]Input, error) {
	var inputs []Input
	for rows.Next() {
		input := Input{StatusCode: StatusCompleted}
		var cause int16
		var status *string
		err := rows.Scan(&input.ID, &input.Action, &cause, &status, &input.Result)
		if err != nil {
			return nil, err
		}
		if cause != 0 {
			input.StatusCode, input.AbortCause = StatusAborted, abortCause(cause)
		}
		if status != nil {
			input.Status = *status
		}
		inputs = append(inputs, input)
	}
	return inputs, rows.Err()
}
