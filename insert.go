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
	statementEdgesMax = 1000
	statementBytesMax = 1 << 20

	// A stream is copied in pieces of at most this size.
	pieceTasksMax = 20_000
	pieceBytesMax = 8 << 20

	// A span stands for so many tasks at most, so that an OwnTasks call of a usual size takes one
	// whole; and an insert makes at least so many spans if it can, so that as many owners find one
	// each.
	spanTasksMax = 1000
	spansWanted  = 16
)

// InsertTasks adds all tasks, or none if one of them cannot be added. Tasks that wait for nothing
// can be owned from the moment the call returns. An empty list is no error.
//
// Dependencies may be named from either end, [Task.After] and [Task.ToSignalAfter], or from both;
// one that is named twice counts once (R2). The other end is among the tasks or in the store (R3).
// A stored predecessor that has completed counts as settled; one that was aborted aborts the new
// task, unless it runs anyway.
//
// If an ID exists or comes twice, the error is [ErrTaskExists] (R1); if there is no task at the
// other end of a dependency, it is [ErrTaskNotFound]; if a stored dependent is in progress or
// final, it is [ErrTaskStarted]. All these come in a [*TaskError] that names every such ID. If
// tasks would wait for each other, the error is [ErrCycle], in a [*CycleError] with the path (R4).
// Values beyond the limits are refused with an [*ArgumentError].
//
// In a transaction stricter than READ COMMITTED an ID may be taken by a task that the transaction
// cannot see; the call then fails with a serialization error, see [Store.WithTx].
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
	if s.tx == nil && goesAlong(tasks) {
		return s.insertAlong(ctx, tasks[0])
	}
	few := len(tasks) <= statementTasksMax && bytes <= statementBytesMax
	if !slices.ContainsFunc(tasks, isLinked) {
		return s.insertUnless(ctx, few, tasks, nil)
	}
	if repeated := repeatedIDs(tasks); len(repeated) > 0 {
		return s.takenOr(ctx, tasks, taskError(repeated, ErrTaskExists))
	}
	net, err := newNetwork(tasks)
	if err != nil {
		return err
	}
	few = few && len(net.edges) <= statementEdgesMax
	if len(net.stored) == 0 || !few {
		return s.insertUnless(ctx, few, tasks, net)
	}
	return s.transact(ctx, func(s *Store) error {
		net, err := newNetwork(tasks) // anew each time that it is tried
		if err != nil {
			return err
		}
		if err := net.attach(ctx, s); err != nil {
			return s.takenOr(ctx, tasks, err)
		}
		return s.insertUnless(ctx, few, tasks, net)
	})
}

// takenOr is the error of an insert whose tasks are in the store already, be it for what they name,
// since a call that is repeated shall learn that it took place; otherwise it is err.
func (s *Store) takenOr(ctx context.Context, tasks []Task, err error) error {
	var named *TaskError
	var cycle *CycleError
	if !errors.As(err, &named) && !errors.As(err, &cycle) {
		return err
	}
	taken, findErr := s.takenIDs(ctx, tasks)
	switch {
	case findErr != nil:
		return findErr // and not err, which only says what is wrong if nothing is taken
	case len(taken) > 0:
		return &TaskError{IDs: taken, Err: ErrTaskExists}
	}
	return err
}

// insertUnless inserts tasks unless IDs are taken.
func (s *Store) insertUnless(ctx context.Context, few bool, tasks []Task, net *network) error {
	told := readyNews(tasks, net)
	return s.unlessTaken(ctx, tasks, func() error {
		if few {
			return s.insertFew(ctx, tasks, net, told)
		}
		return s.transact(ctx, func(s *Store) error {
			s.tell(ctx, told)
			if net == nil {
				return s.copyTasks(ctx, tasks, nil)
			}
			net, err := newNetwork(tasks) // anew each time that it is tried
			if err != nil {
				return err
			}
			return s.copyTasks(ctx, tasks, net)
		})
	})
}

// readyNews are the actions of tasks that can be owned as soon as they are inserted, or when their
// time has come, which those who wait take note of.
func readyNews(tasks []Task, net *network) *news {
	told := &news{}
	for i := range tasks {
		if !net.waits(i) {
			told.addReady(tasks[i].Action)
		}
	}
	return told
}

