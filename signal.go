package stint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Dependency says that the task Run waits for the task After.
type Dependency struct{ After, Run TaskID }

// AddDependencies makes stored tasks wait for others, all of the dependencies or none (R16). It and
// a return of After exclude each other: either the dependency is there before After ends, or it is
// refused. A dependency that exists is left as it is, whatever the states of its tasks.
//
// If After is final, the error is [ErrTaskFinished]: there is nothing to wait for. If Run is in
// progress or final it is [ErrTaskStarted], also when the lease on it has expired and nobody else
// owns it yet; if one of them does not exist it is [ErrTaskNotFound]. All these come in a
// [*DependencyError] that lists every dependency refused, so that the caller can make the call
// again without them. If tasks would wait for each other, also because of calls that are made at
// the same moment, the error is [ErrCycle], in a [*CycleError] with the path (R4).
//
// Run may have been ready, or given back for another try. Until the transaction ends, the tasks
// named cannot be owned, returned or signalled, and other calls that add dependencies between
// stored tasks wait.
//
// If ctx ends or the connection breaks during the call, all of the dependencies may have been
// added, or none. Calling again is safe.
func (s *Store) AddDependencies(ctx context.Context, dependencies []Dependency) error {
	if err := s.addDependencies(ctx, dependencies); err != nil {
		return fmt.Errorf("add dependencies: %w", err)
	}
	return nil
}

func (s *Store) addDependencies(ctx context.Context, dependencies []Dependency) error {
	var afters, runs []TaskID
	for i, dependency := range dependencies {
		if err := dependency.check(); err != nil {
			return at(err, i, "")
		}
		if dependency.After == dependency.Run {
			return &CycleError{Path: []TaskID{dependency.After, dependency.Run}}
		}
		afters, runs = append(afters, dependency.After), append(runs, dependency.Run)
	}
	if len(dependencies) == 0 {
		return s.quiet(ctx)
	}
	return s.transact(ctx, func(s *Store) error {
		held, err := s.hold(ctx, afters, runs, true)
		if err != nil {
			return err
		}
		exists, ahead, err := s.edgesAround(ctx, dependencies, held)
		if err != nil {
			return err
		}
		edges, err := newEdges(dependencies, held, exists)
		if err != nil {
			return err
		}
		names := make(map[int64]TaskID, len(held))
		for id, task := range held {
			names[task.key] = id
		}
		if err := s.checkAcyclic(ctx, ahead, edges, names); err != nil {
			return err
		}
		return s.run(ctx, addEdges(edges))
	})
}

func (d Dependency) check() error {
	if err := checkText("Dependency.After", string(d.After), idBytesMax); err != nil {
		return err
	}
	return checkText("Dependency.Run", string(d.Run), idBytesMax)
}

// newEdges returns the edges that are not there yet, or the refusal.
func newEdges(
	dependencies []Dependency, held map[TaskID]heldTask, exists []bool,
) ([]keyEdge, error) {
	var edges []keyEdge
	var refusal DependencyError
	for i, dependency := range dependencies {
		after, afterFound := held[dependency.After]
		run, runFound := held[dependency.Run]
		refused := RefusedDependency{
			Dependency: dependency, AfterState: after.stateName(), RunState: run.stateName(),
		}
		switch {
		case exists[i]:
			continue
		case !afterFound || !runFound:
			refused.Err = ErrTaskNotFound
		case after.final():
			refused.Err = ErrTaskFinished
		case run.started():
			refused.Err = ErrTaskStarted
		default:
			edges = append(edges, keyEdge{after.key, run.key})
			continue
		}
		refusal.Refused = append(refusal.Refused, refused)
	}
	if len(refusal.Refused) > 0 {
		return nil, &refusal
	}
	return edges, nil
}

// edgesAround tells which of the dependencies exist, and what edges lead on from the ends of those
// that may close a cycle.
func (s *Store) edgesAround(
	ctx context.Context, dependencies []Dependency, held map[TaskID]heldTask,
) (exists []bool, ahead *numbering, err error) {
	edges := make([]keyEdge, len(dependencies))
	for i, dependency := range dependencies {
		edges[i] = keyEdge{held[dependency.After].key, held[dependency.Run].key}
	}
	blocked := make(map[int64]bool, len(held))
	for _, task := range held {
		blocked[task.key] = task.state == stateBlocked
	}
	exists, ahead = make([]bool, len(edges)), newNumbering()
	after, run := ends(edges)
	err = s.run(ctx,
		step{
			name: "existing_edges", args: []any{after, run},
			read: func(rows pgx.Rows) error {
				places, err := pgx.CollectRows(rows, pgx.RowTo[int64])
				for _, place := range places {
					exists[place-1] = true
				}
				return err
			},
		},
		edgesAhead(edges, blocked, ahead),
	)
	return exists, ahead, err
}

