package stint

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CountBytes returns how many bytes the bodies, results and texts of tasks have together, which
// [Store.GetTasks] would return, without reading them. A task that is named twice counts twice; IDs
// that no task has do not count.
func (s *Store) CountBytes(ctx context.Context, ids []TaskID) (int64, error) {
	if err := checkIDs(ids); err != nil {
		return 0, fmt.Errorf("count bytes: %w", err)
	}
	var size int64
	err := s.run(ctx, step{
		name: "task_bytes", args: []any{texts(ids)},
		read: func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&size}, func() error { return nil })
			return err
		},
	})
	if err != nil {
		return 0, fmt.Errorf("count bytes: %w", err)
	}
	return size, nil
}
