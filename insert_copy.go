package stint

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/pg"
)

// copyTasks adds tasks by COPY, in the order of their IDs if sorted is set. It is called in a
// transaction. It holds stored tasks last: during a COPY the server does not notice when the
// process stops.
func (s *Store) copyTasks(
	ctx context.Context, tasks []Task, graph *insertGraph, sorted bool,
) error {
	order := arrange(tasks, graph)
	keys, err := s.keysForMany(ctx, len(tasks))
	if err != nil {
		return err
	}
	tables := []pg.Table{
		pg.NewTable("ready", readyRows(tasks, graph, order, keys),
			columnsFor(tasks, readyColumns)...),
		pg.NewTable("scheduled", scheduledRows(tasks, graph, order, keys), scheduledColumns...),
		pg.NewTable("deadlines", deadlineRows(tasks, order, keys), deadlineColumns...),
		pg.NewTable("answer_keys", answerKeyRows(tasks, order, keys), "key", "hash"),
		pg.NewTable("fail_fast", failFastRows(tasks, order, keys), "key"),
	}
	definitions := &taskRows{
		columns: columnsFor(tasks, tasksColumns), tasks: tasks, order: order, keys: keys,
	}
	if sorted {
		definitions.order, definitions.keys = byID(tasks, order, keys)
	}
	for definitions.next < len(order) {
		definitions.first = definitions.next
		if err := s.db.Copy(ctx, "tasks", definitions.columns, definitions); err != nil {
			return err
		}
	}
	if graph == nil {
		return s.db.CopyTables(ctx, tables)
	}
	keyOf := make([]int64, len(tasks))
	for place, i := range order {
		keyOf[i] = keys[place]
	}
	inside := graph.inside(keyOf)
	if err := s.db.CopyTables(ctx, append(tables, inside.Tables()...)); err != nil {
		return err
	}
	if err := graph.attach(ctx, s); err != nil {
		return err
	}
	return s.insertGraphRows(ctx, graph.across(keyOf), &pg.Notices{})
}

// A spanKind is what the tasks of a span have in common. Tasks with a NotBefore or a Deadline are
// kept apart, and so are tasks that wait, which may become a span later.
type spanKind struct {
	action       string
	priority     int16
	apart, waits bool
}

func spanKindOf(task *Task, waits bool) spanKind {
	apart := !task.NotBefore.IsZero() || !task.Deadline.IsZero()
	return spanKind{task.Action, task.Priority, apart, waits}
}

// arrange returns the indexes of tasks, grouped by kind: the kinds in the order of their first
// tasks, and the tasks of each kind in the order given.
func arrange(tasks []Task, graph *insertGraph) []int {
	kinds := map[spanKind]int{}
	numbers := make([]int, len(tasks))
	for i := range tasks {
		of := spanKindOf(&tasks[i], graph.waits(i))
		number, ok := kinds[of]
		if !ok {
			number = len(kinds)
			kinds[of] = number
		}
		numbers[i] = number
	}
	order := inOrder(len(tasks))
	if len(kinds) > 1 {
		slices.SortStableFunc(order, func(a, b int) int { return numbers[a] - numbers[b] })
	}
	return order
}

