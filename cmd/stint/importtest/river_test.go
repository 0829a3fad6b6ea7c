package importtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/jobimport"
	"github.com/stint-tasks/stint/worker"
)

type email struct {
	To string `json:"to"`
}

func (email) Kind() string { return "email" }

type report struct {
	Number int `json:"number"`
}

func (report) Kind() string { return "report" }

func newRiver(t *testing.T) (*database, *river.Client[pgx.Tx]) {
	t.Helper()
	db := newDatabase(t)
	driver := riverpgxv5.New(db.Pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	client, err := river.NewClient(driver, &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return db, client
}

func insertRiver(
	t *testing.T, client *river.Client[pgx.Tx], args river.JobArgs, opts *river.InsertOpts,
) int64 {
	t.Helper()
	inserted, err := client.Insert(t.Context(), args, opts)
	if err != nil {
		t.Fatal(err)
	}
	return inserted.Job.ID
}

// Proves G240.
func TestImport_MakesTasksOfTheWaitingJobsOfRiver(t *testing.T) {
	t.Parallel()
	db, client := newRiver(t)
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	ready := insertRiver(t, client, email{"ann"}, nil)
	urgent := insertRiver(t, client, report{7}, &river.InsertOpts{Priority: 1, MaxAttempts: 3})
	idle := insertRiver(t, client, email{"bob"}, &river.InsertOpts{Priority: 4})
	scheduled := insertRiver(t, client, email{"eve"}, &river.InsertOpts{ScheduledAt: later})
	retryable := insertRiver(t, client, report{8}, &river.InsertOpts{MaxAttempts: 5})
	db.exec(t, `UPDATE river_job SET state = 'retryable', attempt = 2, scheduled_at = $2
		WHERE id = $1`, retryable, later)
	for state, n := range map[string]int{"running": 2, "pending": 1} {
		for range n {
			id := insertRiver(t, client, report{}, nil)
			db.exec(t, `UPDATE river_job SET state = $2::text::river_job_state WHERE id = $1`, id,
				state)
		}
	}
	over := insertRiver(t, client, report{}, nil)
	db.exec(t, `UPDATE river_job SET state = 'completed', finalized_at = now() WHERE id = $1`, over)

	tried := db.imports(t, "river", "--dry-run", "--action", "email=send-mail")
	if len(tried.WouldImport) != 2 || len(db.tasks(t)) != 0 {
		t.Errorf("a dry run printed %+v, and made %d tasks", tried, len(db.tasks(t)))
	}
	got := db.imports(t, "river", "--action", "email=send-mail")
	want := fmt.Sprint([]any{"{email send-mail 2 1}", "{report report 1 1}"})
	if fmt.Sprint(got.Imported) != want || fmt.Sprint(got.Left) != "map[pending:1 running:2]" {
		t.Errorf("import printed %+v, want %s", got, want)
	}
	tasks := db.tasks(t)
	for id, want := range map[int64]stint.TaskInfo{
		ready:  {Action: "send-mail", Body: []byte(`{"to": "ann"}`), MaxTries: 25},
		urgent: {Action: "report", Body: []byte(`{"number": 7}`), MaxTries: 3},
		idle:   {Action: "send-mail", Body: []byte(`{"to": "bob"}`), Priority: -3, MaxTries: 25},
		scheduled: {
			Action: "send-mail", Body: []byte(`{"to": "eve"}`), NotBefore: later, MaxTries: 25,
		},
		retryable: {
			Action: "report", Body: []byte(`{"number": 8}`), NotBefore: later, MaxTries: 3,
		},
	} {
		task := tasks[stint.TaskID(fmt.Sprintf("river/%d", id))]
		if task.Action != want.Action || string(task.Body) != string(want.Body) ||
			task.Priority != want.Priority || task.MaxTries != want.MaxTries ||
			!task.NotBefore.Equal(want.NotBefore) {
			t.Errorf("job %d became %+v, want %+v", id, task, want)
		}
	}
	if len(tasks) != 5 {
		t.Errorf("%d tasks were made, want 5", len(tasks))
	}
	if again := db.imports(t, "river"); len(again.Imported) != 0 {
		t.Errorf("a second import printed %+v", again)
	}
	db.agrees(t)
}

// A job that cannot become a task does not keep the others: it stays, and is named.
// Proves G320.
func TestImport_LeavesAndNamesWhatCannotBeATask(t *testing.T) {
	t.Parallel()
	db, client := newRiver(t)
	var good, bad []int64
	for range 3 {
		good = append(good, insertRiver(t, client, email{"ann"}, nil))
		for _, change := range []string{
			`scheduled_at = 'infinity', state = 'scheduled'`,
			`scheduled_at = '12026-01-01', state = 'scheduled'`,
			`kind = repeat('€', 100)`,
		} {
			id := insertRiver(t, client, report{7}, nil)
			db.exec(t, "UPDATE river_job SET "+change+" WHERE id = $1", id)
			bad = append(bad, id)
		}
	}
	got := db.imports(t, "river")
	if fmt.Sprint(got.Imported) != "[{email email 3 0}]" || len(got.Refused) != len(bad) ||
		fmt.Sprint(got.Left) != "map[available:3 scheduled:6]" {
		t.Errorf("import printed %+v", got)
	}
	says := map[string]string{}
	for _, refused := range got.Refused {
		says[refused.Job] = refused.Problem
	}
	for i, id := range bad {
		want := []string{"infinity", "years 1 and 9999", "Task.Action"}[i%3]
		if !strings.Contains(says[fmt.Sprint(id)], want) {
			t.Errorf("of job %d import says %q, want %q", id, says[fmt.Sprint(id)], want)
		}
	}
	if len(db.tasks(t)) != len(good) {
		t.Errorf("there are %d tasks, want %d", len(db.tasks(t)), len(good))
	}
	stdout, _, _ := db.stint(t, "import", "river")
	want := fmt.Sprintf("left, since it cannot become a task: job %d (report): it never starts",
		bad[0])
	if !strings.Contains(stdout, want) {
		t.Errorf("import printed %q, want %q", stdout, want)
	}
	db.agrees(t)
}

// Jobs of a paused queue do not begin with Stint, unless somebody asks for that queue.
// Proves G320.
func TestImport_LeavesPausedQueuesAndNamesTheOthers(t *testing.T) {
	t.Parallel()
	db, client := newRiver(t)
	for _, queue := range []string{"slow", "slow", "paused", "default"} {
		insertRiver(t, client, email{"ann"}, &river.InsertOpts{Queue: queue})
	}
	db.exec(t, `INSERT INTO river_queue (name, paused_at, updated_at) VALUES
		('slow', NULL, now()), ('paused', now(), now())`)
	stdout, _, code := db.stint(t, "import", "river")
	want := "imported 3 jobs of River\n" +
		"KIND   QUEUE    ACTION  READY  SCHEDULED\n" +
		"email  default  email   1      0\n" +
		"email  slow     email   2      0\n" +
		"left there: 1 available in the paused queue paused\n"
	if code != 0 || stdout != want {
		t.Errorf("import exited with %d and printed %q, want %q", code, stdout, want)
	}
	stdout, _, code = db.stint(t, "import", "river", "--queue", "paused", "--action", "email=e")
	if want := "email  paused  e       1      0\n"; code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("import exited with %d and printed %q, want %q", code, stdout, want)
	}
}

// Two schemas have jobs with the same numbers.
func TestImport_TakesJobsOfSeveralSchemas(t *testing.T) {
	t.Parallel()
	db, client := newRiver(t)
	driver := riverpgxv5.New(db.Pool)
	db.exec(t, "CREATE SCHEMA other")
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	second, err := river.NewClient(driver, &river.Config{Schema: "other"})
	if err != nil {
		t.Fatal(err)
	}
	id := insertRiver(t, client, email{"ann"}, nil)
	same := insertRiver(t, second, email{"bob"}, nil)
	db.imports(t, "river")
	db.imports(t, "river", "--from-schema", "other")
	tasks := db.tasks(t)
	for id, want := range map[string]string{
		fmt.Sprintf("river/%d", id): "ann", fmt.Sprintf("river/other/%d", same): "bob",
	} {
		if body := string(tasks[stint.TaskID(id)].Body); !strings.Contains(body, want) {
			t.Errorf("task %q has the body %q, want %q", id, body, want)
		}
	}
}

// Memory holds arguments as they are sent, and not as they are compressed in the table.
func TestImport_CountsBytesAsTheyAreSent(t *testing.T) {
	t.Parallel()
	db, client := newRiver(t)
	for range 5 {
		insertRiver(t, client, email{strings.Repeat("a", 8<<20)}, nil)
	}
	var pages []int
	wanted := jobimport.Import{
		Source:   jobimport.Sources[0],
		Progress: func(jobs int) { pages = append(pages, jobs) },
	}
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := wanted.In(t.Context(), tx, db.store)
		return err
	})
	if err != nil || fmt.Sprint(pages) != "[2 4 5]" {
		t.Errorf("the pages end behind %v jobs, %v; want 16 MiB each", pages, err)
	}
}

