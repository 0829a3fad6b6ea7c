package stint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// Few tasks go in one statement and one round trip, more are copied.
	statementTasksMax = 64
	statementBytesMax = 1 << 20

	// A stream is copied in pieces of at most this size.
	pieceTasksMax = 20_000
	pieceBytesMax = 8 << 20

	// A span stands for so many tasks at most, so that an OwnTasks call of a usual size takes one
	// whole; and an insert makes at least so many spans if it can, so that as many owners find one
	// each.
	spanTasksMax = 1000
	spansWanted  = 64
)

// InsertTasks adds all tasks, or none if one of them cannot be added. Tasks without NotBefore can
// be owned from the moment the call returns. An empty list is no error.
//
// If an ID exists or comes twice, the error is [ErrTaskExists], in a [*TaskError] that names every
// such ID (R1). Values beyond the limits are refused with an [*ArgumentError].
//
// If ctx ends or the connection breaks during the call, all of the tasks may have been added, or
// none. Calling again with the same tasks is safe: [ErrTaskExists] naming all of them then tells
// that they had been.
func (s *Store) InsertTasks(ctx context.Context, tasks []Task) error {
	if err := s.insertTasks(ctx, tasks); err != nil {
		return fmt.Errorf("insert tasks: %w", err)
	}
	return nil
}

func (s *Store) insertTasks(ctx context.Context, tasks []Task) error {
	bytes := 0
	for i := range tasks {
		if err := checkTask(&tasks[i], i); err != nil {
			return err
		}
		bytes += len(tasks[i].Body)
	}
	if len(tasks) == 0 {
		return s.quiet(ctx)
	}
	if len(tasks) <= statementTasksMax && bytes <= statementBytesMax {
		return s.unlessTaken(ctx, tasks, func() error {
			return s.run(ctx, insertStatement(tasks))
		})
	}
	return s.unlessTaken(ctx, tasks, func() error {
		return s.transact(ctx, func(s *Store) error { return s.copyTasks(ctx, tasks) })
	})
}

