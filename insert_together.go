package stint

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/groupcommit"
)

// canShare reports whether the tasks of a call can share a statement with the tasks of other
// callers. They can if there is a single one, which is ready at once and not large.
func canShare(tasks []Task) bool {
	return len(tasks) == 1 && taskSize(tasks[0]) <= groupcommit.SizeMax/2 &&
		tasks[0].NotBefore.IsZero() && tasks[0].AnswerKey == "" && !tasks[0].FailFast &&
		!isLinked(tasks[0])
}

// taskSize is how much of a batch a task takes: one, and one for each KiB of its body.
func taskSize(task Task) int {
	const bodyBytes = 1 << 10
	return 1 + len(task.Body)/bodyBytes
}

func cloneTask(task Task) Task {
	task.Body = slices.Clone(task.Body)
	return task
}

// insertShared inserts a task, together with those that other callers insert at the same time.
func (s *Store) insertShared(ctx context.Context, task Task) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	verdict, err := s.inserts.Do(ctx, struct{}{}, task)
	if err != nil {
		return err
	}
	return verdict
}

// insertTogether inserts the tasks of several callers.
func (s *Store) insertTogether(
	ctx context.Context, _ struct{}, tasks []Task, shared bool,
) ([]error, error) {
	verdicts := make([]error, len(tasks))
	if !shared {
		return verdicts, s.insertFew(ctx, tasks, nil)
	}
	keys, err := s.keysForFew(ctx, len(tasks))
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		verdicts[i] = &TaskError{IDs: []TaskID{tasks[i].ID}, Err: ErrTaskExists}
	}
	steps := append(limitWaiting(true), separately(tasks, keys, verdicts))
	err = s.do(ctx, request{steps: steps, expected: readyNotices(tasks, nil)})
	if err != nil {
		return nil, err
	}
	return verdicts, nil
}

// separately inserts tasks, and clears the verdicts on the tasks that it has inserted.
func separately(tasks []Task, keys []int64, verdicts []error) step {
	n := len(tasks)
	ids, actions, bodies := make([]string, n), make([]string, n), make([][]byte, n)
	priorities, tries := make([]int16, n), make([]int32, n)
	deadlines := make([]*time.Time, n)
	onAborts, postResults := make([]int16, n), make([]bool, n)
	for i := range tasks {
		task := &tasks[i]
		ids[i], actions[i], bodies[i] = string(task.ID), task.Action, task.Body
		priorities[i], tries[i] = task.Priority, task.triesLimit()
		deadlines[i] = moment(task.Deadline)
		onAborts[i], postResults[i] = int16(task.OnAbort), task.PostResult
	}
	return step{
		name: "insert_separately", unplanned: true,
		args: []any{
			ids, actions, bodies, priorities, tries, deadlines, onAborts, postResults, keys,
			limitKeys(tasks),
		},
		read: func(rows pgx.Rows) error {
			var of span
			_, err := pgx.ForEachRow(rows, []any{&of.lo, &of.hi}, func() error {
				clear(verdicts[of.lo-keys[0] : of.hi-keys[0]+1])
				return nil
			})
			return err
		},
	}
}
