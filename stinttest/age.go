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
)

// ExpireLeases lets the leases on tasks expire, as if their owners had not been heard of, and hands
// the tasks on: each is ready again or, if it has no tries left, aborted. Other tasks keep their
// leases, also those that were handed out by the same call.
//
// It fails the test if one of the tasks is not in progress.
func ExpireLeases(tb testing.TB, store *Store, ids ...stint.TaskID) {
	tb.Helper()
	err := store.age(tb.Context(), expireLeases, stint.StateInProgress, ids)
	if err != nil {
		tb.Fatalf("ExpireLeases: %v", err)
	}
}

// MakeDue makes tasks forget the time before which they are not handed out, be it their NotBefore
// or a pause before their next try: each is ready or, if it is a spontaneous one, completed. One
// that is blocked stays so, and will be ready when its last predecessor has ended.
//
// It fails the test if one of the tasks has no such time.
func MakeDue(tb testing.TB, store *Store, ids ...stint.TaskID) {
	tb.Helper()
	if err := store.age(tb.Context(), makeDue, stint.StateScheduled, ids); err != nil {
		tb.Fatalf("MakeDue: %v", err)
	}
}

// age executes a statement that ages tasks in a state and returns which, and does what is due then.
func (s *Store) age(
	ctx context.Context, statement string, want stint.State, ids []stint.TaskID,
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
		return s.explain(ctx, others, want)
	}
	return s.Maintain(ctx)
}

// explain returns an error that says in which state tasks are that should be in another one.
func (s *Store) explain(ctx context.Context, ids []stint.TaskID, want stint.State) error {
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
			lines[i] = fmt.Sprintf("task %q is %s, of %q, not %s", id, info.State, info.Actor, want)
		default:
			lines[i] = fmt.Sprintf("task %q is %s, not %s", id, info.State, want)
		}
	}
	return errors.New(strings.Join(lines, "\n\t"))
}
