package stint

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// AddDependencies makes stored tasks wait for others: it adds all of the dependencies or none
// (R16). If a predecessor is returned at the same time, either the dependency is added before the
// predecessor ends, or it is refused. A dependency that exists already is left as it is, whatever
// the states of its tasks. The dependent may be ready, or have been given back for another try.
//
// If a predecessor is final, the error is [ErrTaskFinished]: there is nothing to wait for. If a
// dependent is in progress or final, it is [ErrTaskStarted], even if its lease has expired and
// nobody else owns it yet; if one of the tasks does not exist, it is [ErrTaskNotFound]. All these
// come in a [*DependencyError] that lists every dependency refused, so that the caller can make the
// call again without them. If tasks would wait for each other, even through concurrent calls, the
// error is [ErrCycle], in a [*CycleError] with the path (R4).
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
		return s.checkOpen(ctx)
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
		room := &notices{}
		if err := s.run(ctx, s.addEdges(edges, room)...); err != nil {
			return err
		}
		s.notify(ctx, room)
		return nil
	})
}

func (d Dependency) check() error {
	if err := checkText("Dependency.After", string(d.Predecessor), idBytesMax); err != nil {
		return err
	}
	return checkText("Dependency.Run", string(d.Dependent), idBytesMax)
}

// newEdges returns the edges that are not there yet, or the refusal.
func newEdges(
	dependencies []Dependency, held map[TaskID]heldTask, exists []bool,
) ([]keyEdge, error) {
	var edges []keyEdge
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

// edgesAround returns which of the dependencies exist, and the edges that lead on from the
// dependencies that may close a cycle.
func (s *Store) edgesAround(
	ctx context.Context, dependencies []Dependency, held map[TaskID]heldTask,
) (exists []bool, ahead *keyGraph, err error) {
	edges := make([]keyEdge, len(dependencies))
	for i, dependency := range dependencies {
		edges[i] = keyEdge{held[dependency.Predecessor].key, held[dependency.Dependent].key}
	}
	blocked := make(map[int64]bool, len(held))
	for _, task := range held {
		blocked[task.key] = task.state == stateBlocked
	}
	exists, ahead = make([]bool, len(edges)), newKeyGraph()
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

// edgesAhead reads the stored edges that may close a cycle together with new ones. Such a cycle
// comes to a new edge from a task that is blocked already, and from there perhaps to other new
// edges. What lies ahead of the rest, which may be a whole network, need not be read.
func edgesAhead(added []keyEdge, blocked map[int64]bool, ahead *keyGraph) step {
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

// addEdges adds edges. A dependent that was ready leaves its place to parked tasks of its key.
func (s *Store) addEdges(edges []keyEdge, pending *notices) []step {
	after, run := ends(edges)
	leaving := slices.Compact(slices.Sorted(slices.Values(run)))
	return []step{
		s.makeRoom(leaving, leaving, nil, pending),
		{name: "add_edges", args: []any{after, run}},
	}
}

// checkAcyclic refuses new edges that close a cycle with the edges ahead of them. names are the IDs
// that are known.
func (s *Store) checkAcyclic(
	ctx context.Context, ahead *keyGraph, added []keyEdge, names map[int64]TaskID,
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