// InsertTasksFrom is [Store.InsertTasks] for a stream of any length in bounded memory: it adds all
// the tasks that the sequence yields, in one transaction, and returns their number. An error that
// the sequence yields ends the call; nothing is added then, as after any other error.
//
// [ErrTaskExists] names the IDs among the last tasks read. The transaction lasts as long as the
// sequence takes.
func (s *Store) InsertTasksFrom(
	ctx context.Context, tasks iter.Seq2[Task, error],
) (int64, error) {
	var inserted int64
	err := s.transactOnce(ctx, func(s *Store) error {
		var piece []Task
		bytes := 0
		flush := func() error {
			err := s.insertTasks(ctx, piece)
			inserted += int64(len(piece))
			piece, bytes = piece[:0], 0
			return err
		}
		for task, err := range tasks {
			if err != nil {
				return err
			}
			piece = append(piece, task)
			bytes += len(task.Body)
			if len(piece) == pieceTasksMax || bytes >= pieceBytesMax {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	})
	if err != nil {
		return 0, fmt.Errorf("insert tasks: %w", err)
	}
	return inserted, nil
}

// unlessTaken runs insert and, if it fails because IDs are taken, finds out which.
func (s *Store) unlessTaken(ctx context.Context, tasks []Task, insert func() error) error {
	const attempts = 3 // an ID may be freed between the collision and the question
	var err error
	for range attempts {
		if err = insert(); !violates(err, "tasks_id_key") {
			return err
		}
		taken, findErr := s.takenIDs(ctx, tasks)
		if findErr != nil {
			return errors.Join(err, findErr)
		}
		if len(taken) > 0 {
			return &TaskError{IDs: taken, Err: ErrTaskExists}
		}
	}
	return err
}

// takenIDs are the IDs that come twice in tasks or are in the store, each once.
func (s *Store) takenIDs(ctx context.Context, tasks []Task) ([]TaskID, error) {
	taken := repeatedIDs(tasks)
	ids := make([]string, len(tasks))
	for i := range tasks {
		ids[i] = string(tasks[i].ID)
	}
	err := s.run(ctx, step{
		name: "existing_tasks", args: []any{ids},
		read: func(rows pgx.Rows) error {
			existing, err := pgx.CollectRows(rows, pgx.RowTo[TaskID])
			taken = append(taken, existing...)
			return err
		},
	})
	slices.Sort(taken)
	return slices.Compact(taken), err
}

func repeatedIDs(tasks []Task) []TaskID {
	var repeated []TaskID
	seen := make(map[TaskID]bool, len(tasks))
	for i := range tasks {
		id := tasks[i].ID
		if seen[id] {
			repeated = append(repeated, id)
		}
		seen[id] = true
	}
	return repeated
}

func insertStatement(tasks []Task) step {
	n := len(tasks)
	ids, actions, bodies := make([]string, n), make([]string, n), make([][]byte, n)
	priorities, tries := make([]int16, n), make([]int32, n)
	starts, deadlines := make([]*time.Time, n), make([]*time.Time, n)
	onAborts, postResults := make([]int16, n), make([]bool, n)
	for i := range tasks {
		task := &tasks[i]
		ids[i], actions[i], bodies[i] = string(task.ID), task.Action, task.Body
		priorities[i], tries[i] = task.Priority, int32(task.MaxTries) //nolint:gosec // checked
		starts[i], deadlines[i] = moment(task.NotBefore), moment(task.Deadline)
		onAborts[i], postResults[i] = int16(task.OnAbort), task.PostResult
	}
	return step{name: "insert_tasks", args: []any{
		ids, actions, bodies, priorities, tries, starts, deadlines, onAborts, postResults,
	}}
}

// moment is how a time goes into a statement: null for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// copyTasks adds tasks by COPY. It is called in a transaction.
func (s *Store) copyTasks(ctx context.Context, tasks []Task) error {
	order := arrange(tasks)
	blocks, err := s.allocateBlocks(ctx, (len(tasks)+spanTasksMax-1)/spanTasksMax)
	if err != nil {
		return err
	}
	keys := make([]int64, len(tasks))
	for place := range keys {
		keys[place] = blocks[place/spanTasksMax] + int64(place%spanTasksMax)
	}
	tables := []struct {
		name    string
		columns []string
		rows    [][]any
	}{
		{"ready", readyColumns, readyRows(tasks, order, keys)},
		{"scheduled", scheduledColumns, scheduledRows(tasks, order, keys)},
		{"deadlines", deadlineColumns, deadlineRows(tasks, order, keys)},
	}
	definitions := &taskRows{tasks: tasks, order: order, keys: keys}
	if err := s.copyTo(ctx, "tasks", taskColumns, definitions); err != nil {
		return err
	}
	for _, table := range tables {
		if len(table.rows) == 0 {
			continue
		}
		rows := pgx.CopyFromRows(table.rows)
		if err := s.copyTo(ctx, table.name, table.columns, rows); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) copyTo(
	ctx context.Context, table string, columns []string, rows pgx.CopyFromSource,
) error {
	_, err := s.tx.CopyFrom(ctx, pgx.Identifier{s.schema, table}, columns, rows)
	return err
}

func (s *Store) allocateBlocks(ctx context.Context, n int) ([]int64, error) {
	var blocks []int64
	err := s.run(ctx, step{
		name: "allocate_blocks", args: []any{n},
		read: func(rows pgx.Rows) error {
			var err error
			blocks, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		},
	})
	return blocks, err
}

// A lane is what the tasks of a span share. Tasks with a time of their own go apart.
type lane struct {
	action   string
	priority int16
	apart    bool
}

func (t *Task) lane() lane {
	return lane{t.Action, t.Priority, !t.NotBefore.IsZero() || !t.Deadline.IsZero()}
}

// arrange returns the indexes of tasks with those of one lane together, the lanes in the order of
// their first tasks, and each lane in the order given.
func arrange(tasks []Task) []int {
	lanes := map[lane]int{}
	lined := make([]int, len(tasks))
	for i := range tasks {
		number, ok := lanes[tasks[i].lane()]
		if !ok {
			number = len(lanes)
			lanes[tasks[i].lane()] = number
		}
		lined[i] = number
	}
	order := make([]int, len(tasks))
	for i := range order {
		order[i] = i
	}
	if len(lanes) > 1 {
		slices.SortStableFunc(order, func(a, b int) int { return lined[a] - lined[b] })
	}
	return order
}

//nolint:gochecknoglobals // constants, but for the language
var (
	taskColumns = []string{
		"key", "id", "action", "body", "priority", "max_tries", "deadline", "on_abort",
		"post_result",
	}
	readyColumns     = []string{"lo", "hi", "action", "priority", "deadline", "tries"}
	scheduledColumns = []string{"key", "not_before", "tries"}
	deadlineColumns  = []string{"deadline", "key"}
)

// taskRows are the rows of the table tasks, in the order of their keys.
type taskRows struct {
	tasks []Task
	order []int
	keys  []int64
	next  int
	row   [9]any
}

func (r *taskRows) Next() bool { return r.next < len(r.order) }

func (r *taskRows) Values() ([]any, error) {
	task := &r.tasks[r.order[r.next]]
	r.row = [...]any{
		r.keys[r.next], string(task.ID), task.Action, task.Body, task.Priority,
		int32(task.MaxTries), moment(task.Deadline), int16(task.OnAbort), //nolint:gosec // checked
		task.PostResult,
	}
	r.next++
	return r.row[:], nil
}

func (r *taskRows) Err() error { return nil }

// readyRows are the spans of the tasks that are ready at once.
func readyRows(tasks []Task, order []int, keys []int64) [][]any {
	size := min(max((len(tasks)+spansWanted-1)/spansWanted, 1), spanTasksMax)
	var rows [][]any
	for from := 0; from < len(order); {
		first := &tasks[order[from]]
		to := from + 1
		for !first.lane().apart && to < len(order) && to-from < size &&
			keys[to] == keys[to-1]+1 && tasks[order[to]].lane() == first.lane() {
			to++
		}
		if first.NotBefore.IsZero() {
			rows = append(rows, []any{
				keys[from], keys[to-1], first.Action, first.Priority, moment(first.Deadline), 0,
			})
		}
		from = to
	}
	return rows
}

func scheduledRows(tasks []Task, order []int, keys []int64) [][]any {
	var rows [][]any
	for place, i := range order {
		if start := tasks[i].NotBefore; !start.IsZero() {
			rows = append(rows, []any{keys[place], start, 0})
		}
	}
	return rows
}

func deadlineRows(tasks []Task, order []int, keys []int64) [][]any {
	var rows [][]any
	for place, i := range order {
		if deadline := tasks[i].Deadline; !deadline.IsZero() {
			rows = append(rows, []any{deadline, keys[place]})
		}
	}
	return rows
}
