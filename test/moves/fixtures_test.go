//go:build unix

package moves_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/taskstore"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const late = 2 * time.Minute

func wantErr(tb testing.TB, call string, got, want error) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Fatalf("%s = %v, want %v", call, got, want)
	}
}

func exec(tb testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

func yields[T any](tb testing.TB, pool *pgxpool.Pool, query string, args ...any) T {
	tb.Helper()
	var value T
	if err := pool.QueryRow(tb.Context(), query, args...).Scan(&value); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return value
}

// eventually waits until a condition holds.
func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), late)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			tb.Fatalf("%s: never came", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func migrate(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	wantErr(tb, "MigratePool", migrations.MigratePool(tb.Context(), pool), nil)
}

func openStore(tb testing.TB, pool *pgxpool.Pool) *stint.Store {
	tb.Helper()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainAlways})
	wantErr(tb, "New", err, nil)
	tb.Cleanup(func() { _ = store.Close(context.WithoutCancel(tb.Context())) })
	return store
}

// A world is a store with tasks in every state, as it was before a move.
type world struct {
	store *stint.Store
	// owned is a task that its owner goes on with after the move.
	owned stint.OwnedTask
	// holder is a task that leaves no room to others of its key; limits is what there are.
	holder stint.OwnedTask
	limits string
	// states are the tasks by ID; key and position are the last ones given out, taskID the last one
	// of the task store.
	states        map[string]string
	key, position int64
	taskID        int64
}

const many = 3000

// settled is how the tasks are whose state a move does not change.
const settled = `SELECT id, format('%s, %s tries, %L, %L', state, tries, status, result)
	FROM stint.task_states WHERE id <> 'of a dead process' ORDER BY id COLLATE "C"`

func named(prefix string, n int) []stint.Task {
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint(prefix, i)), Action: "bulk"}
	}
	return tasks
}

// populate makes tasks in every state, by the verbs. The process that connects by dying does not
// come to the other side.
func populate(tb testing.TB, pool, dyingPool *pgxpool.Pool) *world {
	tb.Helper()
	ctx := tb.Context()
	store := openStore(tb, pool)
	insert := func(tasks ...stint.Task) {
		tb.Helper()
		wantErr(tb, "InsertTasks", store.InsertTasks(ctx, tasks), nil)
	}
	own := func(action string, actor stint.ActorID) stint.OwnedTask {
		tb.Helper()
		tasks, err := store.OwnTasks(ctx, actor, 1, []string{action}, time.Hour)
		if err != nil || len(tasks) != 1 {
			tb.Fatalf("OwnTasks(%q) = %v, %v", action, tasks, err)
		}
		return tasks[0]
	}
	insert(named("waiting ", many)...)
	inAnHour := time.Now().Add(time.Hour)
	insert(stint.Task{ID: "scheduled", Action: "bulk", NotBefore: inAnHour},
		stint.Task{ID: "first", Action: "bulk", Deadline: inAnHour},
		stint.Task{ID: "then", Action: "bulk", After: []stint.TaskID{"first"}},
		stint.Task{ID: "question", Action: stint.External},
		stint.Task{ID: "answered with", Action: "result", PostResult: true},
		stint.Task{ID: "failed", Action: "fail"},
		stint.Task{ID: "doomed", Action: "bulk", After: []stint.TaskID{"failed"}},
		stint.Task{ID: "of a dead process", Action: "dead"}, stint.Task{ID: "owned", Action: "own"})
	done, failed := own("result", "a"), own("fail", "a")
	verdicts, err := store.ReturnTasks(ctx, []stint.Return{
		{ID: done.ID, Token: done.Token, Code: stint.StatusCompleted, Result: []byte("42")},
		{ID: failed.ID, Token: failed.Token, Code: stint.StatusAborted, Status: "said"},
	})
	wantErr(tb, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
	dying := openStore(tb, dyingPool)
	wantErr(tb, "RegisterActor", dying.RegisterActor(ctx, "dying", []string{"dead"}), nil)
	tasks, err := dying.OwnTasks(ctx, "dying", 1, []string{"dead"}, stint.NoExpiry)
	if err != nil || len(tasks) != 1 {
		tb.Fatalf("OwnTasks = %v, %v", tasks, err)
	}
	w := &world{store: store, owned: own("own", "b"), holder: limit(tb, store)}
	w.look(tb, pool)
	w.taskID = addToTaskStore(tb, pool)
	return w
}

func addToTaskStore(tb testing.TB, pool *pgxpool.Pool) int64 {
	tb.Helper()
	tasks, err := taskstore.New(pool, taskstore.Options{})
	wantErr(tb, "New", err, nil)
	added, err := tasks.Update(tb.Context(), taskstore.Request{
		Client: 1, Adds: []taskstore.Add{{Group: "g", Data: []byte("data")}},
	})
	wantErr(tb, "Update", err, nil)
	return added[0].ID
}

func (w *world) look(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	w.states, w.limits = states(tb, pool), limits(tb, w.store)
	w.key = yields[int64](tb, pool, "SELECT max(key) FROM stint.tasks")
	w.position = yields[int64](tb, pool, "SELECT max(position) FROM stint.ready")
}

func states(tb testing.TB, pool *pgxpool.Pool) map[string]string {
	tb.Helper()
	rows, err := pool.Query(tb.Context(), settled)
	wantErr(tb, "Query", err, nil)
	found := map[string]string{}
	var id, state string
	_, err = pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		found[id] = state
		return nil
	})
	wantErr(tb, "Query", err, nil)
	return found
}

