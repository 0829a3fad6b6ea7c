package stint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/network"
	"github.com/stint-tasks/stint/internal/pg"
)

// AddDependencies makes stored tasks wait for others: it adds all of the dependencies or none
// (R16). If a predecessor is returned at the same time, either the dependency is added before the
// predecessor ends, or it is refused. A dependency that exists already is left as it is, whatever
// the states of its tasks, unless it has WhenAny. The dependent may be ready, or be tried again.
//
// The dependencies are as those in [Task.After]: they have no condition, so that the dependent is
// aborted or skipped with its predecessor, unless it runs anyway.
//
// If a predecessor is final, that is completed, aborted or skipped, the error is [ErrTaskFinished]:
// there is nothing to wait for. If a dependent is in progress or final, it is [ErrTaskStarted],
// even if its lease has expired and nobody else owns it yet; if one of the tasks does not exist, it
// is [ErrTaskNotFound]. All these come in a [*DependencyError] that lists every dependency refused,
// so that the caller can make the call again without them. If a dependent has [Task.WhenAny], it
// cannot wait for another besides: the error is an [*ArgumentError]. If tasks would wait for each
// other, even through concurrent calls, the error is [ErrCycle], in a [*CycleError] with the path
// (R4).
//
// Until the transaction ends, these tasks cannot be owned, returned or signalled, and other calls
// that add dependencies between stored tasks wait. If ctx ends or the connection breaks during the
// call, all of the dependencies may have been added, or none. Calling again is safe.
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
		if dependency.Predecessor == dependency.Dependent {
			return &CycleError{Path: []TaskID{dependency.Predecessor, dependency.Dependent}}
		}
		afters, runs = append(afters, dependency.Predecessor), append(runs, dependency.Dependent)
	}
	if len(dependencies) == 0 {
		return s.db.CheckOpen(ctx)
	}
	return s.transact(ctx, func(s *Store) error {
		held, err := s.lockStates(ctx, afters, runs, nil, true)
		if err != nil {
			return err
		}
		if err := refuseAny(dependencies, held); err != nil {
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
		pending := &pg.Notices{}
		if err := s.db.Run(ctx, s.addEdges(edges, pending)...); err != nil {
			return err
		}
		s.db.Notify(ctx, pending)
		return nil
	})
}

func (d Dependency) check() error {
	if err := checkText("Dependency.Predecessor", string(d.Predecessor), idBytesMax); err != nil {
		return err
	}
	return checkText("Dependency.Dependent", string(d.Dependent), idBytesMax)
}

// refuseAny refuses dependencies of tasks with WhenAny.
func refuseAny(dependencies []Dependency, held map[TaskID]heldTask) error {
	for i, dependency := range dependencies {
		if run := held[dependency.Dependent]; run.any && !run.started() {
			return at(argumentError("Dependency.Dependent", waitsForAny), i, dependency.Dependent)
		}
	}
	return nil
}

// waitsForAny is why a task cannot wait for another besides.
const waitsForAny = "has WhenAny, so the first of several tasks starts it: it cannot wait for " +
	"another besides"

// newEdges returns the edges that are not there yet, or the refusal.
func newEdges(
	dependencies []Dependency, held map[TaskID]heldTask, exists []bool,
) ([]network.Edge, error) {
	var edges []network.Edge
	var refusal DependencyError
	for i, dependency := range dependencies {
		after, afterFound := held[dependency.Predecessor]
		run, runFound := held[dependency.Dependent]
		refused := RefusedDependency{
			Dependency:       dependency,
			PredecessorState: after.stateName(), DependentState: run.stateName(),
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
			edges = append(edges, network.Edge{After: after.key, Run: run.key})
			continue
		}
		refusal.Refused = append(refusal.Refused, refused)
	}
	if len(refusal.Refused) > 0 {
		return nil, &refusal
	}
	return edges, nil
}

// edgesAround returns which of the dependencies exist, and the edges that lead on from the
// dependencies that may close a cycle.
func (s *Store) edgesAround(
	ctx context.Context, dependencies []Dependency, held map[TaskID]heldTask,
) (exists []bool, ahead *dag.KeyGraph, err error) {
	edges := make([]network.Edge, len(dependencies))
	for i, dependency := range dependencies {
		edges[i] = network.Edge{
			After: held[dependency.Predecessor].key, Run: held[dependency.Dependent].key,
		}
	}
	blocked := make(map[int64]bool, len(held))
	for _, task := range held {
		blocked[task.key] = task.state == stateBlocked
	}
	exists, ahead = make([]bool, len(edges)), dag.NewKeyGraph()
	after, run := network.Ends(edges)
	err = s.db.Run(ctx,
		pg.Step{
			Name: "existing_edges", Args: []any{after, run},
			Read: func(rows pgx.Rows) error {
				places, err := pgx.CollectRows(rows, pgx.RowTo[int64])
				for _, place := range places {
					exists[place-1] = true
				}
				return err
			},
		},
		network.Ahead(edges, blocked, ahead),
	)
	return exists, ahead, err
}