// insertFew adds tasks in one round trip.
func (s *Store) insertFew(
	ctx context.Context, tasks []Task, net *network, told *news,
) error {
	keys, err := s.keysForFew(ctx, len(tasks))
	if err != nil {
		return err
	}
	definitions := insertStatement(tasks, keys, net)
	if net == nil {
		return s.runTelling(ctx, told, definitions)
	}
	return s.insertNetwork(ctx, net.rows(keys), told, definitions)
}

// insertNetwork runs steps that insert tasks, and then inserts what they wait for.
func (s *Store) insertNetwork(
	ctx context.Context, rows networkRows, ready *news, steps ...step,
) error {
	waiting := func(batch int64, round int, told *news) []step {
		told.merge(ready)
		all := append(slices.Clone(steps), rows.step(batch, round))
		if len(rows.intoStored) > 0 {
			all = append(all, addEdges(rows.intoStored))
		}
		return all
	}
	if len(rows.arrivals) == 0 {
		return s.runTelling(ctx, ready, waiting(0, 0, &news{})...)
	}
	return s.settle(ctx, roundsUsual, ready, waiting)
}

// InsertTasksFrom is [Store.InsertTasks] for a stream of any length in bounded memory: it adds all
// the tasks that the sequence yields, in one transaction, and returns their number. An error that
// the sequence yields ends the call; nothing is added then, as after any other error.
//
// Dependencies are named by [Task.After] and lead to tasks that came earlier in the stream or are
// in the store; [Task.ToSignalAfter] is refused with an [*ArgumentError], so there can be no cycle.
//
// [ErrTaskExists] and [ErrTaskNotFound] name IDs among the last tasks read. The transaction lasts
// as long as the sequence takes.
func (s *Store) InsertTasksFrom(
	ctx context.Context, tasks iter.Seq2[Task, error],
) (int64, error) {
	var inserted int64
	unhurried := *s
	unhurried.unhurried = true
	err := unhurried.transactOnce(ctx, func(s *Store) error {
		var piece []Task
		bytes := 0
		flush := func() error {
			err := s.insertTasks(ctx, piece)
			var refused *ArgumentError
			if errors.As(err, &refused) {
				refused.Index += int(inserted)
			}
			inserted += int64(len(piece))
			piece, bytes = piece[:0], 0
			return err
		}
		for task, err := range tasks {
			if err != nil {
				return err
			}
			if len(task.ToSignalAfter) > 0 {
				problem := argumentError("Task.ToSignalAfter", "not in a stream; use Task.After")
				return at(problem, int(inserted)+len(piece), task.ID)
			}
			piece = append(piece, task)
			bytes += len(task.Body)
			for _, id := range task.After {
				bytes += len(id)
			}
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

// unlessTaken runs insert and, if it fails because IDs are taken, finds out which. A transaction
// stricter than READ COMMITTED may not see them; to name them would be to tell the caller of tasks
// that do not exist in the rest of the transaction.
func (s *Store) unlessTaken(ctx context.Context, tasks []Task, insert func() error) error {
	const attempts = 3 // an ID may be freed between the collision and the question
	var err error
	for range attempts {
		if err = insert(); violates(err, "tasks_pkey") {
			// The server has lost keys that it gave out before a crash, and gives them out again.
			s.keys.discard()
			continue
		}
		if !violates(err, "tasks_id_key") {
			return err
		}
		taken, findErr := s.takenIDs(ctx, tasks)
		if findErr != nil {
			return findErr // the violation says nothing that could be acted upon
		}
		if len(taken) > 0 {
			return &TaskError{IDs: taken, Err: ErrTaskExists}
		}
	}
	return unseen(err)
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

func insertStatement(tasks []Task, keys []int64, net *network) step {
	n := len(tasks)
	if n == 1 && net == nil && tasks[0].NotBefore.IsZero() {
		return insertOne(&tasks[0], keys[0])
	}
	ids, actions, bodies := make([]string, n), make([]string, n), make([][]byte, n)
	priorities, tries := make([]int16, n), make([]int32, n)
	starts, deadlines := make([]*time.Time, n), make([]*time.Time, n)
	onAborts, postResults, waits := make([]int16, n), make([]bool, n), make([]bool, n)
	for i := range tasks {
		task := &tasks[i]
		ids[i], actions[i], bodies[i] = string(task.ID), task.Action, task.Body
		priorities[i], tries[i] = task.Priority, int32(task.MaxTries) //nolint:gosec // checked
		starts[i], deadlines[i] = moment(task.NotBefore), moment(task.Deadline)
		onAborts[i], postResults[i] = int16(task.OnAbort), task.PostResult
		waits[i] = net.waits(i)
	}
	return step{name: "insert_tasks", unplanned: true, args: []any{
		ids, actions, bodies, priorities, tries, starts, deadlines, onAborts, postResults, keys,
		waits,
	}}
}

func insertOne(task *Task, key int64) step {
	return step{name: "insert_task", unplanned: true, args: []any{
		string(task.ID), task.Action, task.Body, task.Priority, task.MaxTries,
		moment(task.Deadline), int16(task.OnAbort), task.PostResult, key,
	}}
}

// moment is how a time goes into a statement: null for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// copyTasks adds tasks by COPY. It is called in a transaction. Stored tasks are held last: while it
// copies, the server does not see whether the process goes on.
func (s *Store) copyTasks(ctx context.Context, tasks []Task, net *network) error {
	order := arrange(tasks, net)
	keys, err := s.keysForMany(ctx, len(tasks))
	if err != nil {
		return err
	}
	tables := []copiedTable{
		{"ready", readyColumns, readyRows(tasks, net, order, keys)},
		{"scheduled", scheduledColumns, scheduledRows(tasks, net, order, keys)},
		{"deadlines", deadlineColumns, deadlineRows(tasks, order, keys)},
	}
	definitions := &taskRows{tasks: tasks, order: order, keys: keys}
	if err := s.copyTo(ctx, "tasks", taskColumns, definitions); err != nil {
		return err
	}
	if net == nil {
		return s.copyTables(ctx, tables)
	}
	keyOf := make([]int64, len(tasks))
	for place, i := range order {
		keyOf[i] = keys[place]
	}
	inside := net.inside(keyOf)
	if err := s.copyTables(ctx, append(tables, inside.tables()...)); err != nil {
		return err
	}
	if err := net.attach(ctx, s); err != nil {
		return err
	}
	return s.insertNetwork(ctx, net.across(keyOf), &news{})
}

// A copiedTable is what COPY adds to a table.
type copiedTable struct {
	name    string
	columns []string
	rows    [][]any
}

func (s *Store) copyTables(ctx context.Context, tables []copiedTable) error {
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

// A lane is what the tasks of a span share. Tasks with a time of their own go apart, and so do
// those that wait, which may become a span later.
type lane struct {
	action       string
	priority     int16
	apart, waits bool
}

func laneOf(task *Task, waits bool) lane {
	apart := !task.NotBefore.IsZero() || !task.Deadline.IsZero()
	return lane{task.Action, task.Priority, apart, waits}
}

// arrange returns the indexes of tasks with those of one lane together, the lanes in the order of
// their first tasks, and each lane in the order given.
func arrange(tasks []Task, net *network) []int {
	lanes := map[lane]int{}
	lined := make([]int, len(tasks))
	for i := range tasks {
		of := laneOf(&tasks[i], net.waits(i))
		number, ok := lanes[of]
		if !ok {
			number = len(lanes)
			lanes[of] = number
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
func readyRows(tasks []Task, net *network, order []int, keys []int64) [][]any {
	size := min(max((len(tasks)+spansWanted-1)/spansWanted, 1), spanTasksMax)
	var rows [][]any
	for from := 0; from < len(order); {
		first := &tasks[order[from]]
		lane := laneOf(first, net.waits(order[from]))
		to := from + 1
		for !lane.apart && to < len(order) && to-from < size && keys[to] == keys[to-1]+1 &&
			laneOf(&tasks[order[to]], net.waits(order[to])) == lane {
			to++
		}
		if first.NotBefore.IsZero() && !lane.waits {
			rows = append(rows, []any{
				keys[from], keys[to-1], first.Action, first.Priority, moment(first.Deadline), 0,
			})
		}
		from = to
	}
	return rows
}

func scheduledRows(tasks []Task, net *network, order []int, keys []int64) [][]any {
	var rows [][]any
	for place, i := range order {
		if start := tasks[i].NotBefore; !start.IsZero() && !net.waits(i) {
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
