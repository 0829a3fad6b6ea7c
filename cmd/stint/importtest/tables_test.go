package importtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// A tableCase has jobs in the tables of a queue that is not written in Go. They are those of
// testdata, which its migrations make.
type tableCase struct {
	source string
	insert string // jobs; $1 is in an hour
	more   string // further changes of the jobs
	hold   string // what a worker does that takes one of them at this moment, if it locks its row

	imported, left string
	tasks          map[stint.TaskID]stint.TaskInfo
}

// The higher priority of a task comes first, and UnlimitedTries is said by leaving MaxTries out.
var tableCases = []tableCase{
	{
		source: "oban",
		insert: `INSERT INTO oban_jobs
			(id, state, worker, args, attempt, max_attempts, scheduled_at, priority, queue) VALUES
			(1, 'available', 'Mail', '{"to": "ann"}', 0, 20, '-infinity', 0, 'default'),
			(2, 'scheduled', 'Mail', '{"to": "bob"}', 0, 3, $1 AT TIME ZONE 'UTC', 9, 'slow'),
			(3, 'retryable', 'Mail', '{}', 3, 5, $1 AT TIME ZONE 'UTC', 0, 'default'),
			(4, 'executing', 'Mail', '{}', 1, 20, now(), 0, 'default'),
			(5, 'suspended', 'Mail', '{}', 0, 20, now(), 0, 'default'),
			(6, 'completed', 'Mail', '{}', 1, 20, now(), 0, 'default'),
			(7, 'discarded', 'Mail', '{}', 1, 20, now(), 0, 'default'),
			(8, 'available', 'Mail', '{}', 0, 20, now(), 0, 'default'),
			(9, 'available', 'Mail', '{}', 0, 20, now(), 0, 'flow')`,
		more:     `UPDATE oban_jobs SET meta = '{"workflow_id": "a"}' WHERE queue = 'flow'`,
		hold:     `SELECT FROM oban_jobs WHERE id = 8 FOR UPDATE SKIP LOCKED`,
		imported: "[{Mail Mail 1 1} {Mail Mail 0 1}]",
		left:     "map[available:1 executing:1 of a workflow:1 suspended:1]",
		tasks: map[stint.TaskID]stint.TaskInfo{
			"oban/1": {Body: []byte(`{"to": "ann"}`), MaxTries: 20},
			"oban/2": {
				Body: []byte(`{"to": "bob"}`), MaxTries: 3, Priority: -9, NotBefore: inAnHour,
			},
			"oban/3": {Body: []byte(`{}`), MaxTries: 2, NotBefore: inAnHour},
		},
	},
	{
		source: "goodjob",
		insert: `INSERT INTO good_jobs
			(id, job_class, serialized_params, priority, queue_name, scheduled_at, concurrency_key,
			 locked_by_id, batch_id, finished_at, created_at, updated_at) VALUES
			(lpad('1', 32, '0')::uuid, 'Mail', '{"to": "ann"}', 7, 'default', now(), NULL,
			 NULL, NULL, NULL, now(), now()),
			(lpad('2', 32, '0')::uuid, 'Mail', '{}', NULL, NULL, $1 AT TIME ZONE 'UTC', 'bob',
			 NULL, NULL, NULL, now(), now()),
			(lpad('3', 32, '0')::uuid, 'Mail', '{}', 0, 'default', now(), NULL,
			 gen_random_uuid(), NULL, NULL, now(), now()),
			(lpad('4', 32, '0')::uuid, 'Mail', '{}', 0, 'default', now(), NULL,
			 NULL, gen_random_uuid(), NULL, now(), now()),
			(lpad('5', 32, '0')::uuid, 'Mail', '{}', 0, 'default', now(), NULL,
			 NULL, NULL, now(), now(), now())`,
		imported: "[{Mail Mail 1 1}]",
		left:     "map[new or of a batch:1 running:1]",
		tasks: map[stint.TaskID]stint.TaskInfo{
			"goodjob/00000000-0000-0000-0000-000000000001": {
				Body: []byte(`{"to": "ann"}`), Priority: -7,
			},
			"goodjob/00000000-0000-0000-0000-000000000002": {
				Body: []byte(`{}`), Key: "bob", NotBefore: inAnHour,
			},
		},
	},
	{
		source: "pg-boss",
		insert: `INSERT INTO pgboss.job (id, name, state, data, priority, retry_limit, retry_count,
			 start_after, group_id) VALUES
			(lpad('1', 32, '0')::uuid, 'mail', 'created', '{"to": "ann"}', 7, 2, 0, now(), NULL),
			(lpad('2', 32, '0')::uuid, 'mail', 'retry', NULL, 0, 5, 1, $1, 'bob'),
			(lpad('3', 32, '0')::uuid, 'mail', 'active', '{}', 0, 2, 0, now(), NULL),
			(lpad('4', 32, '0')::uuid, 'mail', 'created', '{}', 0, 2, 0, now(), 'flow'),
			(lpad('5', 32, '0')::uuid, 'mail', 'failed', '{}', 0, 2, 2, now(), NULL),
			(lpad('6', 32, '0')::uuid, 'mail', 'created', '{}', 0, 2, 0, now(), NULL),
			(lpad('7', 32, '0')::uuid, 'mail', 'created', '{}', 0, 2, 0, now(), 'flow'),
			(lpad('1', 32, '0')::uuid, 'other', 'active', '{}', 0, 2, 0, now(), NULL)`,
		more: `UPDATE pgboss.job SET blocked = id = lpad('4', 32, '0')::uuid,
			blocking = id <> lpad('4', 32, '0')::uuid WHERE group_id = 'flow'`,
		hold: `SELECT FROM pgboss.job WHERE id = lpad('6', 32, '0')::uuid
			FOR UPDATE SKIP LOCKED`,
		imported: "[{mail mail 1 1}]",
		left:     "map[active:2 created:1 of a flow:2]",
		tasks: map[stint.TaskID]stint.TaskInfo{
			"pg-boss/00000000-0000-0000-0000-000000000001": {
				Body: []byte(`{"to": "ann"}`), Priority: 7, MaxTries: 3,
			},
			"pg-boss/00000000-0000-0000-0000-000000000002": {
				Body: []byte(`null`), Key: "bob", MaxTries: 4, NotBefore: inAnHour,
			},
		},
	},
	{
		source: "solid-queue",
		insert: `WITH jobs (id, queue_name, arguments, priority, scheduled_at, concurrency_key) AS (
				VALUES (1, 'default', '{"to": "ann"}', 7, now(), NULL),
				(2, 'default', '{}', 0, $1::timestamptz, NULL),
				(3, 'default', '{}', 0, now(), 'bob'),
				(4, 'default', '{}', 0, now(), NULL), (5, 'default', '{}', 0, now(), NULL),
				(6, 'paused', '{}', 0, now(), NULL), (7, 'default', '{}', 0, now(), NULL)
			), inserted AS (
				INSERT INTO solid_queue_jobs (id, class_name, queue_name, arguments, priority,
					scheduled_at, concurrency_key, created_at, updated_at)
				SELECT id, 'Mail', queue_name, arguments, priority,
					scheduled_at AT TIME ZONE 'UTC', concurrency_key, now(), now()
				FROM jobs
			), ready AS (
				INSERT INTO solid_queue_ready_executions (job_id, queue_name, created_at)
				SELECT id, queue_name, now() FROM jobs WHERE id IN (1, 6, 7)
			), scheduled AS (
				INSERT INTO solid_queue_scheduled_executions
					(job_id, queue_name, scheduled_at, created_at)
				SELECT id, queue_name, scheduled_at AT TIME ZONE 'UTC', now() FROM jobs WHERE id = 2
			), blocked AS (
				INSERT INTO solid_queue_blocked_executions
					(job_id, queue_name, concurrency_key, expires_at, created_at)
				SELECT id, queue_name, concurrency_key, now(), now() FROM jobs WHERE id = 3
			), claimed AS (
				INSERT INTO solid_queue_claimed_executions (job_id, created_at) VALUES (4, now())
			), failed AS (
				INSERT INTO solid_queue_failed_executions (job_id, created_at) VALUES (5, now())
			)
			INSERT INTO solid_queue_pauses (queue_name, created_at) VALUES ('paused', now())`,
		hold: `SELECT FROM solid_queue_ready_executions WHERE job_id = 7
			FOR UPDATE SKIP LOCKED`,
		imported: "[{Mail Mail 2 1}]",
		left:     "map[failed:1 in the paused queue paused:1 new:1 running:1]",
		tasks: map[stint.TaskID]stint.TaskInfo{
			"solid-queue/1": {Body: []byte(`{"to": "ann"}`), Priority: -7},
			"solid-queue/2": {Body: []byte(`{}`), NotBefore: inAnHour},
			"solid-queue/3": {Body: []byte(`{}`), Key: "bob"},
		},
	},
	{
		source: "que",
		insert: `INSERT INTO que_jobs (id, job_class, args, kwargs, priority, run_at, finished_at,
				job_schema_version) VALUES
			(1, 'Mail', '["ann"]', '{"to": 1}', 100, now(), NULL, 2),
			(2, 'ActiveJob::QueueAdapters::QueAdapter::JobWrapper', '[{"job_class": "Mail"}]', '{}',
			 1, $1, NULL, 2),
			(3, 'Mail', '[]', '{}', 100, now(), now(), 2)`,
		imported: "[{Mail Mail 1 1}]",
		left:     "map[]",
		tasks: map[stint.TaskID]stint.TaskInfo{
			"que/1": {Body: []byte(`{"args": ["ann"], "kwargs": {"to": 1}}`)},
			"que/2": {
				Body:     []byte(`{"args": [{"job_class": "Mail"}], "kwargs": {}}`),
				Priority: 99, NotBefore: inAnHour,
			},
		},
	},
	{
		source: "procrastinate",
		insert: `INSERT INTO procrastinate_jobs
				(id, queue_name, task_name, args, priority, lock, status, scheduled_at) VALUES
			(1, 'default', 'mail', '{"to": "ann"}', 7, NULL, 'todo', NULL),
			(2, 'default', 'mail', '{}', 0, 'bob', 'todo', $1),
			(3, 'default', 'mail', '{}', 0, 'eve', 'doing', NULL),
			(4, 'default', 'mail', '{}', 0, 'eve', 'todo', NULL),
			(5, 'default', 'mail', '{}', 0, NULL, 'failed', NULL),
			(6, 'default', 'mail', '{}', 0, NULL, 'todo', NULL)`,
		hold:     `SELECT FROM procrastinate_jobs WHERE id = 6 FOR UPDATE SKIP LOCKED`,
		imported: "[{mail mail 1 1}]",
		left:     "map[doing:1 todo:2]",
		tasks: map[stint.TaskID]stint.TaskInfo{
			"procrastinate/1": {Body: []byte(`{"to": "ann"}`), Priority: 7},
			"procrastinate/2": {Body: []byte(`{}`), Key: "bob", NotBefore: inAnHour},
		},
	},
}

