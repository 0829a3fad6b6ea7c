//go:build unix

package upgrade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
)

// late is when something that a test waits for does not come any more.
const late = 2 * time.Minute

func wantErr(t *testing.T, call string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s = %v, want %v", call, got, want)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: never came", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func execute(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func yields[T any](t *testing.T, pool *pgxpool.Pool, query string, args ...any) T {
	t.Helper()
	var value T
	if err := pool.QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func version(t *testing.T, pool *pgxpool.Pool) int32 {
	t.Helper()
	return yields[int32](t, pool, "SELECT version FROM stint.stint_schema_version")
}

func wantVersion(t *testing.T, pool *pgxpool.Pool, want int32) {
	t.Helper()
	if got := version(t, pool); got != want {
		t.Fatalf("the schema is at version %d, want %d", got, want)
	}
}

func openStore(t *testing.T, pool *pgxpool.Pool) *stint.Store {
	t.Helper()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainAlways})
	wantErr(t, "New", err, nil)
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	return store
}

// verbs are those of a store, and of a client of a service.
type verbs interface {
	InsertTasks(ctx context.Context, tasks []stint.Task) error
	OwnTasks(
		ctx context.Context, actor stint.ActorID, maxTasks int, actions []string,
		lease time.Duration,
	) ([]stint.OwnedTask, error)
	ExtendTasksOwnership(
		ctx context.Context, actor stint.ActorID, owned []stint.OwnedTask, lease time.Duration,
	) ([]bool, error)
	ReturnTasks(ctx context.Context, returns []stint.Return) ([]error, error)
	GetTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error)
	ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
}

// A side is the verbs of a release.
type side struct {
	verbs
	t     *testing.T
	actor stint.ActorID
}

func (s side) insert(tasks ...stint.Task) {
	s.t.Helper()
	wantErr(s.t, "InsertTasks", s.InsertTasks(s.t.Context(), tasks), nil)
}

// own owns as many tasks with an action.
func (s side) own(action string, n int, lease time.Duration) []stint.OwnedTask {
	s.t.Helper()
	tasks, err := s.OwnTasks(s.t.Context(), s.actor, n, []string{action}, lease)
	if err != nil || len(tasks) != n {
		s.t.Fatalf("%s: OwnTasks(%q, %d) = %d tasks, %v", s.actor, action, n, len(tasks), err)
	}
	return tasks
}

// end returns tasks.
func (s side) end(tasks []stint.OwnedTask, how stint.Return) {
	s.t.Helper()
	returns := make([]stint.Return, len(tasks))
	for i, task := range tasks {
		returns[i] = how
		returns[i].ID, returns[i].Token = task.ID, task.Token
	}
	verdicts, err := s.ReturnTasks(s.t.Context(), returns)
	if err := errors.Join(append(verdicts, err)...); err != nil {
		s.t.Fatalf("%s: ReturnTasks = %v", s.actor, err)
	}
}

func (s side) complete(tasks ...stint.OwnedTask) {
	s.t.Helper()
	s.end(tasks, stint.Return{Code: stint.StatusCompleted})
}

func (s side) get(id stint.TaskID) stint.TaskInfo {
	s.t.Helper()
	tasks, err := s.GetTasks(s.t.Context(), []stint.TaskID{id})
	wantErr(s.t, "GetTasks", err, nil)
	return tasks[0]
}

// wantState checks the state of tasks, with the cause if they are aborted.
func (s side) wantState(want string, ids ...stint.TaskID) {
	s.t.Helper()
	for _, id := range ids {
		task := s.get(id)
		got := strings.TrimSpace(fmt.Sprint(task.State, " ", task.AbortCause))
		if got != want {
			s.t.Errorf("%s: %q is %s, want %s", s.actor, id, got, want)
		}
	}
}

// wantClean looks for what is wrong with the tables, as both releases see it.
func wantClean(t *testing.T, store *stint.Store, old release) {
	t.Helper()
	wrong, err := store.Check(t.Context())
	if err != nil || len(wrong) > 0 {
		t.Errorf("Check = %v, %v", wrong, err)
	}
	// The command also finds that the settings of the test's server are not safe.
	stdout, stderr, _ := old.run(t, "", "check", "--json")
	var checked struct {
		Findings []struct{ Topic, Severity, Text string }
	}
	if err := json.Unmarshal([]byte(stdout), &checked); err != nil {
		t.Errorf("old stint check: %v\n%s%s", err, stdout, stderr)
	}
	for _, finding := range checked.Findings {
		if strings.Contains(finding.Text, "finished_cause_known was never validated") {
			continue // it would read all finished tasks; docs/operations/upgrades.md says so
		}
		if finding.Topic != "settings" && finding.Severity != "note" {
			t.Errorf("old stint check: %+v", finding)
		}
	}
}

// newer are the fields that the old release does not know, such as when finished tasks were owned.
var newer = regexp.MustCompile(`"total_dependencies":\d+,"signals":\d+,?|,"start":\{[^}]*\}|` +
	`,"owned_at":"[^"]*"(,"finished_at")`)

// look is all tasks, and those of some IDs with everything that both releases know, as the command
// of one prints them.
func look(t *testing.T, r release, shown []stint.TaskID) []string {
	t.Helper()
	lines := slices.Collect(strings.Lines(
		r.must(t, "", "ls", "--json", "--limit", "10000")))
	for _, id := range shown {
		lines = append(lines, r.must(t, "", "show", "--json", string(id)))
	}
	for i, line := range lines {
		lines[i] = newer.ReplaceAllString(line, "$1")
	}
	return lines
}

func wantSame(t *testing.T, before, after []string) {
	t.Helper()
	if len(before) != len(after) {
		t.Fatalf("there are %d lines, want %d", len(after), len(before))
	}
	for i := range before {
		if before[i] != after[i] {
			t.Errorf("a line is\n%swant\n%s", after[i], before[i])
		}
	}
}

func named(prefix, action string, n int) []stint.Task {
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint(prefix, i)), Action: action}
	}
	return tasks
}

// columns describes the schema, to compare it.
func columns(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return yields[string](t, pool, `SELECT string_agg(format('%s.%s %s', table_name, column_name,
		data_type), E'\n' ORDER BY table_name, column_name)
		FROM information_schema.columns WHERE table_schema = $1`, migrations.DefaultSchema)
}
