package stint

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Problems are the tasks to look at first when something is wrong.
type Problems struct {
	// Slow are tasks in progress, those that were handed out longest ago first.
	Slow []TaskInfo
	// Failing are pending tasks that their owners gave back or lost, the most often tried first.
	// Blocked tasks are left out.
	Failing []TaskInfo
	// Failed are tasks that were aborted by their owners, because their tries were exhausted, or
	// because their Deadline passed; the latest first.
	Failed []TaskInfo
}

// Problems returns up to limit tasks of each kind, as of one instant, without their bodies and
// results. The limit is between 1 and 10,000. It reads all leases, of which there is one for each
// call of OwnTasks whose tasks are in progress; otherwise it takes the same time however many tasks
// there are.
func (s *Store) Problems(ctx context.Context, limit int) (Problems, error) {
	trouble, err := s.problems(ctx, limit)
	if err != nil {
		return Problems{}, fmt.Errorf("problems: %w", err)
	}
	return trouble, nil
}

func (s *Store) problems(ctx context.Context, limit int) (Problems, error) {
	if limit <= 0 {
		return Problems{}, argumentError("limit", "must be positive")
	}
	if limit > listedTasksMax {
		return Problems{}, tooLarge("limit", limit, listedTasksMax)
	}
	var problems Problems
	err := s.run(ctx, step{
		name: "list_problems", args: []any{limit},
		read: func(rows pgx.Rows) error {
			problems = Problems{} // drops an answer that was cut off
			kinds := []*[]TaskInfo{&problems.Slow, &problems.Failing, &problems.Failed}
			for rows.Next() {
				var kind int
				info, err := readInfo(rows, &kind)
				if err != nil {
					return err
				}
				*kinds[kind] = append(*kinds[kind], info)
			}
			return rows.Err()
		},
	})
	return problems, err
}
