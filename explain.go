package stint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/counts"
	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/network"
	"github.com/stint-tasks/stint/internal/pg"
)

// An Explanation is why a task does not run.
type Explanation struct {
	// Task is the task; this and all other tasks are without their bodies and results.
	Task TaskInfo

	// Missing is how many predecessors the task waits for, WaitsFor are up to 100 of these. AnyOf
	// says that the first of them to meet its condition starts the task (Task.WhenAny).
	Missing  int
	WaitsFor []TaskInfo
	AnyOf    bool

	// BecauseOf are up to 100 of the predecessors because of which the task was aborted or skipped,
	// if they are still in the store. Others may in turn have caused their ends.
	BecauseOf []TaskInfo

	// Steps are the recorded steps of the task: those that its next try need not do.
	Steps []StepInfo

	// TriesLeft is how often the task can still be fetched, -1 if there is no limit.
	TriesLeft int

	// Limits says how limits and pauses hold the task up; nil unless the task is ready, and its
	// action has limits, or it or one of its keys is paused.
	Limits *TaskLimits

	// AskedAt is when somebody last asked for tasks with this action, accurate to a minute; Now, as
	// long as a process that lives waits for such tasks, also if it is idle; zero if nobody has for
	// a week. Actors is how many actors are registered for the action by processes that live, or
	// attended.
	AskedAt time.Time
	Actors  int

	// Presence is what is known of the process of the owner of a task in progress.
	Presence Presence

	Copy string // as in [Stats]

	// Start is when the task will start; nil unless it is ready, before its Deadline, or scheduled;
	// [External] and [Spontaneous] ones have none.
	Start *Start

	Now time.Time // on the database's clock
}

// A Start is when a task will start, as far as the tables tell. It is an estimate: tasks that come
// meanwhile with a higher priority start first, and those who fetch may become faster or slower.
type Start struct {
	// At is when the task starts, about, or, if OrLater, at the earliest; zero if that is unknown.
	At      time.Time
	OrLater bool

	// Before is how many tasks are handed out first: those ahead of it in the queue of its action,
	// or if it is parked those of its key. Counting stops at 10,000 rows of tasks, each of up to
	// 1,000: BeforeOrMore says that there may be more.
	Before       int64
	BeforeOrMore bool

	// PerMinute is how many tasks of the action were fetched in a minute while others waited, in
	// the last minutes of [Store.Minutes], or how many its rate or that of its key lets start, if
	// that is less; 0 if neither is known.
	PerMinute float64

	// Unknown says why At is not known: "its action is paused". It is empty if At is known.
	Unknown string
}

// A Presence is what is known of the process of an owner.
type Presence string

// What may be known of a process.
const (
	// PresenceUnknown is of owners that are not registered ([Store.RegisterActor]), or no longer
	// are: nobody notices that they are gone before the lease expires.
	PresenceUnknown Presence = ""
	PresenceLives   Presence = "lives"
	// PresenceGone is of owners whose tasks are handed on within seconds, if a store maintains.
	PresenceGone Presence = "gone"
)

// explainedTasksMax is how many predecessors an explanation names.
const explainedTasksMax = 100

// explainedWordsMax is how many letters of a status the text of an explanation has.
const explainedWordsMax = 200

// explainedStepsMax is how many steps the text of an explanation names.
const explainedStepsMax = 20

// Explain says why a task does not run: what it waits for, until when it is scheduled, who owns it
// until when, which limits and pauses hold it up, how many tries are left, which steps it has
// recorded, whether somebody asks for its action, when it will start, and because of which
// predecessors it was aborted or skipped. If there is no such task, the error is [ErrTaskNotFound],
// in a [*TaskError].
func (s *Store) Explain(ctx context.Context, id TaskID) (Explanation, error) {
	explanation, err := s.explain(ctx, id)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain: %w", err)
	}
	return explanation, nil
}

