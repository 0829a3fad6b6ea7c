package stint

import (
	"context"
	"fmt"
	"math"
	"strconv"

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
	inputs, _, err := s.inputs(ctx, owned, 0, math.MaxInt64)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	return inputs, nil
}

// InputsPage is [Store.Inputs] a page at a time, for results that are large together. A page has
// inputs of at most bytesMax bytes, but at least one if there is one. The first page comes after
// the empty cursor. Each page comes with the cursor for the next one, which is empty if there are
// no more inputs.
func (s *Store) InputsPage(
	ctx context.Context, owned OwnedTask, after Cursor, bytesMax int,
) (inputs []Input, next Cursor, err error) {
	from := int64(0)
	if after != "" {
		if from, err = strconv.ParseInt(string(after), 10, 64); err != nil {
			err = argumentError("after", "must be the cursor that came with a page")
			return nil, "", fmt.Errorf("inputs page: %w", err)
		}
	}
	inputs, from, err = s.inputs(ctx, owned, from, int64(bytesMax))
	if err != nil {
		return nil, "", fmt.Errorf("inputs page: %w", err)
	}
	if from != 0 {
		next = Cursor(strconv.FormatInt(from, 10))
	}
	return inputs, next, nil
}

// inputs returns the inputs with keys from a key on, as far as they have so many bytes, and the key
// from which on there are more, or 0.
func (s *Store) inputs(
	ctx context.Context, owned OwnedTask, from, bytesMax int64,
) (inputs []Input, next int64, err error) {
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return nil, 0, err
	}
	p := owned.performance()
	stillOwned := map[performance]bool{}
	check := step{
		name: "owned_task", args: []any{p.key, int64(p.claim)}, read: readPerformances(stillOwned),
	}
	err = s.whileOwned(ctx, []OwnedTask{owned}, stillOwned, check, step{
		name: "inputs", args: []any{p.key, from, bytesMax},
		read: func(rows pgx.Rows) error {
			var err error
			inputs, next, err = readInputs(rows)
			return err
		},
	})
	if err != nil {
		return nil, 0, err
	}
	return inputs, next, nil
}

func readInputs(rows pgx.Rows) (inputs []Input, next int64, err error) {
	var last, all int64
	for rows.Next() {
		input := Input{StatusCode: StatusCompleted}
		var cause int16
		var status *string
		err := rows.Scan(&input.ID, &input.Action, &cause, &status, &input.Result, &last, &all)
		if err != nil {
			return nil, 0, err
		}
		if cause != 0 {
			input.StatusCode, input.AbortCause = StatusAborted, abortCause(cause)
		}
		if status != nil {
			input.Status = *status
		}
		inputs = append(inputs, input)
	}
	if int64(len(inputs)) < all {
		next = last + 1
	}
	return inputs, next, rows.Err()
}
