package recipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stinttest"
)

// remind asks for a reminder of a customer, of which there is one a day, in UTC. It reports whether
// this call is the one that has it sent.
func remind(
	ctx context.Context, store *stint.Store, customer string, now time.Time,
) (bool, error) {
	id := stint.OncePer(stint.TaskID("remind/"+customer), now, 24*time.Hour)
	err := store.InsertTasks(ctx, []stint.Task{
		{ID: id, Action: "remind", Body: []byte(customer)},
	})
	if errors.Is(err, stint.ErrTaskExists) {
		return false, nil // the day has had it
	}
	return err == nil, err
}

// importFiles has each file of a list imported, once, and a report made when all are. It returns
// the tasks of those that were there.
func importFiles(
	ctx context.Context, store *stint.Store, list string, files []string,
) (existing []stint.TaskID, err error) {
	report := stint.Task{ID: stint.TaskID("report/" + list), Action: "report"}
	tasks := make([]stint.Task, len(files))
	for i, file := range files {
		id := stint.TaskID("import/" + file)
		tasks[i] = stint.Task{ID: id, Action: "import", Body: []byte(file)}
		report.After = append(report.After, id)
	}
	return store.EnsureTasks(ctx, append(tasks, report))
}

// change writes a document and has its index updated, in one commit.
func change(ctx context.Context, pool *pgxpool.Pool, store *stint.Store, id, text string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO documents (id, text) VALUES ($1, $2)
			ON CONFLICT (id) DO UPDATE SET text = excluded.text`, id, text)
		if err != nil {
			return err
		}
		task := stint.Task{ID: stint.TaskID("index/" + id), Action: "index", Body: []byte(id)}
		return store.WithTx(tx).Debounce(ctx, task, 30*time.Second, 5*time.Minute)
	})
}

func TestRemind_IsOnceADay(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {11 * time.Hour, false}, {12 * time.Hour, true}, {35 * time.Hour, false}} {
		got, err := remind(t.Context(), store.Store, "ann", noon.Add(c.after))
		if got != c.want || err != nil {
			t.Errorf("remind %s later = %t, %v", c.after, got, err)
		}
	}
}

func TestImportFiles_ImportsEachFileOnce(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	for _, c := range []struct {
		list  string
		files []string
		want  string
	}{
		{"monday", []string{"a", "b"}, "[]"},
		{"tuesday", []string{"b", "c", "a"}, "[import/b import/a]"},
		{"tuesday", []string{"b", "c"}, "[import/b import/c report/tuesday]"},
	} {
		existing, err := importFiles(t.Context(), store.Store, c.list, c.files)
		if got := fmt.Sprint(existing); got != c.want || err != nil {
			t.Errorf("importFiles %s = %s, %v, want %s", c.list, got, err, c.want)
		}
	}
	graph, err := store.Graph(t.Context(), "report/tuesday")
	if err != nil || len(graph.Tasks) != 5 || len(graph.Dependencies) != 5 {
		t.Errorf("Graph = %+v, %v", graph, err)
	}
}

func TestChange_UpdatesTheIndexOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := stinttest.New(t, stint.Options{})
	exec(t, store, "CREATE TABLE documents (id text PRIMARY KEY, text text)")
	for _, text := range []string{"first", "second", "third"} {
		if err := change(t.Context(), store.Pool, store.Store, "7", text); err != nil {
			t.Fatalf("change = %v", err)
		}
	}
	page, err := store.ListTasks(t.Context(), stint.Filter{})
	if err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != "index/7" {
		t.Errorf("ListTasks = %+v, %v", page.Tasks, err)
	}
}
