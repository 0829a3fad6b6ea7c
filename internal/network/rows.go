// Package network has the rows that link tasks: what a task waits for, and the signals for it that
// are there from the start. Tasks are keys here.
package network

import (
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/pg"
)

// An Edge is a row of the table edges.
type Edge struct {
	After, Run int64
	Condition  *Condition // nil of an ordinary edge
}

// A Condition says how the predecessor must end, as the table edges has it.
type Condition struct {
	Accepts int16
	Results string // an array of bytea, as text; empty: null
}

// What Condition.Accepts is made of.
const (
	AcceptsCompleted int16 = 1 << iota
	AcceptsAborted
	AcceptsSkipped
	OneOfSeveral // the first to be met starts the dependent
)

// NewResults returns results in the form of a Condition.
func NewResults(results []string) string {
	if len(results) == 0 {
		return ""
	}
	quoted := make([]string, len(results))
	for i, result := range results {
		quoted[i] = `"\\x` + hex.EncodeToString([]byte(result)) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

// An EdgeCondition is the condition of an edge as graph_tasks has it.
type EdgeCondition struct {
	After   int64    `json:"after"`
	Accepts int16    `json:"accepts"`
	Results [][]byte `json:"results"`
}

// Accepted are the ends that the condition accepts.
func Accepted[State ~string](c EdgeCondition) (states []State) {
	for i, state := range []State{"completed", "aborted", "skipped"} {
		if c.Accepts&(AcceptsCompleted<<i) != 0 {
			states = append(states, state)
		}
	}
	return states
}

// Texts are the results as texts, which need not be UTF-8.
func (c EdgeCondition) Texts() (texts []string) {
	for _, result := range c.Results {
		texts = append(texts, string(result))
	}
	return texts
}

// FallsWith reports whether a dependent that does not run anyway is aborted when the predecessor
// is.
func (e Edge) FallsWith() bool {
	return e.Condition == nil || e.Condition.Accepts&(AcceptsAborted|OneOfSeveral) == 0
}

// Conditions returns the conditions of edges as two parameters of a statement: null, both of them,
// if all edges are ordinary.
func Conditions(edges []Edge) (accepts []*int16, results []*string) {
	isConditional := func(edge Edge) bool { return edge.Condition != nil }
	if !slices.ContainsFunc(edges, isConditional) {
		return nil, nil
	}
	accepts, results = make([]*int16, len(edges)), make([]*string, len(edges))
	for i, edge := range edges {
		if edge.Condition != nil {
			accepts[i] = &edge.Condition.Accepts
			results[i] = pg.NonZero(edge.Condition.Results)
		}
	}
	return accepts, results
}

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
	// Conditional are tasks with conditions, of whose predecessors some may have ended: the
	// statements find out what these signal.
	Conditional []int64
	// Opened says that these are opened again, and get a signal of their own.
	Opened bool
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
	// Verdict is what the signals say about conditions, as the table settling has it.
	Verdict int16
}

// Unmet is the Verdict of a signal that does not meet its condition.
const Unmet int16 = 1

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
	columns := []string{"after", "run", "accepts", "results"}
	accepts, results := Conditions(r.Edges)
	if accepts == nil {
		columns = columns[:2]
	}
	for i, row := range r.Edges {
		edges[i] = []any{row.After, row.Run}
		if accepts != nil {
			edges[i] = append(edges[i], accepts[i], results[i])
		}
	}
	return []pg.Table{
		pg.NewTable("blocked", blocked, "key", "missing", "not_before"),
		pg.NewTable("edges", edges, columns...),
	}
}

// Steps are the statements that add the rows, except for edges into stored tasks. The signals go
// into a round of a batch of settling.
func (r *Rows) Steps(batch int64, round int) []pg.Step {
	var waiting, arriving []int64
	var missing, signals, completed, aborted []int32
	var notBefore []*time.Time
	var spoiled []bool
	var verdicts []int16
	for _, row := range r.Waiting {
		waiting, missing = append(waiting, row.Key), append(missing, row.Missing)
		notBefore = append(notBefore, row.NotBefore)
	}
	for _, row := range r.Arrivals {
		arriving, signals = append(arriving, row.Key), append(signals, row.Signals)
		completed, aborted = append(completed, row.Completed), append(aborted, row.Aborted)
		spoiled, verdicts = append(spoiled, row.Spoiled), append(verdicts, row.Verdict)
	}
	after, run := Ends(r.Edges)
	accepts, results := Conditions(r.Edges)
	steps := []pg.Step{{Name: "insert_network", Args: []any{
		batch, round, waiting, missing, notBefore, after, run, arriving, signals, completed,
		aborted, spoiled, verdicts, accepts, results,
	}}}
	if len(r.Conditional) > 0 {
		own := 0
		if r.Opened {
			own = 1
		}
		steps = append(steps, pg.Step{
			Name: "take_signals", Args: []any{batch, round, r.Conditional, own},
		})
	}
	return steps
}
