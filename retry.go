package stint

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/network"
	"github.com/stint-tasks/stint/internal/pg"
)

// RetryTasks opens finished tasks again, with all their tries, and with them the tasks that were
// aborted because of them ([CauseDependency]) or skipped, directly or through others, unless
// another aborted predecessor keeps those aborted. Call it once the cause of the failure is fixed.
//
// The conditions of a task that is opened ([Task.When], [Task.WhenAny]) are decided anew, by how
// its predecessors have ended or will end. A skipped task is skipped again at once if they cannot
// be met either now: retry the predecessors in the same call. Of a predecessor that has left the
// store, a condition stays as it was decided, and is not met if it was not decided (R23). A task
// that the first of several has made ready keeps that signal.
//
// The tasks are ready once their predecessors have ended, as after their insert. Their status
// texts, results and NotBefore are dropped. A task whose Deadline has passed is aborted again. A
// pending dependent waits for the tasks again; a dependent that has begun or completed, and is not
// retried in the same call, keeps their signal and no longer depends on them: so retry completed
// tasks that depend on one another in one call. A task that is not final stays, without an error;
// a deleted task stays deleted. The predecessors of an aborted task are not pruned before it is.
// Those of a completed task may be, and then it lacks their results.
//
// The result names the tasks of the call that were opened, and counts the others that were opened
// with them.
//
// If there is no task of an ID, the error is [ErrTaskNotFound]. If a predecessor was aborted and is
// not retried in the same call, it is [ErrPredecessorAborted], with the IDs of the predecessors,
// unless the task runs anyway: the task could not begin. Either comes in a [*TaskError]. If a
// predecessor now waits for a dependent of the task, the error is [ErrCycle], in a [*CycleError]
// with the path. In all these cases nothing is changed. The call may be repeated after any failure:
// it finds the tasks open, or retries those that have finished again.
//
// Until the transaction ends, inserts of tasks that wait for finished ones must wait, and nothing
// is pruned. In a transaction that is stricter than READ COMMITTED, which may overlook dependents,
// the call is refused with an [*ArgumentError].
func (s *Store) RetryTasks(ctx context.Context, ids []TaskID) (Affected, error) {
	opened, err := s.retryTasks(ctx, ids)
	if err != nil {
		return Affected{}, fmt.Errorf("retry tasks: %w", err)
	}
	return opened, nil
}

func (s *Store) retryTasks(ctx context.Context, ids []TaskID) (opened Affected, err error) {
	if err := checkIDs(ids); err != nil {
		return opened, err
	}
	if len(ids) == 0 {
		return opened, s.db.CheckOpen(ctx)
	}
	err = s.transact(ctx, func(s *Store) error {
		opened = Affected{}
		strict := false
		named, err := s.keysOf(ctx, ids, pg.Step{Name: "lock_dependencies"}, pg.Step{
			Name: "lock_ends",
			Read: func(rows pgx.Rows) error {
				_, err := pgx.ForEachRow(rows, []any{&strict}, func() error { return nil })
				return err
			},
		})
		if err != nil {
			return err
		}
		if strict {
			return argumentError("transaction", "must not be stricter than READ COMMITTED")
		}
		if err := requireAll(ids, maps.Values(named)); err != nil {
			return err
		}
		r := &reopening{named: named}
		if err := r.lock(ctx, s); err != nil || len(r.ended) == 0 {
			return err
		}
		if err := r.lookAround(ctx, s); err != nil {
			return err
		}
		if err := r.choose(); err != nil {
			return err
		}
		if err := r.checkAcyclic(ctx, s); err != nil {
			return err
		}
		var keys []int64
		opened, keys = r.opened()
		note, err := changes.Tasks(ctx, s.db, "RetryTasks", keys)
		if err != nil {
			return err
		}
		if err := r.reopen(ctx, s); err != nil {
			return err
		}
		return changes.Others(ctx, s.db, note, opened.Others)
	})
	return opened, err
}

// A reopening is one call of RetryTasks.
type reopening struct {
	named map[int64]TaskID
	// ended are the named tasks that are final, and the tasks that were aborted because of them.
	// open says which of them are opened.
	ended map[int64]endedTask
	open  map[int64]bool
	// edges are all edges of the tasks in ended. before are those into each task, behind the
	// dependents of each.
	edges  []network.Edge
	before map[int64][]network.Edge
	behind map[int64][]int64
	// around are the tasks at the other ends of the edges.
	around map[int64]heldTask
	ids    map[int64]TaskID
}

// An endedTask is a final task that may be opened.
type endedTask struct {
	cause   int16
	onAbort OnAbort
	ends    endCounts
}

// endCounts are how many tasks completed and how many were aborted, as a predecessor signals it.
type endCounts struct{ completed, aborted int32 }

func endCountsOf(cause int16, completed, aborted *int32) endCounts {
	switch {
	case cause == causeSkipped:
		return endCounts{}
	case cause != 0:
		return endCounts{aborted: 1}
	case completed != nil && aborted != nil:
		return endCounts{*completed, *aborted}
	default:
		return endCounts{completed: 1}
	}
}

