package importtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// Proves G240.
func TestImport_MakesTasksOfTheJobsOfGue(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	where, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/vgarvardt/gue/v5").Output()
	if err != nil {
		t.Fatal(err)
	}
	schema, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(where)), "migrations",
		"schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	db.exec(t, string(schema))
	client, err := gue.NewClient(pgxv5.NewConnPool(db.Pool))
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	jobs := []*gue.Job{
		{Type: "email", Args: []byte("ann"), Priority: -32768},
		{Type: "email", Args: []byte("bob"), Priority: 7},
		{Type: "email", Args: []byte("eve"), RunAt: later},
		{Type: "report", Args: []byte("7"), Queue: "slow"},
		{Type: strings.Repeat("x", 300), Args: []byte("no action may be so long")},
	}
	for _, job := range jobs {
		if err := client.Enqueue(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	held, err := client.LockJob(t.Context(), "slow") // as a worker does while it performs the job
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Done(context.WithoutCancel(t.Context())) }) // frees the connection
	got := db.imports(t, "gue")
	if want := "[{email email 2 1}]"; fmt.Sprint(got.Imported) != want ||
		fmt.Sprint(got.Left) != "map[running or new:2]" || len(got.Refused) != 1 {
		t.Errorf("import printed %+v, want %s", got, want)
	}
	tasks := db.tasks(t)
	for i, want := range []stint.TaskInfo{
		{Body: []byte("ann"), Priority: 32767},
		{Body: []byte("bob"), Priority: -7},
		{Body: []byte("eve"), NotBefore: later},
	} {
		task := tasks[stint.TaskID("gue/"+jobs[i].ID.String())]
		if task.Action != "email" || string(task.Body) != string(want.Body) ||
			task.Priority != want.Priority || task.MaxTries != stint.UnlimitedTries ||
			!task.NotBefore.Equal(want.NotBefore) {
			t.Errorf("job %d became %+v, want %+v", i, task, want)
		}
	}
	db.agrees(t)
}

// graphileWorker is the release whose tables are tested.
const graphileWorker = "graphile-worker@0.18.0"

func newGraphileWorker(t *testing.T) *database {
	t.Helper()
	db := newDatabase(t)
	output, err := exec.CommandContext(t.Context(), "npm", "exec", "--yes", "--package",
		graphileWorker, "--", "graphile-worker", "--schema-only",
		"--connection", testdb.URL(db.Pool)).CombinedOutput()
	if err != nil {
		t.Fatalf("graphile-worker --schema-only: %v (npm of Node 20 or newer is needed)\n%s", err,
			output)
	}
	return db
}

// Proves G240.
func TestImport_MakesTasksOfTheJobsOfGraphileWorker(t *testing.T) {
	t.Parallel()
	db := newGraphileWorker(t)
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	add := func(kind, payload string, more string, args ...any) (id int64) {
		t.Helper()
		call := `SELECT id FROM graphile_worker.add_job($1, $2::json` + more + `)`
		args = append([]any{kind, payload}, args...)
		err := db.QueryRow(t.Context(), call, args...).Scan(&id)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ready := add("email", `{"to": "ann"}`, "")
	queued := add("email", `{"to": "bob"}`, `, queue_name := 'bob', priority := 4`)
	scheduled := add("email", `{"to": "eve"}`, `, run_at := $3, max_attempts := 3`, later)
	running := add("report", `{}`, ", queue_name := 'reports'")
	add("report", `{}`, ", queue_name := 'reports'") // must not begin meanwhile
	failed := add("report", `{}`, "")
	long := add("email", `{}`, ", queue_name := repeat('€', 120)") // the key would be too long
	db.exec(t, `UPDATE graphile_worker._private_jobs SET locked_at = now(), locked_by = 'w'
		WHERE id = $1`, running)
	db.exec(t, `UPDATE graphile_worker._private_job_queues SET locked_at = now(), locked_by = 'w'
		WHERE queue_name = 'reports'`)
	db.exec(t, `SELECT graphile_worker.permanently_fail_jobs(ARRAY[$1::bigint])`, failed)
	got := db.imports(t, "graphile-worker")
	if want := "[{email email 2 1}]"; fmt.Sprint(got.Imported) != want ||
		fmt.Sprint(got.Left) != "map[behind a running one:1 failed:1 new:1 running:1]" ||
		len(got.Refused) != 1 || got.Refused[0].Job != fmt.Sprint(long) {
		t.Errorf("import printed %+v, want %s", got, want)
	}
	tasks := db.tasks(t)
	for id, want := range map[int64]stint.TaskInfo{
		ready:     {Body: []byte(`{"to": "ann"}`), MaxTries: 25},
		queued:    {Body: []byte(`{"to": "bob"}`), MaxTries: 25, Priority: -4, Key: "bob"},
		scheduled: {Body: []byte(`{"to": "eve"}`), MaxTries: 3, NotBefore: later},
	} {
		task := tasks[stint.TaskID(fmt.Sprintf("graphile-worker/%d", id))]
		if task.Action != "email" || string(task.Body) != string(want.Body) ||
			task.Priority != want.Priority || task.MaxTries != want.MaxTries ||
			task.Key != want.Key || !task.NotBefore.Equal(want.NotBefore) {
			t.Errorf("job %d became %+v, want %+v", id, task, want)
		}
	}
	db.agrees(t)
}

// Row security hides jobs from an account that does not own them. The command says so.
func TestImport_MissesNoHiddenJobs(t *testing.T) {
	t.Parallel()
	db := newGraphileWorker(t)
	db.exec(t, `SELECT graphile_worker.add_job('email')`)
	role := pgx.Identifier{db.Config().ConnConfig.Database + "_mover"}.Sanitize()
	for _, statement := range []string{
		"CREATE ROLE " + role,
		"GRANT ALL ON SCHEMA stint, graphile_worker TO " + role,
		"GRANT ALL ON ALL TABLES IN SCHEMA stint, graphile_worker TO " + role,
		"GRANT ALL ON ALL SEQUENCES IN SCHEMA stint TO " + role,
	} {
		db.exec(t, statement)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := db.Exec(ctx, "DROP OWNED BY "+role)
		if err == nil {
			_, err = db.Exec(ctx, "DROP ROLE "+role)
		}
		if err != nil {
			t.Error(err)
		}
	})
	as := testdb.URL(db.Pool) + "&options=-c%20role%3D" + strings.Trim(role, `"`)
	_, stderr, code := db.stint(t, "--database-url", as, "import", "graphile-worker")
	if code == 0 || !strings.Contains(stderr, "row-level security") {
		t.Errorf("import exited with %d: %s", code, stderr)
	}
}

func TestImport_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	for name, wrong := range map[string]struct {
		args []string
		says string
	}{
		"no tables":      {[]string{"river"}, "--from-schema"},
		"no schema":      {[]string{"gue", "--from-schema", "nowhere"}, "--from-schema"},
		"no action":      {[]string{"river", "--action", "email"}, "KIND=ACTION"},
		"two actions":    {[]string{"river", "--action", "a=b", "--action", "a=c"}, "two actions"},
		"not that kind":  {[]string{"river", "--kind", "a", "--action", "b=c"}, "--kind does not"},
		"unknown source": {[]string{"sidekiq"}, "stint import --help"},
	} {
		_, stderr, code := db.stint(t, append([]string{"import"}, wrong.args...)...)
		if code != 2 || !strings.Contains(stderr, wrong.says) {
			t.Errorf("%s: import exited with %d: %s", name, code, stderr)
		}
	}
}
