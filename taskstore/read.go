package taskstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
)

// Get returns the task with an ID. If there is none, found is false, and there is no error.
func (s *Store) Get(ctx context.Context, id int64) (task Task, found bool, err error) {
	tasks, err := s.read(ctx, "get_tasks", []int64{id})
	if err != nil {
		return Task{}, false, fmt.Errorf("get: %w", err)
	}
	if len(tasks) == 0 {
		return Task{}, false, nil
	}
	return tasks[0], true, nil
}

// Tasks returns the tasks with these IDs, in their order, and nil for an ID that no task has. All
// are as they were at one instant. Up to 10,000 IDs are allowed; an answer of more than 64 MiB is
// refused with [stint.ErrTooLarge].
func (s *Store) Tasks(ctx context.Context, ids []int64) ([]*Task, error) {
	if err := checkCount("IDs", len(ids)); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	found, err := s.read(ctx, "get_tasks", distinct(ids))
	if err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	byID := make(map[int64]*Task, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	tasks := make([]*Task, len(ids))
	for i, id := range ids {
		tasks[i] = byID[id]
	}
	return tasks, nil
}

// Group returns tasks of a group, in the order of their IDs: those that are available, and with
// owned also those that somebody owns. If limit is not 0, it returns at most so many of them, no
// matter which. An answer of more than 64 MiB is refused with [stint.ErrTooLarge]: then set a
// limit. A group without tasks is no error.
func (s *Store) Group(ctx context.Context, group string, limit int, owned bool) ([]Task, error) {
	if err := checkName("group", -1, group, groupBytesMax); err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	if limit < 0 {
		return nil, fmt.Errorf("group: %w", invalid("limit", -1, "must not be negative"))
	}
	var most *int
	if limit > 0 {
		most = &limit
	}
	tasks, err := s.read(ctx, "group_tasks", group, most, owned)
	if err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	slices.SortFunc(tasks, func(a, b Task) int { return cmp.Compare(a.ID, b.ID) })
	return tasks, nil
}

// Groups returns the names of all groups that have tasks, in order.
func (s *Store) Groups(ctx context.Context) ([]string, error) {
	groups := []string{}
	var group string
	size := 0
	err := run(ctx, s.db, pg.Step{Name: "list_groups", Read: func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&group}, func() error {
			groups = append(groups, group)
			return checkAnswer(&size, len(group))
		})
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	return groups, nil
}

// read returns the tasks that a statement returns.
func (s *Store) read(ctx context.Context, name string, args ...any) ([]Task, error) {
	tasks := []Task{}
	size := 0
	err := run(ctx, s.db, pg.Step{Name: name, Args: args, Read: func(rows pgx.Rows) error {
		var task Task
		into := []any{&task.ID, &task.Group, &task.Data, &task.TimeSpec, &task.Owner}
		_, err := pgx.ForEachRow(rows, into, func() error {
			tasks = append(tasks, task)
			return checkAnswer(&size, len(task.Group)+len(task.Data))
		})
		return err
	}})
	return tasks, err
}

// checkAnswer adds a row of so many bytes to the size of an answer.
func checkAnswer(size *int, bytes int) error {
	const row = 64
	*size += row + bytes
	if *size > answerBytesMax {
		return &stint.ArgumentError{
			Argument: "answer", Index: -1, Err: stint.ErrTooLarge,
			Problem: fmt.Sprintf("it exceeds %d bytes: ask for fewer tasks", answerBytesMax),
		}
	}
	return nil
}