func TestImport_TakesTheKindsAsked(t *testing.T) {
	t.Parallel()
	db, client := newRiver(t)
	insertRiver(t, client, email{"ann"}, nil)
	insertRiver(t, client, report{7}, nil)
	stdout, stderr, code := db.stint(t, "import", "river", "--kind", "report")
	want := "imported 1 job of River\n" +
		"KIND    ACTION  READY  SCHEDULED\n" +
		"report  report  1      0\n"
	if code != 0 || stdout != want {
		t.Errorf("import exited with %d and printed %q%s, want %q", code, stdout, stderr, want)
	}
}

// Nothing has changed if a task cannot be inserted.
func TestImport_IsAllOrNothing(t *testing.T) {
	t.Parallel()
	db, client := newRiver(t)
	insertRiver(t, client, email{"ann"}, nil)
	id := insertRiver(t, client, report{7}, nil)
	taken := stint.Task{ID: stint.TaskID(fmt.Sprintf("river/%d", id)), Action: "other"}
	if err := db.store.InsertTasks(t.Context(), []stint.Task{taken}); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := db.stint(t, "import", "river")
	if tasks := len(db.tasks(t)); code == 0 || tasks != 1 {
		t.Errorf("import exited with %d (%s), and there are %d tasks", code, stderr, tasks)
	}
	var left int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM river_job`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 2 {
		t.Errorf("%d jobs are left, want both", left)
	}
}

// Proves G122.
func TestImport_IsInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	db, client := newRiver(t)
	insertRiver(t, client, email{"ann"}, nil)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE river_job"); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		_, _, code := db.stintUntil(ctx, "import", "river")
		ended <- code
	}()
	for waits := false; !waits; {
		err := db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks
			WHERE NOT granted AND relation = 'river_job'::regclass)`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
	}
	interrupt()
	if code := <-ended; code != 130 {
		t.Errorf("import exited with %d, want 130", code)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := db.imports(t, "river"); len(got.Imported) != 1 {
		t.Errorf("the next import printed %+v, want the job", got)
	}
}