// lock finds the tasks that may be opened, and keeps them from being pruned. It looks again only if
// a task has ended or gone meanwhile: what has ended stays so (lock_ends).
func (r *reopening) lock(ctx context.Context, s *Store) error {
	locked := map[int64]bool{}
	for range attemptsMax {
		r.ended = map[int64]endedTask{}
		err := s.db.Run(ctx, pg.Step{
			Name: "find_ended", Args: []any{slices.Sorted(maps.Keys(r.named))},
			Read: r.readEnded,
		})
		if err != nil {
			return err
		}
		var loose []int64
		for key := range r.ended {
			if !locked[key] {
				loose = append(loose, key)
			}
		}
		if len(loose) == 0 {
			return nil
		}
		slices.Sort(loose)
		before := len(locked)
		err = s.db.Run(ctx, pg.Step{Name: "split_finished", Args: []any{loose}}, pg.Step{
			Name: "lock_finished", Args: []any{loose},
			Read: func(rows pgx.Rows) error {
				keys, err := pgx.CollectRows(rows, pgx.RowTo[int64])
				for _, key := range keys {
					locked[key] = true
				}
				return err
			},
		})
		if err != nil || len(locked) == before+len(loose) && r.allEnded() {
			return err
		}
	}
	return taskError(slices.Collect(maps.Values(r.named)), errUnstable)
}

// allEnded reports whether all named tasks are final.
func (r *reopening) allEnded() bool {
	for key := range r.named {
		if !r.mayOpen(key) {
			return false
		}
	}
	return true
}

func (r *reopening) readEnded(rows pgx.Rows) error {
	for rows.Next() {
		var key int64
		var task endedTask
		var completed, aborted *int32
		if err := rows.Scan(&key, &task.cause, &task.onAbort, &completed, &aborted); err != nil {
			return err
		}
		task.ends = endCountsOf(task.cause, completed, aborted)
		r.ended[key] = task
	}
	return rows.Err()
}

// lookAround reads the edges of the tasks, and holds the tasks at their other ends in their states.
func (r *reopening) lookAround(ctx context.Context, s *Store) error {
	r.before, r.behind = map[int64][]network.Edge{}, map[int64][]int64{}
	err := s.db.Run(ctx, pg.Step{
		Name: "edges_of", Args: []any{slices.Sorted(maps.Keys(r.ended))},
		Read: func(rows pgx.Rows) error {
			var e network.Edge
			var condition network.Condition
			into := []any{&e.After, &e.Run, &condition.Accepts, &condition.Results}
			_, err := pgx.ForEachRow(rows, into, func() error {
				if e.Condition = nil; condition.Accepts != 0 {
					conditional := condition
					e.Condition = &conditional
				}
				r.edges = append(r.edges, e)
				r.before[e.Run] = append(r.before[e.Run], e)
				r.behind[e.After] = append(r.behind[e.After], e.Run)
				return nil
			})
			return err
		},
	})
	if err != nil || len(r.edges) == 0 {
		return err
	}
	r.ids = map[int64]TaskID{}
	after, run := network.Ends(r.edges)
	err = s.db.Run(ctx, pg.Step{
		Name: "task_ids", Args: []any{slices.Concat(after, run)}, Read: readNames(r.ids),
	})
	if err != nil {
		return err
	}
	var afters, runs []TaskID
	for _, e := range r.edges {
		if id, ok := r.ids[e.After]; ok && !r.mayOpen(e.After) {
			afters = append(afters, id)
		}
		if id, ok := r.ids[e.Run]; ok && !r.mayOpen(e.Run) {
			runs = append(runs, id)
		}
	}
	held, err := s.lockStates(ctx, afters, runs, nil, true)
	r.around = make(map[int64]heldTask, len(held))
	for _, task := range held {
		r.around[task.key] = task
	}
	return err
}

func (r *reopening) mayOpen(key int64) bool {
	_, ok := r.ended[key]
	return ok
}

// choose decides which tasks are opened: all that no predecessor keeps aborted.
func (r *reopening) choose() error {
	r.open = make(map[int64]bool, len(r.ended))
	for key := range r.ended {
		r.open[key] = true
	}
	var refused []TaskID
	queue := slices.Collect(maps.Keys(r.ended))
	for len(queue) > 0 {
		key := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if !r.open[key] || r.ended[key].onAbort == RunAnyway {
			continue
		}
		for _, before := range r.before[key] {
			if !before.FallsWith() || !r.staysAborted(before.After) {
				continue
			}
			if _, ok := r.named[key]; ok {
				refused = append(refused, r.ids[before.After])
				continue
			}
			r.open[key] = false
			queue = append(queue, r.behind[key]...)
			break
		}
	}
	if len(refused) > 0 {
		return taskError(refused, ErrPredecessorAborted)
	}
	return nil
}

// opened returns which tasks are opened, and the keys of those of the call.
func (r *reopening) opened() (opened Affected, keys []int64) {
	for key, open := range r.open {
		id, named := r.named[key]
		switch {
		case open && named:
			opened.Tasks, keys = append(opened.Tasks, id), append(keys, key)
		case open:
			opened.Others++
		}
	}
	slices.Sort(opened.Tasks)
	return opened, keys
}

