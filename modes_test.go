package stint_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// Behind a pooler that knows no prepared statements, the driver sends its texts in other ways.
func TestStore_WorksInEveryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			config := testdb.New(t).Config()
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
			if err != nil {
				t.Fatal(err)
			}
			wholeLife(t, store, pool)
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wholeLife(t, store.WithTx(tx), nil)
			if err := tx.Commit(t.Context()); err != nil {
				t.Errorf("Commit = %v", err)
			}
		})
	}
}

// wholeLife calls every verb, with values of every kind.
func wholeLife(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
	t.Helper()
	ctx := t.Context()
	awkward := stint.Task{
		ID: `it's "a" \ {task}`, Action: "act", Body: []byte("\x00'\\"), MaxTries: 2, Priority: 5,
		Deadline: time.Now().Add(time.Hour), NotBefore: time.Now().Add(-time.Hour),
	}
	insert(t, store, awkward, stint.Task{ID: "nil", Action: "act"})
	insert(t, store, numbered("t", 100)...)
	if err := store.ReplaceTasks(ctx, []stint.Task{awkward}); err != nil {
		t.Fatalf("ReplaceTasks = %v", err)
	}
	task := ownOne(t, store)
	if task.ID != awkward.ID || string(task.Body) != string(awkward.Body) {
		t.Errorf("OwnTasks = %+v", task)
	}
	if err := store.SetStatus(ctx, task, "it's \\ half", 0.5); err != nil {
		t.Errorf("SetStatus = %v", err)
	}
	kept, err := store.ExtendTasksOwnership(ctx, "actor", []stint.OwnedTask{task}, time.Hour)
	if err != nil || !kept[0] {
		t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	if pool != nil {
		expireLeases(t, pool)
	}
	maintain(t, store)
	verdicts, err := store.ReturnTasks(ctx, []stint.Return{{
		ID: task.ID, Token: task.Token, Code: stint.StatusPending, RetryAfter: time.Minute,
	}})
	if err != nil || verdicts[0] != nil {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
	err = store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, stint.ErrInvalidToken)
	list, err := listTasks(ctx, store, stint.Filter{
		Actions: []string{"act"}, States: []stint.State{stint.StateScheduled},
	})
	if err != nil || len(list) != 1 || list[0].ID != awkward.ID {
		t.Errorf("ListTasks = %v, %v", list, err)
	}
	err = store.AbortTasks(ctx, []stint.TaskID{awkward.ID, "t000050"}, "it's \\ off")
	if err != nil {
		t.Errorf("AbortTasks = %v", err)
	}
	var ids []stint.TaskID
	for _, task := range numbered("t", 100) {
		ids = append(ids, task.ID)
	}
	if err := store.DeleteTasks(ctx, append(ids, awkward.ID, "nil")); err != nil {
		t.Errorf("DeleteTasks = %v", err)
	}
}
