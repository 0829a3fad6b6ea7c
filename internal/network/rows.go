// Package network has the rows that link tasks: what a task waits for, and the signals for it that
// are there from the start. Tasks are keys here.
package network

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/pg"
)

// An Edge is a row of the table edges.
type Edge struct{ After, Run int64 }

// Ends returns edges as the parameters of a statement.
func Ends(edges []Edge) (after, run []int64) {
	after, run = make([]int64, len(edges)), make([]int64, len(edges))
	for i, edge := range edges {
		after[i], run[i] = edge.After, edge.Run
	}
	return after, run
}

// ReadEdges adds rows of two keys each to a graph.
func ReadEdges(into *dag.KeyGraph) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var e Edge
		_, err := pgx.ForEachRow(rows, []any{&e.After, &e.Run}, func() error {
			into.Add(e.After, e.Run)
			return nil
		})
		return err
	}
}

// Ahead reads the stored edges that may close a cycle together with new ones. Such a cycle has a
// new edge whose predecessor is blocked already, so only what can be reached from such edges is
// read. The rest may be a whole network.
func Ahead(added []Edge, blocked map[int64]bool, ahead *dag.KeyGraph) pg.Step {
	onward, reached := map[int64][]int64{}, map[int64]bool{}
	var next []int64
	for _, edge := range added {
		onward[edge.After] = append(onward[edge.After], edge.Run)
		if blocked[edge.After] {
			next = append(next, edge.Run)
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
	return pg.Step{Name: "edges_ahead", Args: []any{from}, Read: ReadEdges(ahead)}
}

// Rows are those of tasks that are linked.
type Rows struct {
	Waiting  []Waiting
	Edges    []Edge // into new tasks
	Arrivals []Arrival
	// IntoStored are the edges into stored tasks.
	IntoStored []Edge
}

// A Waiting task has yet to get signals.
type Waiting struct {
	Key       int64
	Missing   int32
	NotBefore *time.Time
}

// An Arrival is the signals for a task that have arrived.
type Arrival struct {
	Key                         int64
	Signals, Completed, Aborted int32
	Spoiled                     bool // by a predecessor that was aborted
}

// Saturated adds two counts. Layers of joins may drive a sum up to the largest integer, but not
// beyond.
func Saturated(a, b int32) int32 {
	return a + min(b, math.MaxInt32-a)
}

// Tables returns the rows that COPY adds, by table.
func (r *Rows) Tables() []pg.Table {
	blocked, edges := make([][]any, len(r.Waiting)), make([][]any, len(r.Edges))
	for i, row := range r.Waiting {
		blocked[i] = []any{row.Key, row.Missing, row.NotBefore}
	}
	for i, row := range r.Edges {
		edges[i] = []any{row.After, row.Run}
	}
	return []pg.Table{
		pg.NewTable("blocked", blocked, "key", "missing", "not_before"),
		pg.NewTable("edges", edges, "after", "run"),
	}
}

// Step is the statement that adds the rows, except for edges into stored tasks. The signals go into
// a round of a batch of settling.
func (r *Rows) Step(batch int64, round int) pg.Step {
	var waiting, arriving []int64
	var missing, signals, completed, aborted []int32
	var notBefore []*time.Time
	var spoiled []bool
	for _, row := range r.Waiting {
		waiting, missing = append(waiting, row.Key), append(missing, row.Missing)
		notBefore = append(notBefore, row.NotBefore)
	}
	for _, row := range r.Arrivals {
		arriving, signals = append(arriving, row.Key), append(signals, row.Signals)
		completed, aborted = append(completed, row.Completed), append(aborted, row.Aborted)
		spoiled = append(spoiled, row.Spoiled)
	}
	after, run := Ends(r.Edges)
	return pg.Step{Name: "insert_network", Args: []any{
		batch, round, waiting, missing, notBefore, after, run, arriving, signals, completed,
		aborted, spoiled,
	}}
}
