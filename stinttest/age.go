package stinttest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

var (
	//go:embed sql/expire_leases.sql
	expireLeases string
	//go:embed sql/make_due.sql
	makeDue string
	//go:embed sql/pass_deadlines.sql
	passDeadlines string
)

// ExpireLeases lets the leases on tasks expire, as if their owners had hung, and hands the tasks
// on: each is ready again or, if it has no tries left, aborted. Other tasks keep their leases, even
// if the same call handed them out.
//
// It fails the test if one of the tasks is not in progress.
func ExpireLeases(tb testing.TB, store *Store, ids ...stint.TaskID) {
	tb.Helper()
	if err := store.age(tb.Context(), expireLeases, "not in-progress", ids); err != nil {
		tb.Fatalf("ExpireLeases: %v", err)
	}
}

// MakeDue removes the time before which tasks are not fetched, either their NotBefore or the end
// of a pause before their next try: each is ready or, if it is spontaneous, completed. A blocked
// task stays blocked, and will be ready when its last predecessor has ended.
//
// It fails the test if one of the tasks has no such time.
func MakeDue(tb testing.TB, store *Store, ids ...stint.TaskID) {
	tb.Helper()
	if err := store.age(tb.Context(), makeDue, "not scheduled", ids); err != nil {
		tb.Fatalf("MakeDue: %v", err)
	}
}

// PassDeadlines lets the [stint.Task.Deadline] of tasks pass: they are aborted, including tasks in
// progress.
//
// It fails the test if one of the tasks has no Deadline, or has finished.
func PassDeadlines(tb testing.TB, store *Store, ids ...stint.TaskID) {
	tb.Helper()
	if err := store.age(tb.Context(), passDeadlines, "and no Deadline is ahead", ids); err != nil {
		tb.Fatalf("PassDeadlines: %v", err)
	}
}

// age executes a statement that ages tasks and returns their IDs, and maintains the store. Problem
// says what is wrong with tasks that the statement does not return.
func (s *Store) age(
	ctx context.Context, statement, problem string, ids []stint.TaskID,
) error {
	rows, err := s.Pool.Query(ctx, s.in(statement), ids)
	if err != nil {
		return err
	}
	aged, err := pgx.CollectRows(rows, pgx.RowTo[stint.TaskID])
	if err != nil {
		return err
	}
	var others []stint.TaskID
	for _, id := range ids {
		if !slices.Contains(aged, id) {
			others = append(others, id)
		}
	}
	if len(others) > 0 {
		return s.explain(ctx, others, problem)
	}
	return s.Maintain(ctx)
}

// explain returns an error that says in which state tasks are, and why that is wrong.
func (s *Store) explain(ctx context.Context, ids []stint.TaskID, problem string) error {
	infos, err := s.GetTasks(ctx, ids)
	if err != nil && !errors.Is(err, stint.ErrTaskNotFound) {
		return err
	}
	found := make(map[stint.TaskID]stint.TaskInfo, len(infos))
	for _, info := range infos {
		found[info.ID] = info
	}
	lines := make([]string, len(ids))
	for i, id := range ids {
		info, ok := found[id]
		switch {
		case !ok:
			lines[i] = fmt.Sprintf("there is no task %q", id)
		case info.State == stint.StateInProgress:
			lines[i] = fmt.Sprintf("task %q is %s, of %q, %s", id, info.State, info.Actor, problem)
		default:
			lines[i] = fmt.Sprintf("task %q is %s, %s", id, info.State, problem)
		}
	}
	return errors.New(strings.Join(lines, "\n\t"))
}