// addEdges adds edges. A dependent that was ready leaves its place to parked tasks of its key.
func (s *Store) addEdges(edges []network.Edge, pending *pg.Notices) []pg.Step {
	after, run := network.Ends(edges)
	accepts, results := network.Conditions(edges)
	leaving := slices.Compact(slices.Sorted(slices.Values(run)))
	return []pg.Step{
		s.limits.UnparkFor(s.db.InCallersTx(), leaving, leaving, pending),
		{Name: "add_edges", Args: []any{after, run, accepts, results}},
	}
}

// checkAcyclic refuses new edges that close a cycle with the edges ahead of them. names are the IDs
// that are known.
func (s *Store) checkAcyclic(
	ctx context.Context, ahead *dag.KeyGraph, added []network.Edge, names map[int64]TaskID,
) error {
	for _, edge := range added {
		ahead.Add(edge.After, edge.Run)
	}
	if cycle := ahead.Cycle(); cycle != nil {
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
	err := s.db.Run(ctx, pg.Step{
		Name: "task_ids", Args: []any{unknown}, Read: readNames(names),
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

// A heldTask is a task that lockStates keeps in its state.
type heldTask struct {
	key   int64
	state int16
	late  bool
	any   bool // the first of several starts the task: it takes no more dependencies
	// completed and aborted count the tasks that a completed spontaneous task stands for.
	completed, aborted *int32
}

func (t heldTask) final() bool { return t.state >= stateCompleted }

// started reports whether it is too late for the task to wait for something.
func (t heldTask) started() bool { return t.final() || t.state == stateInProgress || t.late }

func (t heldTask) stateName() State {
	switch {
	case t.key == 0:
		return ""
	case t.late:
		return StateInProgress
	}
	return stateOf(t.state)
}

// lockStates keeps tasks in their states until the transaction ends: none of afters can end, or be
// opened again, and none of runs can be fetched; of those of afters that conditions are about
// (judged), none can be deleted or replaced either, though it has ended. If exclusive is set,
// nobody else can add edges between stored tasks, or open any again. IDs that no task has are left
// out of the answer.
func (s *Store) lockStates(
	ctx context.Context, afters, runs, judged []TaskID, exclusive bool,
) (map[TaskID]heldTask, error) {
	var first []pg.Step
	if exclusive {
		first = []pg.Step{{Name: "lock_dependencies"}}
	}
	endsKept := exclusive
	for range attemptsMax {
		held := map[TaskID]heldTask{}
		var shared []int64
		named, err := s.keysOf(ctx, slices.Concat(afters, runs),
			append(first, s.splittableTasks(afters, &shared)...)...)
		if err != nil || len(named) == 0 {
			return held, err
		}
		keys := make(map[TaskID]int64, len(named))
		for key, id := range named {
			keys[id] = key
		}
		s.splitOff(ctx, singles(shared))
		var steps []pg.Step
		if !endsKept {
			steps = append(steps, keepEnds(keysNamed(keys, afters), &endsKept))
		}
		err = s.db.Run(ctx, append(steps,
			pg.Step{Name: "split_ready", Args: []any{keysNamed(keys, runs)}},
			pg.Step{
				Name: "lock_states", Args: []any{
					keysNamed(keys, afters), keysNamed(keys, runs), keysNamed(keys, judged),
				},
				Read: func(rows pgx.Rows) error {
					for rows.Next() {
						var task heldTask
						err := rows.Scan(&task.key, &task.state, &task.late, &task.completed,
							&task.aborted, &task.any)
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
		case !endsKept && slices.ContainsFunc(afters, isFinal): // it may be opened: try again
		case len(keys) == 0: // otherwise some changed their states meanwhile
			return held, nil
		}
	}
	return nil, taskError(slices.Concat(afters, runs), errUnstable)
}

// keepEnds keeps finished tasks from being opened again until the transaction ends, if some of the
// tasks with these keys are finished. It sets endsKept then.
func keepEnds(keys []int64, endsKept *bool) pg.Step {
	return pg.Step{
		Name: "keep_ends", Args: []any{keys},
		Read: func(rows pgx.Rows) error {
			*endsKept = rows.Next()
			rows.Close()
			return rows.Err()
		},
	}
}

// keysNamed returns the keys of the IDs that have one, sorted and without duplicates.
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

// keysOf runs the first steps, then finds the tasks with these IDs, and returns the IDs by key. It
// leaves out IDs that no task has.
func (s *Store) keysOf(
	ctx context.Context, ids []TaskID, first ...pg.Step,
) (map[int64]TaskID, error) {
	named := make(map[int64]TaskID, len(ids))
	find := pg.Step{Name: "task_keys", Args: []any{texts(ids)}, Read: readNames(named)}
	return named, s.db.Run(ctx, append(first, find)...)
}

// How many rounds of settling are sent with a statement that ends tasks. One settles everything,
// except for tasks that others change at that moment, and for joins whose signals come from levels
// far apart. If no dependents are expected, none is sent, since even an idle round costs as much as
// half a return.
const (
	roundsUsual = 1
	roundsNone  = 0
)

// settle runs steps that end tasks, and after them rounds of settling, all in one round trip. If
// the rounds do not suffice, it begins again with more. The steps put the tasks that they end into
// the given round of the batch, and the changes that others may wait for into pending. The notices
// in known are known before. The last steps run when everything is settled.
func (s *Store) settle(
	ctx context.Context, rounds int, known *pg.Notices, steps endSteps, last ...pg.Step,
) error {
	return s.settleCounting(ctx, nil, rounds, known, steps, last...)
}

// endSteps are steps that end tasks.
type endSteps func(at settling) []pg.Step

// A settling is where steps put the tasks that they end, a round of a batch, and the changes that
// others may wait for.
type settling struct {
	batch   int64
	round   int
	pending *pg.Notices
}

// An endCount is how many tasks settling ends for a cause.
type endCount struct {
	cause int16
	tasks int
}

// settleCounting is settle. It counts the tasks that it ends, unless counted is nil.
func (s *Store) settleCounting(
	ctx context.Context, counted *endCount, rounds int, known *pg.Notices, steps endSteps,
	last ...pg.Step,
) error {
	return s.settleBy(ctx, counted, rounds, known, func(at settling, settle []pg.Step) error {
		return s.db.Do(ctx, pg.Request{
			Steps: slices.Concat(steps(at), settle, last), Known: known, Collides: leasePart,
		})
	})
}

// settleBy is settleCounting by an attempt that ends tasks and runs the rounds of settling.
func (s *Store) settleBy(
	ctx context.Context, counted *endCount, rounds int, known *pg.Notices,
	attempt func(at settling, settle []pg.Step) error,
) error {
	var cause *int16
	if counted != nil {
		cause = &counted.cause
	}
	const more = 4
	for ; ; rounds = max(rounds*more, roundsUsual) {
		batch, pending := rand.Int64(), &pg.Notices{} //nolint:gosec // no secret
		if counted != nil {
			counted.tasks = 0
		}
		var settle []pg.Step
		for round := rounds; round > 0; round-- {
			settle = append(settle,
				pg.Step{Name: "lock_dependents", Args: []any{batch, round}},
				pg.Step{
					Name: "settle_tasks", Args: []any{batch, round, cause},
					Read: readSettled(pending, counted),
				})
		}
		err := attempt(settling{batch, rounds, pending}, settle)
		var pgErr *pgconn.PgError
		switch {
		case err == nil:
			pending.Remove(known)
			s.db.Notify(ctx, pending)
			return nil
		case !errors.As(err, &pgErr) || pgErr.ConstraintName != "settling_rounds":
			return err
		}
	}
}

// attemptsMax is how often a verb looks for tasks that change their states meanwhile. Each attempt
// waits for the transaction that locks the task, so a second attempt hardly ever misses.
const attemptsMax = 20

// errUnstable occurs only in a transaction that is stricter than READ COMMITTED. The caller must
// begin that transaction again.
var errUnstable = fmt.Errorf("task changed its state at every attempt: %w", &pgconn.PgError{
	Severity: "ERROR", Code: pg.CodeSerializationFailure,
	Message: "could not serialize access due to concurrent update",
})

// leasePart is the constraint under which a call that makes a new part of a lease chooses a number.
const leasePart = "leases_pkey"

// readSettled reads actions of tasks that became ready, keys of tasks that ended, and how many of
// them ended for the counted cause.
func readSettled(pending *pg.Notices, counted *endCount) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var ready *string
			var finished, count *int64
			if err := rows.Scan(&ready, &finished, &count); err != nil {
				return err
			}
			if ready != nil {
				pending.Add(readyTopic(*ready))
			}
			if finished != nil {
				pending.AddKeys(kindFinished, *finished)
			}
			if count != nil {
				counted.tasks += int(*count)
			}
		}
		return rows.Err()
	}
}
