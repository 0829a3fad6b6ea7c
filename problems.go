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
	// Errors are up to 100 groups of failing and failed tasks by what their last owners said, the
	// largest first.
	Errors []ErrorGroup
}

// An ErrorGroup is tasks of an action that failed alike: the first lines of what their last owners
// said are the same, but for numbers.
type ErrorGroup struct {
	Action  string
	Tasks   int    // how many
	Error   string // the first line of what was said of the latest one, up to 500 characters
	Example TaskID // that task
}

const errorGroupsMax = 100

// Problems returns up to limit tasks of each kind, as of one instant, without their bodies and
// results; the groups of Errors count as many. The limit is between 1 and 10,000. It reads all
// leases, of which there is one for each call of OwnTasks whose tasks are in progress; otherwise it
// takes the same time however many tasks there are.
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
	var groups []ErrorGroup
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
	}, step{
		name: "list_errors", args: []any{limit, errorGroupsMax},
		read: func(rows pgx.Rows) (err error) {
			groups, err = pgx.AppendRows([]ErrorGroup(nil), rows, pgx.RowToStructByPos[ErrorGroup])
			return err
		},
	})
	problems.Errors = groups
	return problems, err
}
