package stint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/groupcommit"
	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/network"
	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// Few tasks go in one statement and one round trip, more are copied.
	statementTasksMax = 64
	statementEdgesMax = 1000
	statementBytesMax = 1 << 20

	// A stream is copied in pieces of at most this size.
	pieceTasksMax = 20_000
	pieceBytesMax = 8 << 20
)

// InsertTasks adds all tasks, or none if one of them cannot be added. Tasks that wait for nothing
// can be owned from the moment the call returns. An empty list is no error. A task without an ID
// gets a random one, which the call sets in the slice before anything else: a call with the same
// slice repeats the same tasks, so clear their IDs to insert others.
//
// Dependencies may be named from either end, [Task.After] and [Task.ToSignalAfter], or from both; a
// dependency that is named twice counts once (R2). The other task is in the same call or in the
// store (R3). A stored predecessor that has completed counts as settled; one that was aborted
// aborts the new task, unless it runs anyway.
//
// If an ID exists or comes twice, the error is [ErrTaskExists] (R1); if the other task of a
// dependency does not exist, it is [ErrTaskNotFound]; if a stored dependent is in progress or
// final, it is [ErrTaskStarted]. All these come in a [*TaskError] that names every such ID. If
// tasks would wait for each other, the error is [ErrCycle], in a [*CycleError] with the path (R4).
// Values beyond the limits are refused with an [*ArgumentError], and so is a stored dependent with
// [Task.WhenAny]. In a transaction stricter than READ COMMITTED, an ID that is taken by a task it
// cannot see is a serialization error ([Store.WithTx]). [Store.EnsureTasks] leaves taken IDs out.
//
// If ctx ends or the connection breaks during the call, all of the tasks may have been added, or
// none. Calling again with the same tasks is safe: [ErrTaskExists] with all of their IDs then means
// that the first call added them.
func (s *Store) InsertTasks(ctx context.Context, tasks []Task) error {
	if err := s.waitIfRepeated(ctx, s.insertTasks(ctx, tasks), ErrTaskExists); err != nil {
		return fmt.Errorf("insert tasks: %w", err)
	}
	return nil
}

// insertTasks checks tasks, and decides in which of five ways they are inserted.
func (s *Store) insertTasks(ctx context.Context, tasks []Task) error {
	tasks, bytes, err := s.prepare(ctx, tasks)
	if err != nil {
		return err
	}
	graph, err := s.readGraph(ctx, tasks)
	if err != nil {
		return err
	}
	switch {
	case len(tasks) == 0:
		return s.db.CheckOpen(ctx)
	case !s.db.InTx() && canShare(tasks, bytes): // together with those of other callers
		return s.insertShared(ctx, false, tasks[0])
	case len(tasks) > statementTasksMax, bytes > statementBytesMax,
		graph.countEdges() > statementEdgesMax:
		return s.insertMany(ctx, tasks, nil, false) // by COPY
	case graph.namesStored(): // in a transaction that locks the stored tasks first
		return s.insertAttached(ctx, tasks)
	default: // in one round trip
		return s.insertFew(ctx, tasks, graph)
	}
}

// withHeaders returns tasks with what [Options.Headers] adds. The slice stays as it is, since its
// tasks may be inserted again for somebody else.
func (s *Store) withHeaders(ctx context.Context, tasks []Task) []Task {
	if s.headers == nil {
		return tasks
	}
	more := s.headers(ctx)
	if len(more) == 0 {
		return tasks
	}
	tasks = slices.Clone(tasks)
	for i := range tasks {
		tasks[i].Headers = headers.Merge(tasks[i].Headers, more)
	}
	return tasks
}

// prepare gives IDs to the tasks that have none, checks all, and returns them with the headers that
// the store adds, and with their size.
func (s *Store) prepare(ctx context.Context, tasks []Task) (_ []Task, bytes int, err error) {
	giveIDs(tasks)
	tasks = s.withHeaders(ctx, tasks)
	for i := range tasks {
		if err := checkTask(&tasks[i], i); err != nil {
			return nil, 0, err
		}
		bytes += len(tasks[i].Body) + headers.Size(tasks[i].Headers)
	}
	return tasks, bytes, nil
}