func (s *Store) explain(ctx context.Context, id TaskID) (Explanation, error) {
	var e Explanation
	if err := checkText("task ID", string(id), idBytesMax); err != nil {
		return e, err
	}
	found := false
	var limits *TaskLimits
	var steps []StepInfo
	var start *counts.Start
	err := s.atOneInstant(ctx, func(s *Store) error {
		return s.db.Run(ctx, pg.Step{
			Name: "explain_task", Args: []any{string(id), explainedTasksMax},
			Read: func(rows pgx.Rows) (err error) {
				e, found, err = readExplanation(rows)
				return err
			},
		}, pg.Step{
			Name: "explain_asked", Args: []any{string(id), readyTopic("")},
			Read: func(rows pgx.Rows) error { return e.readAsked(rows) },
		}, pg.Step{
			Name: "explain_limits", Args: []any{string(id), limit.CountedMax, explainedWaitingMax},
			Read: func(rows pgx.Rows) (err error) {
				limits, err = readTaskLimits(rows)
				return err
			},
		}, pg.Step{
			Name: "explain_start", Args: []any{string(id), startRowsMax, counts.PaceMinutes},
			Read: func(rows pgx.Rows) (err error) {
				start, err = pgx.CollectOneRow(rows, pgx.RowToAddrOfStructByPos[counts.Start])
				if errors.Is(err, pgx.ErrNoRows) {
					err = nil
				}
				return err
			},
		}, stepsOf(id, &steps), pg.ReadOrigin(func(of pg.Origin) { e.Copy = s.db.CopyOf(of) }))
	})
	switch {
	case err != nil:
		return e, err
	case !found:
		return e, &TaskError{IDs: []TaskID{id}, Err: ErrTaskNotFound}
	}
	e.addLimits(limits)
	e.Steps = steps
	e.Start = e.start(start)
	return e, nil
}

// readExplanation reads a task, and others because of which it does not run.
func readExplanation(rows pgx.Rows) (e Explanation, found bool, err error) {
	for rows.Next() {
		var missing int
		var total *int
		var now time.Time
		var place int
		var anyOf bool
		info, err := readInfo(rows, &missing, &total, &now, &place, &anyOf)
		if err != nil {
			return e, found, err
		}
		switch {
		case !found:
		case e.Task.State == StateBlocked:
			e.WaitsFor = append(e.WaitsFor, info)
			continue
		case e.Task.State == StateReady:
			if e.Limits == nil {
				e.Limits = &TaskLimits{}
			}
			if place == 1 {
				e.Limits.KeyOwned = append(e.Limits.KeyOwned, info)
			} else {
				e.Limits.Owned = append(e.Limits.Owned, info)
			}
			continue
		default:
			e.BecauseOf = append(e.BecauseOf, info)
			continue
		}
		found = true
		info.depends(pg.OrZero(total), missing)
		e.Task, e.Missing, e.Now, e.TriesLeft = info, missing, now, -1
		if info.MaxTries > 0 {
			e.TriesLeft = max(info.MaxTries-info.Tries, 0)
		}
		e.AnyOf = anyOf
	}
	return e, found, rows.Err()
}

// readAsked reads whether somebody asks for the task's action, and what is known of its owner.
func (e *Explanation) readAsked(rows pgx.Rows) error {
	var askedAt *time.Time
	var owner *int16
	_, err := pgx.ForEachRow(rows, []any{&askedAt, &e.Actors, &owner}, func() error {
		e.AskedAt = pg.OrZero(askedAt)
		if e.AskedAt.After(e.Now) { // this statement is the later one
			e.AskedAt = e.Now
		}
		if e.Task.State == StateInProgress && owner != nil {
			e.Presence = map[int16]Presence{1: PresenceLives, 2: PresenceGone}[*owner]
		}
		return nil
	})
	return err
}

// TaskLimits is how limits and pauses hold up a ready task. [ActionLimits] tells of all its action.
type TaskLimits struct {
	Limits Limits // of the task's action

	// PausedSince is since when the action is paused, KeyPausedSince since when the task's key is;
	// zero if it is not.
	PausedSince    time.Time
	KeyPausedSince time.Time

	// InProgress is how many tasks with the action are in progress, if Limits.Concurrency is set,
	// and KeyInProgress how many of these have the task's key, if Limits.ConcurrencyPerKey is.
	// Counting stops at 100,000 rows. Owned are up to 100 of them, KeyOwned up to 100 of those with
	// the key; with Limits.Ordered the one that holds the key, in progress or not.
	InProgress    int
	Owned         []TaskInfo
	KeyInProgress int
	KeyOwned      []TaskInfo

	// NextAt is when the bucket of Limits.Rate has its next token, KeyNextAt when that of the key
	// has; zero if it has one. Tokens and KeyTokens are what they have; with ByCost, below 0, owe.
	NextAt, KeyNextAt time.Time
	Tokens, KeyTokens float64

	// KeyWaiting is how many ready tasks with the key wait for capacity below a limit of the key,
	// for the end of its pause, or for its turn: this one, too, if it is among them. Counting stops
	// at 10,000: KeyWaitingOrMore says that there may be more.
	KeyWaiting       int
	KeyWaitingOrMore bool

	// WaitsForTurn says that Limits.Fair makes the task wait for the turn of its key. TurnsAhead is
	// how many turns come first, one for each key and priority that has any; counting stops at
	// 10,000. Those of keys with more weight may come more than once.
	WaitsForTurn bool
	TurnsAhead   int

	// Parked says that the task is not in the queue, but waits for capacity below a limit of its
	// key, for the end of its pause, or for its turn. If nothing holds it up any more, a store that
	// maintains puts it back.
	Parked bool

	// Hidden says that whoever asks may not see the other tasks of the action, so that some of what
	// holds the task up is missing here.
	Hidden bool
}