// edgesAhead reads the edges by which new ones may close a cycle. One that does so with the help of
// stored edges comes to a new edge from a task that is blocked already, and from there perhaps to
// others: what lies ahead of the rest, which may be all of a network, need not be looked at.
func edgesAhead(added []keyEdge, blocked map[int64]bool, ahead *numbering) step {
	onward, reached := map[int64][]int64{}, map[int64]bool{}
	var next []int64
	for _, edge := range added {
		onward[edge.after] = append(onward[edge.after], edge.run)
		if blocked[edge.after] {
			next = append(next, edge.run)
		}
	}
	for len(next) > 0 {
		key := next[len(next)-1]
		next = next[:len(next)-1]
		if !reached[key] {
			reached[key] = true
			next = append(next, onward[key]...)
		}
	}
	from := slices.Sorted(maps.Keys(reached))
	return step{name: "edges_ahead", args: []any{from}, read: ahead.read}
}

// A keyEdge is a row of the table edges.
type keyEdge struct{ after, run int64 }

// ends is how edges go into a statement.
func ends(edges []keyEdge) (after, run []int64) {
	after, run = make([]int64, len(edges)), make([]int64, len(edges))
	for i, edge := range edges {
		after[i], run[i] = edge.after, edge.run
	}
	return after, run
}

func addEdges(edges []keyEdge) step {
	after, run := ends(edges)
	return step{name: "add_edges", args: []any{after, run}}
}

// checkAcyclic refuses new edges that close a cycle with those that are ahead of them. Names are
// the IDs of the tasks at hand.
func (s *Store) checkAcyclic(
	ctx context.Context, ahead *numbering, added []keyEdge, names map[int64]TaskID,
) error {
	for _, edge := range added {
		ahead.add(edge)
	}
	if cycle := ahead.cycle(); cycle != nil {
		return s.cycleError(ctx, cycle, names)
	}
	return nil
}

// cycleError names the tasks of a cycle.
func (s *Store) cycleError(ctx context.Context, cycle []int64, names map[int64]TaskID) error {
	var unknown []int64
	for _, key := range cycle {
		if _, ok := names[key]; !ok {
			unknown = append(unknown, key)
		}
	}
	err := s.run(ctx, step{
		name: "task_ids", args: []any{unknown}, read: readNames(names),
	})
	if err != nil {
		return err
	}
	path := make([]TaskID, len(cycle))
	for i, key := range cycle {
		path[i] = names[key]
	}
	return &CycleError{Path: path}
}

// readNames reads rows of a key and an ID each.
func readNames(into map[int64]TaskID) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var key int64
			var id TaskID
			if err := rows.Scan(&key, &id); err != nil {
				return err
			}
			into[key] = id
		}
		return rows.Err()
	}
}

// A heldTask is a task that hold keeps in its state.
type heldTask struct {
	key   int64
	state int16
	late  bool
	// completed and aborted are what a completed spontaneous task stands for.
	completed, aborted *int32
}

func (t heldTask) final() bool { return t.state >= stateCompleted }

// started reports whether it is too late for the task to wait for something.
func (t heldTask) started() bool { return t.final() || t.state == stateInProgress || t.late }

func (t heldTask) stateName() State {
	var info TaskInfo
	switch {
	case t.key == 0:
		return ""
	case t.late:
		return StateInProgress
	}
	info.place(t.state, time.Time{})
	return info.State
}

// hold keeps tasks in their states until the transaction ends: none of afters can end, or be opened
// again, and none of runs can be handed out. If networks is set, nobody else can add edges between
// stored tasks, or open any again. IDs that no task has are left out of the answer.
func (s *Store) hold(
	ctx context.Context, afters, runs []TaskID, networks bool,
) (map[TaskID]heldTask, error) {
	var first []step
	if networks {
		first = []step{{name: "lock_networks"}}
	}
	kept := networks
	for range withdrawAttempts {
		held := map[TaskID]heldTask{}
		var shared []int64
		named, err := s.keysOf(ctx, slices.Concat(afters, runs),
			append(first, s.sharedTasks(afters, &shared)...)...)
		if err != nil || len(named) == 0 {
			return held, err
		}
		keys := make(map[TaskID]int64, len(named))
		for key, id := range named {
			keys[id] = key
		}
		s.setApart(ctx, singles(shared))
		var steps []step
		if !kept {
			steps = append(steps, keepEnds(keysNamed(keys, afters), &kept))
		}
		err = s.run(ctx, append(steps,
			step{name: "carve_ready", args: []any{keysNamed(keys, runs)}},
			step{
				name: "hold_tasks", args: []any{keysNamed(keys, afters), keysNamed(keys, runs)},
				read: func(rows pgx.Rows) error {
					for rows.Next() {
						var task heldTask
						err := rows.Scan(&task.key, &task.state, &task.late, &task.completed,
							&task.aborted)
						if err != nil {
							return err
						}
						id := named[task.key]
						held[id] = task
						delete(keys, id)
					}
					return rows.Err()
				},
			},
		)...)
		if err != nil {
			return nil, err
		}
		isFinal := func(id TaskID) bool { return held[id].final() }
		switch {
		case !kept && slices.ContainsFunc(afters, isFinal): // it may be opened again: look again
		case len(keys) == 0: // otherwise some moved on meanwhile
			return held, nil
		}
	}
	return nil, taskError(slices.Concat(afters, runs), errRestless)
}

