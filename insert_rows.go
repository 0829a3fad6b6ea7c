package stint

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/pg"
)

func insertStatement(tasks []Task, keys []int64, graph *insertGraph) pg.Step {
	n := len(tasks)
	if n == 1 && graph == nil && tasks[0].NotBefore.IsZero() {
		row := rowOf(&tasks[0], keys[0])
		return pg.Step{Name: "insert_task", NoPlanner: true, Args: row[:]}
	}
	waits := make([]bool, n)
	for i := range tasks {
		waits[i] = graph.waits(i)
	}
	c := columnsOf(tasks)
	return pg.Step{Name: "insert_tasks", NoPlanner: true, Args: []any{
		c.ids, c.actions, c.bodies, c.priorities, c.tries, c.starts, c.deadlines, c.onAborts,
		c.postResults, keys, waits, c.limitKeys, c.headers, c.costs,
	}}
}

//nolint:gochecknoglobals // constants, but for the language
var (
	// rowOf has their values.
	tasksColumns = []string{
		"id", "action", "body", "priority", "max_tries", "deadline", "on_abort", "post_result",
		"key", "limit_key", "headers", "cost",
	}
	readyColumns = []string{
		"lo", "hi", "action", "priority", "deadline", "tries", "limit_key",
	}
	scheduledColumns = []string{"key", "not_before", "tries"}
	deadlineColumns  = []string{"deadline", "key"}
)

type taskRow [12]any

func rowOf(task *Task, key int64) taskRow {
	return taskRow{
		string(task.ID), task.Action, task.Body, task.Priority, task.triesLimit(),
		pg.Moment(task.Deadline), int16(task.OnAbort), task.PostResult, key,
		limitKey(task), encodedHeaders(task), cost(task),
	}
}

// columnsFor leaves out the columns at the end for which none of the tasks has a value.
func columnsFor(tasks []Task, columns []string) []string {
	for n := len(columns); ; n-- {
		has := map[string]func(Task) bool{
			"limit_key": hasKey, "headers": hasHeaders, "cost": hasCost,
		}[columns[n-1]]
		if has == nil || slices.ContainsFunc(tasks, has) {
			return columns[:n]
		}
	}
}

// separately inserts tasks, in the order of their IDs if sorted is set. The verdict on a task that
// it has not inserted is ErrTaskExists.
func separately(tasks []Task, keys []int64, sorted bool, verdicts []error) pg.Step {
	given, first := tasks, keys[0]
	if sorted {
		var order []int
		order, keys = byID(tasks, inOrder(len(tasks)), keys)
		tasks = make([]Task, len(given))
		for place, i := range order {
			tasks[place] = given[i]
		}
	}
	c := columnsOf(tasks)
	return pg.Step{
		Name: "insert_separately", NoPlanner: true,
		Args: []any{
			c.ids, c.actions, c.bodies, c.priorities, c.tries, c.deadlines, c.onAborts,
			c.postResults, keys, c.limitKeys, c.headers, c.costs,
		},
		Read: func(rows pgx.Rows) error {
			for i := range given { // an attempt that was undone may have inserted some
				verdicts[i] = &TaskError{IDs: []TaskID{given[i].ID}, Err: ErrTaskExists}
			}
			var of span
			_, err := pgx.ForEachRow(rows, []any{&of.lo, &of.hi}, func() error {
				clear(verdicts[of.lo-first : of.hi-first+1])
				return nil
			})
			return err
		},
	}
}

// taskColumns are the columns of the table tasks, as parameters of a statement.
type taskColumns struct {
	ids, actions         []string
	bodies               [][]byte
	priorities, onAborts []int16
	tries                []int32
	starts, deadlines    []*time.Time
	postResults          []bool
	limitKeys, headers   []*string
	costs                []*int
}

func columnsOf(tasks []Task) taskColumns {
	n := len(tasks)
	c := taskColumns{
		ids: make([]string, n), actions: make([]string, n), bodies: make([][]byte, n),
		priorities: make([]int16, n), tries: make([]int32, n), starts: make([]*time.Time, n),
		deadlines: make([]*time.Time, n), onAborts: make([]int16, n), postResults: make([]bool, n),
		limitKeys: optional(tasks, hasKey, limitKey),
		headers:   optional(tasks, hasHeaders, encodedHeaders),
		costs:     optional(tasks, hasCost, cost),
	}
	for i := range tasks {
		task := &tasks[i]
		c.ids[i], c.actions[i], c.bodies[i] = string(task.ID), task.Action, task.Body
		c.priorities[i], c.tries[i] = task.Priority, task.triesLimit()
		c.starts[i], c.deadlines[i] = pg.Moment(task.NotBefore), pg.Moment(task.Deadline)
		c.onAborts[i], c.postResults[i] = int16(task.OnAbort), task.PostResult
	}
	return c
}

// optional returns a column for which few tasks have a value: nil, which is null, if none has one.
func optional[T any](tasks []Task, has func(Task) bool, value func(*Task) *T) []*T {
	if !slices.ContainsFunc(tasks, has) {
		return nil
	}
	values := make([]*T, len(tasks))
	for i := range tasks {
		values[i] = value(&tasks[i])
	}
	return values
}

func hasKey(task Task) bool     { return task.Key != "" }
func hasHeaders(task Task) bool { return len(task.Headers) > 0 }
func hasCost(task Task) bool    { return task.Cost > 1 }

func limitKey(task *Task) *string {
	if task.Key == "" {
		return nil
	}
	return &task.Key
}

func encodedHeaders(task *Task) *string { return headers.Encode(task.Headers) }

// cost is the cost in the form of the tables: nil, which is null, for 1.
func cost(task *Task) *int {
	if task.Cost <= 1 {
		return nil
	}
	return &task.Cost
}

// insertAnswerKeys is the step for the tasks of an insert that have a key, if some have. keys are
// those of the tasks in the store, in their order.
func insertAnswerKeys(tasks []Task, keys []int64) []pg.Step {
	var of []int64
	var hashes [][]byte
	for i := range tasks {
		if hash := answerHash(&tasks[i]); hash != nil {
			of, hashes = append(of, keys[i]), append(hashes, hash)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return []pg.Step{{Name: "insert_answer_keys", NoPlanner: true, Args: []any{of, hashes}}}
}

// answerHash is the hash of the key to answer a task, nil if it has none.
func answerHash(task *Task) []byte {
	if task.AnswerKey == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(task.AnswerKey))
	return sum[:]
}

// insertFailFast is the step for the tasks of an insert with FailFast, if there are some. keys are
// those of the tasks in the store, in their order.
func insertFailFast(tasks []Task, keys []int64) []pg.Step {
	var of []int64
	for i := range tasks {
		if tasks[i].FailFast {
			of = append(of, keys[i])
		}
	}
	if len(of) == 0 {
		return nil
	}
	return []pg.Step{{Name: "insert_fail_fast", NoPlanner: true, Args: []any{of}}}
}