// staysAborted reports whether a task was aborted and is not opened.
func (r *reopening) staysAborted(key int64) bool {
	if task, ok := r.ended[key]; ok {
		return task.cause != 0 && task.cause != causeSkipped && !r.open[key]
	}
	return stateOf(r.around[key].state) == StateAborted
}

// checkAcyclic refuses to open tasks that would wait for themselves: while a task is final, its
// predecessors may be made to wait for its dependents.
func (r *reopening) checkAcyclic(ctx context.Context, s *Store) error {
	_, added, _ := r.dependents()
	_, pending := network.Ends(added)
	for _, e := range r.edges {
		before, ok := r.around[e.After]
		if r.open[e.Run] && (r.open[e.After] || ok && !before.final()) {
			added = append(added, e)
		}
	}
	ahead := dag.NewKeyGraph()
	look := pg.Step{Name: "edges_ahead", Args: []any{pending}, Read: network.ReadEdges(ahead)}
	if err := s.db.Run(ctx, look); err != nil {
		return err
	}
	return s.checkAcyclic(ctx, ahead, added, r.ids)
}

// reopen writes what was chosen. As in an insert, each task waits for its predecessors and one
// signal more, which settling then gives it.
func (r *reopening) reopen(ctx context.Context, s *Store) error {
	rows := network.Rows{Opened: true}
	var keys, loose []int64 // loose wait for others, and so do not hold their limit keys
	for key := range r.ended {
		if !r.open[key] {
			continue
		}
		keys = append(keys, key)
		missing, ends, verdict := r.predecessorsOf(key)
		if missing > 0 {
			loose = append(loose, key)
		}
		isConditional := func(e network.Edge) bool { return e.Condition != nil }
		if slices.ContainsFunc(r.before[key], isConditional) {
			missing = int32(len(r.before[key])) //nolint:gosec // edges of a task
			rows.Conditional = append(rows.Conditional, key)
		} else {
			rows.Arrivals = append(rows.Arrivals, network.Arrival{
				Key: key, Signals: 1, Completed: ends.completed, Aborted: ends.aborted,
				Verdict: verdict,
			})
		}
		rows.Waiting = append(rows.Waiting, network.Waiting{Key: key, Missing: missing + 1})
	}
	cut, again, back := r.dependents()
	after, run := network.Ends(cut)
	var waiting []int64
	var completed, aborted []int32
	for key, ends := range back {
		waiting, loose = append(waiting, key), append(loose, key)
		completed, aborted = append(completed, ends.completed), append(aborted, ends.aborted)
	}
	return s.settle(ctx, roundsUsual, nil, func(at settling) []pg.Step {
		steps := []pg.Step{{Name: "cut_edges", Args: []any{after, run}}}
		steps = append(append(steps, s.addEdges(again, at.pending)...),
			pg.Step{Name: "take_back_signals", Args: []any{waiting, completed, aborted}},
			pg.Step{Name: "reopen_tasks", Args: []any{keys, s.triesKept > 0, loose}})
		return append(steps, rows.Steps(at.batch, at.round)...)
	})
}

// predecessorsOf returns how many predecessors an opened task must wait for, and how the others
// have ended.
func (r *reopening) predecessorsOf(key int64) (missing int32, ends endCounts, verdict int16) {
	for _, e := range r.before[key] {
		var ended endCounts
		task, ok := r.around[e.After]
		cause := task.state - stateCompleted
		switch {
		case r.open[e.After], ok && !task.final():
			missing++
			continue
		case ok:
			ended = endCountsOf(cause, task.completed, task.aborted)
		default:
			cause, ended = r.ended[e.After].cause, r.ended[e.After].ends
		}
		if cause == causeSkipped && r.ended[key].onAbort == AbortToo {
			verdict = network.Unmet
		}
		ends.completed = network.Saturated(ends.completed, ended.completed)
		ends.aborted = network.Saturated(ends.aborted, ended.aborted)
	}
	return missing, ends, verdict
}

// dependents returns the edges from opened tasks that must be cut, the ones among them that must be
// added again, since the dependent is pending, and the signals that such dependents have received.
// Edges to aborted dependents stay, in case these are opened, too.
func (r *reopening) dependents() (cut, again []network.Edge, back map[int64]endCounts) {
	back = map[int64]endCounts{}
	for _, e := range r.edges {
		task, ok := r.around[e.Run]
		if !ok || !r.open[e.After] || task.state > stateCompleted {
			continue
		}
		cut = append(cut, e)
		// One that the first of several starts, and that is ready, has got that signal.
		if !task.started() && (!task.any || task.state == stateBlocked) {
			again = append(again, e)
			ends, ended := back[e.Run], r.ended[e.After].ends
			if task.any && r.ended[e.After].cause == 0 {
				ended.aborted = 0 // as take_signals counts what did not meet its condition
			}
			back[e.Run] = endCounts{
				network.Saturated(ends.completed, ended.completed),
				network.Saturated(ends.aborted, ended.aborted),
			}
		}
	}
	return cut, again, back
}