// readGraph returns the dependencies that tasks name, nil if they name none.
func (s *Store) readGraph(ctx context.Context, tasks []Task) (*insertGraph, error) {
	if !slices.ContainsFunc(tasks, isLinked) {
		return nil, nil //nolint:nilnil // as the comment says
	}
	if repeated := repeatedIDs(tasks); len(repeated) > 0 {
		return nil, s.takenOr(ctx, tasks, taskError(repeated, ErrTaskExists))
	}
	return newInsertGraph(tasks, nil)
}

// giveIDs gives random IDs to the tasks that have none. They are in the order of time, so that
// tasks of one time lie together in the index.
func giveIDs(tasks []Task) {
	for i := range tasks {
		if tasks[i].ID == "" {
			tasks[i].ID = TaskID(uuid.Must(uuid.NewV7()).String())
		}
	}
}

// takenOr returns ErrTaskExists if some of the tasks are in the store already, even if err is about
// the tasks that they name: a repeated call must learn that it took place. Otherwise it returns
// err.
func (s *Store) takenOr(ctx context.Context, tasks []Task, err error) error {
	var named *TaskError
	var cycle *CycleError
	var refused *ArgumentError
	if !errors.As(err, &named) && !errors.As(err, &cycle) && !errors.As(err, &refused) {
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

// insertAttached inserts tasks that name stored ones.
func (s *Store) insertAttached(ctx context.Context, tasks []Task) error {
	return s.transact(ctx, func(s *Store) error {
		graph, err := newInsertGraph(tasks, nil) // made anew at each attempt
		if err != nil {
			return err
		}
		if err := graph.attach(ctx, s); err != nil {
			return s.takenOr(ctx, tasks, err)
		}
		return s.insertFew(ctx, tasks, graph)
	})
}

// insertFew inserts tasks in one round trip.
func (s *Store) insertFew(ctx context.Context, tasks []Task, graph *insertGraph) error {
	ready := readyNotices(tasks, graph)
	return s.unlessTaken(ctx, tasks, func() error {
		keys, err := s.keysForFew(ctx, len(tasks))
		if err != nil {
			return err
		}
		definitions := slices.Concat([]pg.Step{insertStatement(tasks, keys, graph)},
			insertAnswerKeys(tasks, keys), insertFailFast(tasks, keys))
		if graph == nil {
			return s.db.Do(ctx, pg.Request{Steps: definitions, Known: ready})
		}
		return s.insertGraphRows(ctx, graph.rows(keys), ready, definitions...)
	})
}

// keysForFew returns n consecutive keys of one block.
func (s *Store) keysForFew(ctx context.Context, n int) ([]int64, error) {
	for {
		if keys, ok := s.keys.Take(n); ok {
			return keys, nil
		}
		blocks, err := s.allocateBlocks(ctx, 1)
		if err != nil {
			return nil, err
		}
		s.keys.Refill(blocks[0])
	}
}

// insertInto is insertTasks, with the conditions of edges to which ToSignalAfter leads.
func (s *Store) insertInto(
	ctx context.Context, tasks []Task, into map[Dependency]*network.Condition,
) error {
	if len(into) == 0 {
		return s.insertTasks(ctx, tasks)
	}
	tasks, _, err := s.prepare(ctx, tasks)
	if err != nil {
		return err
	}
	return s.insertMany(ctx, tasks, into, false)
}

// insertMany inserts tasks through COPY, in the order of their IDs if sorted is set. into is that
// of newInsertGraph.
func (s *Store) insertMany(
	ctx context.Context, tasks []Task, into map[Dependency]*network.Condition, sorted bool,
) error {
	return s.unlessTaken(ctx, tasks, func() error {
		return s.transact(ctx, func(s *Store) error {
			graph, err := newInsertGraph(tasks, into) // made anew at each attempt
			if err != nil {
				return err
			}
			s.db.Notify(ctx, readyNotices(tasks, graph))
			return s.copyTasks(ctx, tasks, graph, sorted)
		})
	})
}

// readyNotices are the actions of tasks that can be owned as soon as they are inserted, or later,
// at their NotBefore, which those who wait take note of.
func readyNotices(tasks []Task, graph *insertGraph) *pg.Notices {
	pending := &pg.Notices{}
	for i := range tasks {
		if !graph.waits(i) {
			pending.Add(readyTopic(tasks[i].Action))
		}
	}
	return pending
}

// InsertTasksFrom is [Store.InsertTasks] for a stream of any length in bounded memory: it adds all
// the tasks that the sequence yields, in one transaction that lasts as long as the sequence takes,
// and returns their number. An error that the sequence yields ends the call; as after any other
// error, and if the sequence panics, nothing is added.
//
// Dependencies are named by [Task.After], When and WhenAny, and lead to tasks that came earlier in
// the stream or are in the store, however short the stream is; others are refused with
// [ErrTaskNotFound], also if the task comes later. [Task.ToSignalAfter] is refused with an
// [*ArgumentError]. So the only cycle is a task that names itself ([ErrCycle]). [ErrTaskExists] and
// [ErrTaskNotFound] name IDs among the last tasks read. A task without an ID gets a random one that
// the caller does not learn; such a call, its outcome unknown, cannot be repeated safely.
func (s *Store) InsertTasksFrom(
	ctx context.Context, tasks iter.Seq2[Task, error],
) (int64, error) {
	var inserted int64
	err := s.db.WithoutIdleLimit().TransactOnce(ctx, func(db *pg.DB) error {
		s := s.on(db)
		var piece []Task
		bytes := 0
		flush := func() error {
			err := s.insertPiece(ctx, piece)
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
				problem := argumentError("Task.ToSignalAfter",
					"must be empty in a stream; use Task.After")
				return at(problem, int(inserted)+len(piece), task.ID)
			}
			piece = append(piece, task)
			bytes += len(task.Body) + headers.Size(task.Headers)
			for id := range task.predecessors() {
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
	if err = s.waitIfRepeated(ctx, err, ErrTaskExists); err != nil {
		return 0, fmt.Errorf("insert tasks: %w", err)
	}
	return inserted, nil
}

// insertPiece inserts a piece of a stream. A task that waits for a later one of the piece is
// refused as if that were in the next piece: what a stream may say does not depend on its cuts.
func (s *Store) insertPiece(ctx context.Context, piece []Task) error {
	later := laterNamed(piece)
	if len(later) == 0 {
		return explainOrder(piece, s.insertTasks(ctx, piece))
	}
	if _, _, err := s.prepare(ctx, piece); err != nil {
		return err
	}
	return explainOrder(piece, s.takenOr(ctx, piece, taskError(later, ErrTaskNotFound)))
}

// laterNamed are the IDs of tasks for which others wait that come ahead of them.
func laterNamed(piece []Task) (later []TaskID) {
	waits := func(task Task) bool { return len(task.After) > 0 || isConditional(task) }
	if !slices.ContainsFunc(piece, waits) {
		return nil
	}
	first := make(map[TaskID]int, len(piece))
	for i := len(piece) - 1; i >= 0; i-- {
		first[piece[i].ID] = i
	}
	for i := range piece {
		for id := range piece[i].predecessors() {
			if first[id] > i {
				later = append(later, id)
			}
		}
	}
	return later
}

// explainOrder says of a task that waits for one that is not found what to do.
func explainOrder(piece []Task, err error) error {
	var missing *TaskError
	if !errors.Is(err, ErrTaskNotFound) || !errors.As(err, &missing) {
		return err
	}
	for i := range piece {
		if slices.Contains(slices.Collect(piece[i].predecessors()), missing.IDs[0]) {
			return fmt.Errorf("task %q waits for one that is neither earlier in the stream nor in "+
				"the store; put those first that others wait for: %w", string(piece[i].ID), err)
		}
	}
	return err
}

// unlessTaken runs insert and, if it fails because IDs are taken, finds out which. A transaction
// stricter than READ COMMITTED may not see the tasks with these IDs. An error that named them would
// tell the caller of tasks that do not exist for the rest of the transaction.
func (s *Store) unlessTaken(ctx context.Context, tasks []Task, insert func() error) error {
	const attempts = 3 // an ID may be freed between the collision and the question
	var err error
	for range attempts {
		if err = insert(); isKeyTaken(err) {
			// The server has lost keys that it gave out before a crash, and gives them out again.
			s.keys.Discard()
			continue
		}
		if !pg.Violates(err, "tasks_id_key") {
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
	if isKeyTaken(err) {
		return fmt.Errorf("the server gives out keys again that tasks have, as after a switchover "+
			"by logical replication; run stint migrate, which sets its sequences right: %w", err)
	}
	return pg.AsSerializationFailure(err)
}

// isKeyTaken reports whether an insert failed because a task has a key that it was to give. The
// parts of a statement run in any order, so any of the tables may be the first to say so.
func isKeyTaken(err error) bool {
	return slices.ContainsFunc([]string{
		"tasks_pkey", "ready_pkey", "scheduled_pkey", "blocked_pkey", "deadlines_pkey",
	}, func(constraint string) bool { return pg.Violates(err, constraint) })
}

// takenIDs are the IDs that come twice in tasks or are in the store, each once.
func (s *Store) takenIDs(ctx context.Context, tasks []Task) ([]TaskID, error) {
	taken := repeatedIDs(tasks)
	ids := make([]string, len(tasks))
	for i := range tasks {
		ids[i] = string(tasks[i].ID)
	}
	err := s.db.Run(ctx, pg.Step{
		Name: "existing_tasks", Args: []any{ids},
		Read: func(rows pgx.Rows) error {
			var id TaskID
			_, err := pgx.ForEachRow(rows, []any{&id, nil}, func() error {
				taken = append(taken, id)
				return nil
			})
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

// canShare reports whether the tasks of a call, with so many bytes, can share a statement with the
// tasks of other callers. They can if there is a single one, which is ready at once and not large.
func canShare(tasks []Task, bytes int) bool {
	return len(tasks) == 1 && bytes < groupcommit.SizeMax/2*taskSizeBytes && isPlain(tasks[0])
}

// isPlain reports whether a task is ready at once, and insert_separately inserts all of it.
func isPlain(task Task) bool {
	return task.NotBefore.IsZero() && task.AnswerKey == "" && !task.FailFast && !isLinked(task)
}

func isLinked(task Task) bool {
	return len(task.After) > 0 || len(task.ToSignalAfter) > 0 || task.Action == Spontaneous ||
		isConditional(task)
}

// taskSizeBytes is how many bytes of a body and headers take as much of a batch as a task.
const taskSizeBytes = 1 << 10

// taskSize is how much of a batch a task takes.
func taskSize(task Task) int {
	return 1 + (len(task.Body)+headers.Size(task.Headers))/taskSizeBytes
}

func cloneTask(task Task) Task {
	task.Body, task.Headers = slices.Clone(task.Body), maps.Clone(task.Headers)
	return task
}

// insertShared inserts a task, together with those that other callers insert at the same time, by
// EnsureTasks or not.
func (s *Store) insertShared(ctx context.Context, ensure bool, task Task) error {
	if err := s.db.CheckOpen(ctx); err != nil {
		return err
	}
	verdict, err := s.inserts.Do(ctx, ensure, task)
	if err != nil {
		return err
	}
	return verdict
}

// insertTogether inserts the tasks of several callers, or of one that calls EnsureTasks. The
// verdict on a task whose ID is taken is ErrTaskExists.
func (s *Store) insertTogether(
	ctx context.Context, ensure bool, tasks []Task, shared bool,
) ([]error, error) {
	verdicts := make([]error, len(tasks))
	if !shared && !ensure {
		return verdicts, s.insertFew(ctx, tasks, nil)
	}
	return verdicts, s.unlessTaken(ctx, tasks, func() error {
		keys, err := s.keysForFew(ctx, len(tasks))
		if err != nil {
			return err
		}
		steps := append(pg.LimitWaiting(shared), separately(tasks, keys, ensure, verdicts))
		return s.db.Do(ctx, pg.Request{Steps: steps, Known: readyNotices(tasks, nil)})
	})
}