// keepEnds keeps finished tasks from being opened again until the transaction ends, if there are
// some among these; kept then tells so.
func keepEnds(keys []int64, kept *bool) step {
	return step{
		name: "keep_ends", args: []any{keys},
		read: func(rows pgx.Rows) error {
			*kept = rows.Next()
			rows.Close()
			return rows.Err()
		},
	}
}

// keysNamed returns the keys of those IDs that have one, sorted, each once.
func keysNamed(keys map[TaskID]int64, ids []TaskID) []int64 {
	found := make([]int64, 0, len(ids))
	for _, id := range ids {
		if key, ok := keys[id]; ok {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// How many rounds of settling travel along with a statement that ends tasks. One goes all the way,
// but for tasks that others change at that moment, and for joins that get their signals over a
// distance. Where dependents are not expected it is none, since even an idle round costs as much as
// half a return.
const (
	roundsUsual = 1
	roundsNone  = 0
)

// settle runs steps that end tasks, and behind them rounds of settling, all in one round trip; if
// the rounds do not suffice, it begins again with more. The steps put what they end into the given
// round of the batch, and what others may wait for into the news; what is expected of it is known
// before. Last comes what needs to see all settled.
func (s *Store) settle(
	ctx context.Context, rounds int, expected *news,
	steps func(batch int64, round int, told *news) []step, last ...step,
) error {
	const more = 4
	for ; ; rounds = max(rounds*more, roundsUsual) {
		batch, told := rand.Int64(), &news{} //nolint:gosec // no secret
		all := steps(batch, rounds, told)
		for round := rounds; round > 0; round-- {
			all = append(all,
				step{name: "lock_dependents", args: []any{batch, round}},
				step{name: "settle_tasks", args: []any{batch, round}, read: readSettled(told)})
		}
		ahead := s.ahead(expected)
		err := s.runSplittingAnd(ctx, ahead, append(all, last...)...)
		var pgErr *pgconn.PgError
		switch {
		case err == nil:
			told.remove(ahead)
			s.tell(ctx, told)
			return nil
		case !errors.As(err, &pgErr) || pgErr.ConstraintName != "settling_rounds":
			return err
		}
	}
}

// readSettled reads actions of tasks that became ready, and keys of tasks that ended.
func readSettled(told *news) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var ready *string
			var finished *int64
			if err := rows.Scan(&ready, &finished); err != nil {
				return err
			}
			if ready != nil {
				told.addReady(*ready)
			}
			if finished != nil {
				told.finished = append(told.finished, *finished)
			}
		}
		return rows.Err()
	}
}

// An Input is how a predecessor of a task ended, with the result that it left.
type Input struct {
	ID         TaskID
	StatusCode StatusCode
	AbortCause AbortCause // why it was aborted, if it was
	Status     string
	Result     []byte
}

// Inputs returns how the predecessors of an owned task ended, with their results. A spontaneous
// predecessor that completed has no result; it stands for the tasks that it waited for, so behind a
// join come those that were joined. Tasks that were inserted together and are alike in action and
// priority come in the order in which they were inserted.
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken] (R8), in a
// [*TaskError].
func (s *Store) Inputs(ctx context.Context, owned OwnedTask) ([]Input, error) {
	inputs, err := s.inputs(ctx, owned)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	return inputs, nil
}

func (s *Store) inputs(ctx context.Context, owned OwnedTask) ([]Input, error) {
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return nil, err
	}
	var inputs []Input
	p := owned.performance()
	mine := map[performance]bool{}
	check := step{
		name: "owned_task", args: []any{p.key, int64(p.claim)}, read: readPerformances(mine),
	}
	err := s.whileOwned(ctx, []OwnedTask{owned}, mine, check, step{
		name: "inputs", args: []any{[]int64{p.key}, true},
		read: func(rows pgx.Rows) error {
			inputs = nil
			return readInputs(rows, func(_ int64, input Input) { inputs = append(inputs, input) })
		},
	})
	if err != nil {
		return nil, err
	}
	return inputs, nil
}

func readInputs(rows pgx.Rows, each func(key int64, input Input)) error {
	for rows.Next() {
		var key int64
		var input Input
		var cause int16
		var status *string
		if err := rows.Scan(&key, &input.ID, &cause, &status, &input.Result); err != nil {
			return err
		}
		input.StatusCode = StatusCompleted
		if cause != 0 {
			input.StatusCode, input.AbortCause = StatusAborted, abortCause(cause)
		}
		if status != nil {
			input.Status = *status
		}
		each(key, input)
	}
	return rows.Err()
}
