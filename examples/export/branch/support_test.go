package branch

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// leaseInTests never ends by itself: the tests age it.
const leaseInTests = time.Hour

// A story is an application with its database and destination. Its own exporter is that of workers
// that do not die.
type story struct {
	*Exporter
	proxy *pgcut.Proxy
}

func newStory(t *testing.T) *story {
	t.Helper()
	pool := testdb.New(t)
	s := &story{Exporter: newExporter(t, pool, t.TempDir()), proxy: pgcut.New(t, pool)}
	t.Cleanup(func() {
		found, err := s.store.Check(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Errorf("Check = %v", err)
		}
		for _, inconsistency := range found {
			t.Error(inconsistency)
		}
	})
	return s
}

func newExporter(t *testing.T, pool *pgxpool.Pool, dir string) *Exporter {
	t.Helper()
	store, err := stint.New(pool, stint.Options{
		Maintenance: stint.MaintainNever, MaxLosses: stint.UnlimitedLosses, // owners die on purpose
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	e, err := New(t.Context(), pool, store, dir, leaseInTests)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// mortal is an exporter whose connections can be cut.
func (s *story) mortal(t *testing.T) *Exporter {
	t.Helper()
	const connections = 3
	return newExporter(t, s.proxy.Pool(t, connections), s.dir)
}

// commitAfter picks the commits of the transactions in which a statement of the application was
// executed, and so none of the store's own, which come when they like.
func commitAfter(name string) pgcut.Match {
	first, _, _ := strings.Cut(statement(name), "\n")
	return pgcut.Commits(first)
}

func (s *story) addBranch(t *testing.T, branch string) {
	t.Helper()
	if err := s.AddBranch(t.Context(), branch, []string{"a", "a/b", "empty"}); err != nil {
		t.Fatal(err)
	}
}

// changes make up a commit that adds, changes and deletes something at the top, below a prefix and
// below a prefix of it. No content is that of another commit.
func changes(head int64, tree Tree) []Change {
	commit := head + 1
	text := fmt.Appendf(nil, "of commit %d\n", commit)
	made := []Change{
		{"top", text},
		{"a/x", text},
		{"a/b/y", text},
		{fmt.Sprintf("a/b/%d", commit), text},
	}
	if old := fmt.Sprintf("a/b/%d", head); tree[old].ID != 0 {
		made = append(made, Change{Path: old})
	}
	return made
}

func (s *story) commit(t *testing.T, branch string) {
	t.Helper()
	if made, err := s.Commit(t.Context(), branch, changes); err != nil || !made {
		t.Fatalf("Commit = %v, %v", made, err)
	}
}

// mustOwn owns a task, of which there must be one.
func mustOwn(t *testing.T, e *Exporter, actor stint.ActorID) *ownedTask {
	t.Helper()
	task, err := e.own(t.Context(), actor)
	if err != nil || task == nil {
		t.Fatalf("own = %v, %v; want a task", task, err)
	}
	return task
}

func mustHandle(t *testing.T, e *Exporter, task *ownedTask) {
	t.Helper()
	if err := e.handle(t.Context(), task); err != nil {
		t.Fatalf("%s of %+v: %v", task.Action, task.body, err)
	}
}

// drain performs tasks until none is ready.
func (s *story) drain(t *testing.T) {
	t.Helper()
	for {
		task, err := s.own(t.Context(), "drain")
		if err != nil {
			t.Fatal(err)
		}
		if task == nil {
			return
		}
		mustHandle(t, s.Exporter, task)
	}
}

// drainUntil performs tasks until one of the action is ready, and owns that.
func (s *story) drainUntil(t *testing.T, action string) *ownedTask {
	t.Helper()
	for {
		task := mustOwn(t, s.Exporter, "drain")
		if task.Action == action {
			return task
		}
		mustHandle(t, s.Exporter, task)
	}
}

// expireLeases lets every lease expire, and takes the tasks back.
func (s *story) expireLeases(ctx context.Context) error {
	_, err := s.pool.Exec(ctx,
		"UPDATE stint.leases SET deadline = statement_timestamp() - interval '1 second'")
	if err != nil {
		return err
	}
	return s.store.Maintain(ctx)
}

func (s *story) mustExpireLeases(t *testing.T) {
	t.Helper()
	if err := s.expireLeases(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *story) state(t *testing.T, id stint.TaskID) stint.State {
	t.Helper()
	infos, err := s.store.GetTasks(t.Context(), []stint.TaskID{id})
	if err != nil || len(infos) != 1 {
		t.Fatalf("GetTasks = %v, %v", infos, err)
	}
	return infos[0].State
}

func (s *story) wantState(t *testing.T, id stint.TaskID, want stint.State) {
	t.Helper()
	if got := s.state(t, id); got != want {
		t.Errorf("%s is %s, want %s", id, got, want)
	}
}

// unfinished are the tasks that are not final, as of one instant.
func (s *story) unfinished(t *testing.T) []stint.TaskInfo {
	t.Helper()
	filter := stint.Filter{Limit: tasksMax, States: []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
	}}
	page, err := s.store.ListTasks(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	return page.Tasks
}

func (s *story) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	tag, err := s.pool.Exec(t.Context(), statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	if tag.RowsAffected() == 0 {
		t.Fatalf("%s: concerns no row", statement)
	}
}

// report returns the report on a branch.
func (s *story) report(t *testing.T, branch string) *Report {
	t.Helper()
	r, err := s.Report(t.Context(), branch)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantKept checks that all is as promised on a branch that has so many commits.
func (s *story) wantKept(t *testing.T, branch string, commits int64) *Report {
	t.Helper()
	r := s.report(t, branch)
	for _, problem := range r.Problems {
		t.Errorf("%s: %s", branch, problem)
	}
	if r.Head != commits || r.Exported != commits || r.Together != 1 {
		t.Errorf("%s: newest commit %d, last export of %d, %d at a time; want %d, the same, 1",
			branch, r.Head, r.Exported, r.Together, commits)
	}
	if r.Requests != r.Exports+r.Superseded {
		t.Errorf("%s: %d requests, %d exports, %d superseded", branch, r.Requests, r.Exports,
			r.Superseded)
	}
	return r
}

// snapshot is all that workers can change: the files of all branches, the tables of the application
// and the states of the tasks.
func (s *story) snapshot(t *testing.T) []string {
	t.Helper()
	var found []string
	root := filepath.Clean(s.dir)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".export-") {
			return fs.SkipDir // What is in there has not been put in place.
		}
		line := strings.TrimPrefix(name, root)
		if entry.Type().IsRegular() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += " " + sumOf(content)
		}
		found = append(found, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"branches", "objects", "requests", "exports", "performances"} {
		rows, err := s.pool.Query(t.Context(),
			"SELECT '"+table+"' || line::text FROM "+table+" AS line ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			found = append(found, line)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.store.ListTasks(t.Context(), stint.Filter{Limit: tasksMax})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range page.Tasks {
		line := fmt.Sprintf("%s %s %s %d", info.ID, info.State, info.Actor, info.Tries)
		found = append(found, line)
	}
	return found
}

const tasksMax = 10_000

func wantSame(t *testing.T, after string, got, want []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("after %s there is %s", after, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("after %s there is no %s", after, line)
		}
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const most = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: never came", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// waitsForLock reports whether a session of the database waits for a lock.
func (s *story) waitsForLock(t *testing.T) (waiting bool) {
	t.Helper()
	err := s.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting)
	if err != nil {
		t.Fatal(err)
	}
	return waiting
}