const explainedWaitingMax = 10_000

// startRowsMax is how many rows of tasks ahead of one are counted.
const startRowsMax = 10_000

// readTaskLimits reads what holds up a task, nil if it is not ready or has no limits.
func readTaskLimits(rows pgx.Rows) (*TaskLimits, error) {
	var limits *TaskLimits
	for rows.Next() {
		limits = &TaskLimits{}
		var of limit.Columns
		var pausedAt, keyPausedAt, nextAt, keyNextAt *time.Time
		err := rows.Scan(append(of.All(), &pausedAt, &keyPausedAt, &limits.InProgress,
			&limits.KeyInProgress, &nextAt, &keyNextAt, &limits.KeyWaiting, &limits.Tokens,
			&limits.KeyTokens, &limits.WaitsForTurn, &limits.TurnsAhead, &limits.Parked)...)
		if err != nil {
			return nil, err
		}
		limits.Limits = fromEngine(of.Limits())
		limits.PausedSince, limits.KeyPausedSince = pg.OrZero(pausedAt), pg.OrZero(keyPausedAt)
		limits.NextAt, limits.KeyNextAt = pg.OrZero(nextAt), pg.OrZero(keyNextAt)
		if limits.KeyWaiting >= explainedWaitingMax {
			limits.KeyWaiting, limits.KeyWaitingOrMore = explainedWaitingMax, true
		}
	}
	return limits, rows.Err()
}

// addLimits adds what holds the task up. It was read by another statement than the task and those
// that are owned, and may have changed meanwhile.
func (e *Explanation) addLimits(limits *TaskLimits) {
	owned := e.Limits
	e.Limits = limits
	if e.Task.State != StateReady {
		e.Limits = nil
	}
	if e.Limits == nil || owned == nil {
		return
	}
	if limits.Limits.Concurrency > 0 {
		e.Limits.Owned = owned.Owned
	}
	if limits.Limits.ConcurrencyPerKey > 0 {
		e.Limits.KeyOwned = owned.KeyOwned
	}
}

// start says when the task will start, from what was read besides.
func (e *Explanation) start(of *counts.Start) *Start {
	isReady := e.Task.State == StateReady
	if of == nil || isReady && e.IsOverdue() || !isReady && e.Task.State != StateScheduled {
		return nil
	}
	if !isReady {
		if of.NotBefore = e.Task.NotBefore; of.NotBefore.Before(of.Now) {
			of.NotBefore = of.Now
		}
	} else if e.Limits != nil {
		of.NextAt, of.KeyNext = e.Limits.NextAt, e.Limits.KeyNextAt
	}
	s := &Start{Unknown: e.startUnknown(of)}
	s.Before, s.BeforeOrMore = of.Before()
	at, orLater, perSecond := of.Estimate()
	s.PerMinute = perSecond * time.Minute.Seconds()
	switch {
	case s.Unknown != "":
	case at.IsZero():
		s.Unknown = "too few minutes tell how fast its action is handed out"
	default:
		s.At, s.OrLater = at, orLater
	}
	return s
}

// unasked is why the start of a task is not known of which the text says more.
const unasked = "nobody asks for its action"

// startUnknown says why nobody can know when a task starts, as far as limits and pauses tell.
func (e *Explanation) startUnknown(of *counts.Start) string {
	isPaused, isKeyPaused := of.IsPaused()
	l := e.Limits
	switch {
	case e.Copy != "":
		return "the database is a copy"
	case isPaused:
		return "its action is paused"
	case isKeyPaused:
		return "its key is paused"
	case !e.IsAsked() && e.Actors == 0:
		return unasked
	case of.CountsCosts():
		return "its action has a budget, and nobody knows what those before it will spend"
	case l == nil && of.IsFair(), l != nil && l.WaitsForTurn:
		return "the keys of its action take turns"
	case l != nil && e.Task.Key != "" && (l.Limits.Ordered && len(l.KeyOwned) > 0 ||
		l.Limits.ConcurrencyPerKey > 0 && l.KeyInProgress >= l.Limits.ConcurrencyPerKey):
		return "it waits for the end of a task with its key"
	}
	return ""
}