// performances count who has performed which number.
type performances struct {
	river.WorkerDefaults[report]

	mutex sync.Mutex
	of    map[int]int
	all   chan struct{} // closed when there are as many as wanted
	want  int
	// byRiver and byStint are how many each has performed.
	byRiver, byStint int
}

func (p *performances) add(number int, by *int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	*by++
	if p.of[number]++; len(p.of) == p.want && p.of[number] == 1 {
		close(p.all)
	}
}

func (p *performances) Work(_ context.Context, job *river.Job[report]) error {
	const everyFifth = 5
	if job.Args.Number%everyFifth == 0 && job.Attempt == 1 {
		return errors.New("to be tried again, by whoever has it then")
	}
	p.add(job.Args.Number, &p.byRiver)
	return nil
}

// startRiver starts a client that works at the jobs.
func startRiver(t *testing.T, db *database, p *performances) *river.Client[pgx.Tx] {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, p)
	client, err := river.NewClient(riverpgxv5.New(db.Pool), &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		Workers:           workers,
		FetchCooldown:     time.Millisecond,
		FetchPollInterval: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client
}

// A service moves while it lives: River inserts and works, tasks are imported again and again, and
// a worker of Stint performs them. Each job is performed once.
// Proves G240.
func TestImport_MovesALiveServiceWithoutLosingOrDoubling(t *testing.T) {
	t.Parallel()
	db, _ := newRiver(t)
	const jobs, batch = 2000, 100
	p := &performances{of: map[int]int{}, all: make(chan struct{}), want: jobs}
	client := startRiver(t, db, p)
	ours, err := worker.New(db.store, worker.Options{},
		worker.Handle("report", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			var args report
			if err := json.Unmarshal(task.Body, &args); err != nil {
				return worker.Result{}, worker.Abort(err)
			}
			p.add(args.Number, &p.byStint)
			return worker.Result{}, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ours.Run(ctx) }()
	for from := 0; from < jobs; from += batch {
		many := make([]river.InsertManyParams, batch)
		for i := range many {
			many[i] = river.InsertManyParams{Args: report{from + i}}
		}
		if _, err := client.InsertMany(t.Context(), many); err != nil {
			t.Fatal(err)
		}
		db.imports(t, "river")
	}
	for late := time.After(2 * time.Minute); ; {
		db.imports(t, "river")
		select {
		case <-p.all:
		case <-late:
			t.Fatalf("%d of %d jobs were performed", len(p.of), jobs)
		case <-time.After(10 * time.Millisecond):
			continue
		}
		break
	}
	if err := client.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for number, times := range p.of {
		if times != 1 {
			t.Errorf("job %d was performed %d times", number, times)
		}
	}
	if p.byRiver == 0 || p.byStint == 0 {
		t.Errorf("River performed %d jobs, and Stint %d", p.byRiver, p.byStint)
	}
	db.agrees(t)
}