// wantWhole compares what has arrived with what there was, and goes on with it: the owner returns
// its task, a process that is gone loses its own, new tasks come behind the old ones, and
// everything is performed.
func (w *world) wantWhole(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	ctx := tb.Context()
	got := states(tb, pool)
	for id, want := range w.states {
		if got[id] != want {
			tb.Errorf("%q is %s, want %s", id, got[id], want)
		}
	}
	if len(got) != len(w.states) {
		tb.Errorf("there are %d tasks, want %d", len(got), len(w.states))
	}
	store := openStore(tb, pool)
	wantErr(tb, "ReturnTask", store.ReturnTask(ctx, w.owned.ID, w.owned.Token, "",
		stint.StatusCompleted), nil)
	waiting, cancel := context.WithTimeout(ctx, late)
	defer cancel()
	tasks, err := store.WaitToOwnTasks(waiting, "another", 1, []string{"dead"}, time.Hour)
	if err != nil || len(tasks) != 1 {
		tb.Errorf("the task of the dead process is not handed on: %v, %v", tasks, err)
	}
	w.wantNewKeys(tb, pool, store)
	verdicts, err := store.AnswerTasks(ctx, "people", []stint.Answer{
		{ID: "question", Code: stint.StatusCompleted},
	})
	wantErr(tb, "AnswerTasks", errors.Join(append(verdicts, err)...), nil)
	info, err := store.GetTasks(ctx, []stint.TaskID{"answered with"})
	if err != nil || string(info[0].Result) != "42" {
		tb.Errorf("GetTasks = %v, %v", info, err)
	}
	w.wantLimits(tb, store)
	performAll(tb, store)
	wantInOrder(tb, pool, store)
	if id := addToTaskStore(tb, pool); id <= w.taskID {
		tb.Errorf("the task store gave out ID %d after %d", id, w.taskID)
	}
}

// wantNewKeys inserts tasks, whose keys and positions must be new.
func (w *world) wantNewKeys(tb testing.TB, pool *pgxpool.Pool, store *stint.Store) {
	tb.Helper()
	for _, n := range []int{1, 2, many} { // each by another way
		prefix := fmt.Sprintf("new %d/", n)
		wantErr(tb, "InsertTasks", store.InsertTasks(tb.Context(), named(prefix, n)), nil)
		key := yields[int64](tb, pool, "SELECT min(key) FROM stint.tasks WHERE starts_with(id, $1)",
			prefix)
		position := yields[int64](tb, pool, `SELECT min(ready.position)
			FROM stint.ready JOIN stint.tasks ON key BETWEEN lo AND hi WHERE starts_with(id, $1)`,
			prefix)
		if key <= w.key || position <= w.position {
			tb.Errorf("new tasks got key %d after %d, position %d after %d", key, w.key, position,
				w.position)
		}
	}
}

// performAll completes what can be owned.
func performAll(tb testing.TB, store *stint.Store) {
	tb.Helper()
	for {
		tasks, err := store.OwnTasks(tb.Context(), "a", 1000, []string{"bulk"}, time.Hour)
		wantErr(tb, "OwnTasks", err, nil)
		if len(tasks) == 0 {
			return
		}
		complete(tb, store, tasks...)
	}
}

// wantInOrder looks for what is wrong with a store in which all has been performed that can be.
func wantInOrder(tb testing.TB, pool *pgxpool.Pool, store *stint.Store) {
	tb.Helper()
	left := yields[string](tb, pool, `
		SELECT string_agg(format('%s %s', id, state), ', ' ORDER BY id)
		FROM stint.task_states WHERE state < 10`)
	if left != "of a dead process 3, scheduled 1" {
		tb.Errorf("left: %s", left)
	}
	wrong, err := store.Check(tb.Context())
	if err != nil || len(wrong) > 0 {
		tb.Errorf("Check = %v, %v", wrong, err)
	}
	if findings := sequenceFindings(tb, pool, store); len(findings) > 0 {
		tb.Errorf("the check says %q", findings)
	}
}

// sequenceFindings are the findings of the command check about sequences.
func sequenceFindings(tb testing.TB, pool *pgxpool.Pool, store *stint.Store) []string {
	tb.Helper()
	findings, err := doctor.Examine(tb.Context(), pool, store, migrations.DefaultSchema)
	wantErr(tb, "Examine", err, nil)
	var about []string
	for _, f := range findings {
		if f.Topic == "sequences" {
			about = append(about, strings.Fields(f.Text)[2])
		}
	}
	slices.Sort(about)
	return about
}
