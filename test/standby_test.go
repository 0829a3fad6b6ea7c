//go:build unix

package stint_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// waitingForStandby is how many commits wait for a standby.
func waitingForStandby(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return yields[int](t, pool, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event = 'SyncRep'`)
}

// A commit that is cut off while it waits for a standby shows what it did, but a failover would
// undo that. So a repeated call must not be told that the first one took place.
// Proves G95.
func TestVerbs_RepeatedWaitForTheStandbyThatTheFirstCallWaitedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	server := testdb.NewLonelyServer(t)
	direct := server.PoolThatNeedNotWait(t)
	ready := openStore(t, direct, stint.Options{})
	insert(t, ready, stint.Task{ID: "returned", Action: "act"})
	owned := ownAs(t, ready, "actor", 1)[0]
	insert(t, ready, after("aborted"), after("deleted"), after("earlier"), after("later"),
		stint.Task{ID: "answered", Action: stint.External})
	store := openStore(t, server.Pool(t), stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true,
	})
	takeKeys(t, direct, store)
	for name, test := range map[string]struct {
		call func(context.Context, *stint.Store) error
		want error
	}{
		"InsertTasks of one": {func(ctx context.Context, s *stint.Store) error {
			return s.InsertTasks(ctx, []stint.Task{{ID: "inserted", Action: "act"}})
		}, stint.ErrTaskExists},
		"InsertTasks of many": {func(ctx context.Context, s *stint.Store) error {
			return s.InsertTasks(ctx, numbered("many ", 100))
		}, stint.ErrTaskExists},
		"InsertTasks that name others": {func(ctx context.Context, s *stint.Store) error {
			return s.InsertTasks(ctx, []stint.Task{after("after", "returned")})
		}, stint.ErrTaskExists},
		"AbortTasks": {func(ctx context.Context, s *stint.Store) error {
			return errOf(s.AbortTasks(ctx, []stint.TaskID{"aborted"}, ""))
		}, nil},
		"DeleteTasks": {func(ctx context.Context, s *stint.Store) error {
			return errOf(s.DeleteTasks(ctx, []stint.TaskID{"deleted"}))
		}, stint.ErrTaskNotFound},
		"AddDependencies": {func(ctx context.Context, s *stint.Store) error {
			return s.AddDependencies(ctx, []stint.Dependency{{
				Predecessor: "earlier", Dependent: "later",
			}})
		}, nil},
		"AnswerTasks": {func(ctx context.Context, s *stint.Store) error {
			answers := []stint.Answer{{ID: "answered", Code: stint.StatusCompleted}}
			verdicts, err := s.AnswerTasks(ctx, "somebody", answers)
			return errors.Join(append(verdicts, err)...)
		}, stint.ErrTaskFinished},
		"ReturnTask": {func(ctx context.Context, s *stint.Store) error {
			return s.ReturnTask(ctx, owned.ID, owned.Token, "", stint.StatusCompleted)
		}, stint.ErrAlreadyReturned},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		first := start(func() (bool, error) { return true, test.call(ctx, store) })
		wantWaiting(t, direct, name, first)
		cancel()
		_, err := ends(t, name, first)
		wantErr(t, name+", cut off", err, context.Canceled)
		eventually(t, soon, "the server has heard of it", func() bool {
			return waitingForStandby(t, direct) == 0
		})
		second := start(func() (bool, error) { return true, test.call(t.Context(), store) })
		wantWaiting(t, direct, name+", repeated", second)
		letCommit(t, direct)
		_, err = ends(t, name, second)
		wantErr(t, name+", repeated", err, test.want)
	}
}

// letCommit ends the waits for a standby, as if there were one.
func letCommit(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event = 'SyncRep'`)
}

// takeKeys lets a store take keys for the tasks of the next inserts, which is a commit of its own.
func takeKeys(t *testing.T, direct *pgxpool.Pool, store *stint.Store) {
	t.Helper()
	taking := start(func() (bool, error) {
		return true, store.InsertTasks(t.Context(), []stint.Task{{Action: "x"}})
	})
	eventually(t, soon, "the store has keys", func() bool {
		letCommit(t, direct)
		return len(taking) > 0
	})
	_, err := ends(t, "InsertTasks", taking)
	wantErr(t, "InsertTasks", err, nil)
}

// wantWaiting waits until a call waits for a standby.
func wantWaiting(
	t *testing.T, pool *pgxpool.Pool, name string, call <-chan outcome[bool],
) {
	t.Helper()
	eventually(t, soon, name+" waits for a standby", func() bool {
		wantGoingOn(t, name, call)
		return waitingForStandby(t, pool) > 0
	})
}