// A Graph is a network of tasks at one instant.
type Graph struct {
	Tasks        []TaskInfo   // about in the order of insertion, without bodies and results
	Dependencies []Dependency // those between these tasks
	Cut          bool         // the network goes on beyond these tasks

	// Conditions are those of the dependencies that have one.
	Conditions []EdgeCondition
}

// An EdgeCondition is the condition of a dependency.
type EdgeCondition struct {
	Dependent TaskID
	Condition
	Any bool // it is in [Task.WhenAny]
	// Hidden says that a service has left out the results, which the caller may not read.
	Hidden bool
}

// String says in a few words how the predecessor must end: "if aborted".
func (c EdgeCondition) String() string {
	if c.Hidden {
		c.Results = []string{"…"}
	}
	return dag.Condition(c.States, c.Results, c.Any)
}

// graphTasksMax is how many tasks a graph holds.
const graphTasksMax = 10_000

// Graph returns the network around a task: everything that it depends on or that depends on it, and
// so on, finished tasks included until they are pruned. Of a network of more than 10,000 tasks it
// returns the nearest. If there is no such task, the error is [ErrTaskNotFound], in a [*TaskError].
func (s *Store) Graph(ctx context.Context, id TaskID) (*Graph, error) {
	return s.Remote().Graph(ctx, id, graphTasksMax)
}

func (s *Store) graph(ctx context.Context, id TaskID, tasksMax int) (*Graph, error) {
	if err := checkText("task ID", string(id), idBytesMax); err != nil {
		return nil, err
	}
	graph := &Graph{}
	names := map[int64]TaskID{}
	var before [][]int64 // the predecessors of each task, and the conditions of these edges
	var conditions [][]network.EdgeCondition
	err := s.db.Run(ctx, pg.Step{
		Name: "graph_tasks", Args: []any{string(id), tasksMax},
		Read: func(rows pgx.Rows) error {
			graph, before, conditions = &Graph{}, nil, nil // drops an answer that was cut off
			for rows.Next() {
				var key int64
				var predecessors []int64
				var met []network.EdgeCondition
				info, err := readInfo(rows, &key, &predecessors, &met, &graph.Cut)
				if err != nil {
					return err
				}
				names[key] = info.ID
				graph.Tasks = append(graph.Tasks, info)
				before, conditions = append(before, predecessors), append(conditions, met)
			}
			return rows.Err()
		},
	})
	if err != nil {
		return nil, err
	}
	if len(graph.Tasks) == 0 {
		return nil, &TaskError{IDs: []TaskID{id}, Err: ErrTaskNotFound}
	}
	for i, predecessors := range before {
		for _, c := range conditions[i] {
			if after, ok := names[c.After]; ok {
				graph.Conditions = append(graph.Conditions, EdgeCondition{
					Dependent: graph.Tasks[i].ID, Any: c.Accepts&network.OneOfSeveral != 0,
					Condition: Condition{after, network.Accepted[State](c), c.Texts()},
				})
			}
		}
		slices.Sort(predecessors)
		for _, key := range predecessors {
			if after, ok := names[key]; ok {
				graph.Dependencies = append(graph.Dependencies,
					Dependency{Predecessor: after, Dependent: graph.Tasks[i].ID})
			}
		}
	}
	return graph, nil
}

// WriteDOT writes the graph in the language of Graphviz: tasks as boxes, spontaneous ones as
// ellipses, coloured by state.
func (g *Graph) WriteDOT(w io.Writer) error { return g.drawing().WriteDOT(w) }

// WriteMermaid writes the graph in the language of Mermaid, which many sites draw in Markdown.
func (g *Graph) WriteMermaid(w io.Writer) error { return g.drawing().WriteMermaid(w) }

func (g *Graph) drawing() *dag.Drawing {
	var d dag.Drawing
	places := make(map[TaskID]int, len(g.Tasks))
	for i, task := range g.Tasks {
		places[task.ID] = i
		d.Boxes = append(d.Boxes, dag.Box{
			ID: string(task.ID), Action: task.Action, State: string(task.State),
			Cause: string(task.AbortCause), Round: task.Action == Spontaneous,
		})
	}
	conditions := make(map[Dependency]string, len(g.Conditions))
	for _, c := range g.Conditions {
		conditions[Dependency{c.After, c.Dependent}] = c.String()
	}
	for _, dependency := range g.Dependencies {
		d.Arrows = append(d.Arrows, dag.Arrow{
			From: places[dependency.Predecessor], To: places[dependency.Dependent],
			Condition: conditions[dependency],
		})
	}
	return &d
}
