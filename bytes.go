package stint

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// CountBytes returns how many bytes the bodies, results and texts of tasks have together, which
// [Store.GetTasks] would return, without reading them. A task that is named twice counts twice; IDs
// that no task has do not count.
func (s *Store) CountBytes(ctx context.Context, ids []TaskID) (int64, error) {
	if err := checkIDs(ids); err != nil {
		return 0, fmt.Errorf("count bytes: %w", err)
	}
	var size int64
	err := s.db.Run(ctx, pg.Step{
		Name: "task_bytes", Args: []any{texts(ids)},
		Read: func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&size}, func() error { return nil })
			return err
		},
	})
	if err != nil {
		return 0, fmt.Errorf("count bytes: %w", err)
	}
	return size, nil
}

// valueBytesMax is more than any value of a task has.
const valueBytesMax = math.MaxInt32

// GetSmallTasks is [Store.GetTasks], but reads no body, result or text of more than most bytes.
// What is left out has left bytes together; a task that is named twice counts twice.
func (s *Store) GetSmallTasks(
	ctx context.Context, ids []TaskID, most int,
) (tasks []TaskInfo, left int64, err error) {
	if tasks, left, err = s.getTasks(ctx, ids, most); err != nil {
		return tasks, left, fmt.Errorf("get tasks: %w", err)
	}
	return tasks, left, nil
}

// WaitForSmallTasks is [Store.WaitForTasks], but reads no body or result of more than most bytes,
// as [Store.GetSmallTasks] does: so a wait keeps none.
func (s *Store) WaitForSmallTasks(
	ctx context.Context, ids []TaskID, most int,
) (tasks []TaskInfo, left int64, err error) {
	if tasks, left, err = s.waitForTasks(ctx, ids, most); err != nil {
		return nil, 0, fmt.Errorf("wait for tasks: %w", err)
	}
	return tasks, left, nil
}