// inAnHour has no more digits than tables keep.
var inAnHour = time.Now().Add(time.Hour).Truncate(time.Millisecond)

// Proves G240.
func TestImport_MakesTasksOfTheJobsInTables(t *testing.T) {
	t.Parallel()
	for _, c := range tableCases {
		t.Run(c.source, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			schema, err := os.ReadFile(filepath.Join("testdata", c.source+".sql"))
			if err != nil {
				t.Fatal(err)
			}
			db.exec(t, string(schema))
			db.exec(t, c.insert, inAnHour)
			db.exec(t, c.more)
			tx, err := db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), c.hold); err != nil {
				t.Fatal(err)
			}
			got := db.imports(t, c.source)
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got.Imported) != c.imported || fmt.Sprint(got.Left) != c.left ||
				len(got.Refused) != 0 {
				t.Errorf("import printed %+v, want %s and %s", got, c.imported, c.left)
			}
			tasks := db.tasks(t)
			for id, want := range c.tasks {
				task := tasks[id]
				if want.MaxTries == 0 {
					want.MaxTries = stint.UnlimitedTries
				}
				if string(task.Body) != string(want.Body) || task.Priority != want.Priority ||
					task.MaxTries != want.MaxTries || task.Key != want.Key ||
					!task.NotBefore.Equal(want.NotBefore) {
					t.Errorf("task %s is %+v, want %+v", id, task, want)
				}
			}
			if len(tasks) != len(c.tasks) {
				t.Errorf("there are %d tasks, want %d", len(tasks), len(c.tasks))
			}
			db.agrees(t)
		})
	}
}