// inOrder returns the indexes of n tasks.
func inOrder(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// taskRows are the rows of the table tasks, in the order of their keys. A COPY ends when the server
// keeps 8 MiB of their bodies: it writes rows to the table a thousand at a time.
type taskRows struct {
	columns []string
	tasks   []Task
	order   []int
	keys    []int64
	row     taskRow

	first, next int // of a COPY, and of those to come
	kept        int // bytes of bodies
}

func (r *taskRows) Next() bool {
	const together = 1000
	if (r.next-r.first)%together == 0 {
		r.kept = 0
	}
	return r.next < len(r.order) && r.kept < pieceBytesMax
}

func (r *taskRows) Values() ([]any, error) {
	task := &r.tasks[r.order[r.next]]
	r.row = rowOf(task, r.keys[r.next])
	r.next++
	r.kept += len(task.Body) + headers.Size(task.Headers)
	return r.row[:len(r.columns)], nil
}

func (r *taskRows) Err() error { return nil }

// readyRows are the spans of the tasks that are ready at once. A span has a key if all of its tasks
// have that one.
func readyRows(tasks []Task, graph *insertGraph, order []int, keys []int64) [][]any {
	size := min(max((len(tasks)+spansWanted-1)/spansWanted, 1), spanTasksMax)
	width := len(columnsFor(tasks, readyColumns))
	var rows [][]any
	for from := 0; from < len(order); {
		first := &tasks[order[from]]
		kind := spanKindOf(first, graph.waits(order[from]))
		to, key := from+1, first.Key
		for !kind.apart && to < len(order) && to-from < size && keys[to] == keys[to-1]+1 &&
			spanKindOf(&tasks[order[to]], graph.waits(order[to])) == kind {
			if tasks[order[to]].Key != key {
				key = ""
			}
			to++
		}
		if first.NotBefore.IsZero() && !kind.waits {
			row := []any{
				keys[from], keys[to-1], first.Action, first.Priority, pg.Moment(first.Deadline), 0,
				pg.NonZero(key),
			}
			rows = append(rows, row[:width])
		}
		from = to
	}
	return rows
}

func scheduledRows(tasks []Task, graph *insertGraph, order []int, keys []int64) [][]any {
	var rows [][]any
	for place, i := range order {
		if start := tasks[i].NotBefore; !start.IsZero() && !graph.waits(i) {
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

// keysForMany returns keys for n tasks, in blocks. No span needs to cross the border of a block.
func (s *Store) keysForMany(ctx context.Context, n int) ([]int64, error) {
	blocks, err := s.allocateBlocks(ctx, (n+spanTasksMax-1)/spanTasksMax)
	if err != nil {
		return nil, err
	}
	s.keys.Discard() // so that later inserts get greater keys
	keys := make([]int64, n)
	for place := range keys {
		keys[place] = blocks[place/spanTasksMax] + int64(place%spanTasksMax)
	}
	return keys, nil
}

func (s *Store) allocateBlocks(ctx context.Context, n int) ([]int64, error) {
	var blocks []int64
	steps := []pg.Step{{
		Name: "allocate_blocks", Args: []any{n},
		Read: func(rows pgx.Rows) error {
			var err error
			blocks, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		},
	}}
	if s.db.CommitEarly && !s.db.InCallersTx() {
		steps = append(steps, pg.Step{Name: "commit_late"})
	}
	return blocks, s.db.Run(ctx, steps...)
}

// byID sorts the places of tasks in an order, and the keys that go with it, by the IDs of the
// tasks. Calls that insert the same IDs in the same order do not deadlock.
func byID(tasks []Task, order []int, keys []int64) (sorted []int, keysOf []int64) {
	type named struct {
		id    TaskID
		place int
	}
	places := make([]named, len(order)) // beside their IDs, which are compared often
	for place, i := range order {
		places[place] = named{tasks[i].ID, place}
	}
	slices.SortFunc(places, func(a, b named) int {
		return cmp.Or(strings.Compare(string(a.id), string(b.id)), a.place-b.place)
	})
	sorted, keysOf = make([]int, len(order)), make([]int64, len(order))
	for i, from := range places {
		sorted[i], keysOf[i] = order[from.place], keys[from.place]
	}
	return sorted, keysOf
}

// answerKeyRows are those of an insert by COPY, whose tasks come in an order of their own.
func answerKeyRows(tasks []Task, order []int, keys []int64) (rows [][]any) {
	for place, i := range order {
		if hash := answerHash(&tasks[i]); hash != nil {
			rows = append(rows, []any{keys[place], hash})
		}
	}
	return rows
}

// failFastRows are those of an insert by COPY, whose tasks come in an order of their own.
func failFastRows(tasks []Task, order []int, keys []int64) (rows [][]any) {
	for place, i := range order {
		if tasks[i].FailFast {
			rows = append(rows, []any{keys[place]})
		}
	}
	return rows
}
