package shards

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/views"
)

// A Task is what a caller inserts into a cluster.
type Task struct {
	// Shard is where the task is performed.
	Shard string

	// Task is the task there. Its After, ToSignalAfter, When and WhenAny name tasks of its shard;
	// in an insert over several shards, ToSignalAfter only such of the call.
	Task stint.Task

	// After are further tasks that this one waits for, on any shard; those of others have IDs of
	// up to 398 bytes.
	After []ID

	// When and WhenAny are further conditions, about tasks of any shard. In an insert over several
	// shards, tasks with WhenAny that wait for stored tasks of their shard, also by way of tasks of
	// the call, are all on one shard.
	When, WhenAny []Condition
}

// A Condition is [stint.Condition], about a task of any shard.
type Condition struct {
	After   ID
	States  []stint.State
	Results []string
}

// remoteIDBytesMax is how long the ID of a task may be that another shard waits for: a placeholder
// has it in its own.
const remoteIDBytesMax = 512 - len(placeholderPrefix) - views.NameBytesMax - len("//") -
	uuidBytes

const uuidBytes = 36

// A plan is an insert over several shards: what goes into each, and which of them decides.
type plan struct {
	insert   string // a random UUID
	parts    map[string]*part
	decides  string
	reported map[reporting]bool
	reports  []plannedReport
}

// A part is what is inserted into one shard.
type part struct {
	shard string
	tasks []stint.Task
	from  []int // the place in the call of each, or of the task that it was planned for
}

// A plannedReport is a task that reports, planned for the task at a place in the call.
type plannedReport struct {
	shard string
	from  int
	task  stint.Task
}

// A reporting is a task, and the shard that must learn how it ends.
type reporting struct {
	of ID
	to string
}

// report is the body of a task that reports.
type report struct {
	Task        stint.TaskID `json:"task"`
	Shard       string       `json:"shard"`
	Placeholder stint.TaskID `json:"placeholder"`
}

// placeholder is the body of a placeholder.
type placeholder struct {
	Shard  string       `json:"shard"`
	Report stint.TaskID `json:"report"`
}

// guard is the body of a task that undoes its part of an insert that is not decided.
type guard struct {
	Decides  string         `json:"decides"`
	Decision stint.TaskID   `json:"decision"`
	Gate     stint.TaskID   `json:"gate"`
	Tasks    []stint.TaskID `json:"tasks"`
}

// decision is the body of the task whose being there decides an insert. Undone says that it was
// decided against.
type decision struct {
	Gate   stint.TaskID `json:"gate"`
	Shards []string     `json:"shards"`
	Undone bool         `json:"undone,omitempty"`
}

func (p *plan) gate() stint.TaskID     { return stint.TaskID(gatePrefix + p.insert) }
func (p *plan) decision() stint.TaskID { return stint.TaskID(decisionPrefix + p.insert) }

// newPlan plans the insert of tasks. It gives those an ID that have none, in the caller's slice.
func newPlan(topology Topology, tasks []Task) (*plan, error) {
	insert, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make an ID: %w", err)
	}
	p := &plan{
		insert: insert.String(), parts: map[string]*part{}, reported: map[reporting]bool{},
	}
	for i := range tasks {
		if err := p.name(topology, &tasks[i]); err != nil {
			return nil, at(err, i, tasks[i].Task.ID)
		}
	}
	order, edges, others, err := inOrder(tasks)
	if err != nil {
		return nil, err
	}
	passOn := passingOn(tasks, order, edges)
	for i, task := range tasks {
		task.Task.FailFast = task.Task.FailFast || passOn[i]
		if err := p.add(topology, i, task); err != nil {
			return nil, at(err, i, task.Task.ID)
		}
	}
	for _, last := range p.reports { // no task is younger than the one that reports it (isYounger)
		p.put(last.shard, last.from, last.task)
	}
	if len(p.parts) > 1 {
		if err := refuseSignals(tasks); err != nil {
			return nil, err
		}
		p.decides, err = shardOfFirsts(tasks, order, slices.Concat(edges, others))
	}
	p.decides = cmp.Or(p.decides, p.largest())
	return p, err
}

func (p *plan) name(topology Topology, task *Task) error {
	if _, err := topology.URL(task.Shard); err != nil {
		return err
	}
	switch {
	case IsOwn(task.Task.ID), IsOwnAction(task.Task.Action):
		return &stint.ArgumentError{
			Argument: "Task", Index: -1, Err: stint.ErrInvalidArgument,
			Problem: "has an ID or an action of the tasks that a cluster inserts for itself",
		}
	case task.Task.ID != "":
		return nil
	}
	random, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("make an ID: %w", err)
	}
	task.Task.ID = stint.TaskID(random.String())
	return nil
}

// add puts a task into its part, and what makes it wait for tasks of other shards.
func (p *plan) add(topology Topology, i int, task Task) error {
	local := task.Task
	local.After = slices.Clone(local.After)
	for _, before := range task.After {
		if before.Shard == task.Shard {
			local.After = append(local.After, before.Task)
			continue
		}
		if _, err := topology.URL(before.Shard); err != nil {
			return err
		}
		stands, err := p.waitFor(i, reporting{before, task.Shard})
		if err != nil {
			return err
		}
		local.After = append(local.After, stands)
	}
	var err error
	if local.When, err = p.conditions(topology, i, task.Shard, local.When, task.When); err != nil {
		return err
	}
	local.WhenAny, err = p.conditions(topology, i, task.Shard, local.WhenAny, task.WhenAny)
	p.put(task.Shard, i, local)
	return err
}

// conditions adds to the conditions of the task at a place in the call those about tasks of any
// shard: of other ones, they are about the placeholders, which end as the tasks do.
func (p *plan) conditions(
	topology Topology, i int, shard string, local []stint.Condition, more []Condition,
) ([]stint.Condition, error) {
	local = slices.Clone(local)
	for _, c := range more {
		about := stint.Condition{After: c.After.Task, States: c.States, Results: c.Results}
		if c.After.Shard != shard {
			if _, err := topology.URL(c.After.Shard); err != nil {
				return nil, err
			}
			stands, err := p.waitFor(i, reporting{c.After, shard})
			if err != nil {
				return nil, err
			}
			about.After = stands
		}
		local = append(local, about)
	}
	return local, nil
}

// after are the tasks that a task waits for, in whatever way: first those whose abort brings it
// down, then the others.
func (t *Task) after() (ordinary, others []ID) {
	ordinary = slices.Clone(t.After)
	for _, before := range t.Task.After {
		ordinary = append(ordinary, ID{t.Shard, before})
	}
	add := func(before ID, states []stint.State, anyOf bool) {
		if anyOf || slices.Contains(states, stint.StateAborted) {
			others = append(others, before)
		} else {
			ordinary = append(ordinary, before)
		}
	}
	for i, conditions := range [][]stint.Condition{t.Task.When, t.Task.WhenAny} {
		for _, c := range conditions {
			add(ID{t.Shard, c.After}, c.States, i > 0)
		}
	}
	for i, conditions := range [][]Condition{t.When, t.WhenAny} {
		for _, c := range conditions {
			add(c.After, c.States, i > 0)
		}
	}
	return ordinary, others
}

// waitFor returns the placeholder of a task of another shard, for which the task at a place in the
// call waits.
func (p *plan) waitFor(i int, r reporting) (stint.TaskID, error) {
	stands := placeholderID(r.of, p.insert)
	if p.reported[r] {
		return stands, nil
	}
	if err := checkRemote("Task.After", r.of.Task); err != nil {
		return "", err
	}
	name := stint.TaskID(fmt.Sprintf("%s%s/%d", reportPrefix, p.insert, len(p.reported)))
	p.reported[r] = true
	here, there, err := edge(r, stands, name)
	if err != nil {
		return "", err
	}
	p.put(r.to, i, here)
	p.reports = append(p.reports, plannedReport{r.of.Shard, i, there})
	return stands, nil
}

// edge returns the placeholder of a task, and the task that reports to it from the other shard.
func edge(r reporting, stands, name stint.TaskID) (here, there stint.Task, err error) {
	here = stint.Task{ID: stands, Action: stint.External}
	if here.Body, err = json.Marshal(placeholder{r.of.Shard, name}); err != nil {
		return here, there, err
	}
	there = stint.Task{
		ID: name, Action: reportAction + r.to, After: []stint.TaskID{r.of.Task},
		OnAbort: stint.RunAnyway, MaxTries: stint.UnlimitedTries,
		FailFast: true, // see canceller
	}
	there.Body, err = json.Marshal(report{Task: r.of.Task, Shard: r.to, Placeholder: stands})
	return here, there, err
}

// checkRemote refuses what cannot be the ID of a task that another shard waits for.
func checkRemote(argument string, id stint.TaskID) error {
	bad := &stint.ArgumentError{Argument: argument, Index: -1, Err: stint.ErrInvalidArgument}
	switch {
	case id == "":
		bad.Problem = "must not name a task without an ID"
	case !utf8.ValidString(string(id)) || strings.Contains(string(id), "\x00"):
		bad.Problem = fmt.Sprintf("%.80q must be valid UTF-8 without NUL bytes", string(id))
	case len(id) > remoteIDBytesMax:
		bad.Err = stint.ErrTooLarge
		bad.Problem = fmt.Sprintf("%.80q has %d bytes, over the limit of %d of tasks that other "+
			"shards wait for", string(id), len(id), remoteIDBytesMax)
	default:
		return nil
	}
	return bad
}

// at adds the place in the call to an argument's error.
func at(err error, i int, id stint.TaskID) error {
	if bad, ok := err.(*stint.ArgumentError); ok { //nolint:errorlint // made just before, unwrapped
		bad.Index, bad.ID = i, id
	}
	return err
}

// placed gives an argument's error of the shard the place that the task has in the call.
func (p *part) placed(err error) error {
	var bad *stint.ArgumentError
	if !errors.As(err, &bad) || bad.Index < 0 || bad.Index >= len(p.from) {
		return err
	}
	moved := *bad
	moved.Index = p.from[bad.Index]
	return inShard(p.shard, &moved)
}

// put puts a task into the part of a shard.
func (p *plan) put(shard string, from int, task stint.Task) {
	of := p.parts[shard]
	if of == nil {
		of = &part{shard: shard}
		p.parts[shard] = of
	}
	of.tasks, of.from = append(of.tasks, task), append(of.from, from)
}

// largest is the shard with the most tasks: it decides, since its tasks need no gate.
func (p *plan) largest() string {
	shards := slices.Sorted(maps.Keys(p.parts))
	if len(shards) == 0 {
		return ""
	}
	return slices.MaxFunc(shards, func(a, b string) int {
		return cmp.Compare(len(p.parts[a].tasks), len(p.parts[b].tasks))
	})
}

// gated returns the tasks of a part that does not decide: behind a gate, and with a guard. All have
// the gate, also those that wait for others of the part: an abort from outside of the insert, or
// somebody who replaces a task, may end these before the gate opens. But a task with WhenAny cannot
// wait for anything besides.
func (p *plan) gated(of *part) ([]stint.Task, error) {
	gate, ids := p.gate(), make([]stint.TaskID, len(of.tasks))
	open := stint.Condition{After: gate, States: []stint.State{opened}}
	tasks := make([]stint.Task, len(of.tasks), len(of.tasks)+2) //nolint:mnd // gate and guard
	failsFast := slices.ContainsFunc(of.tasks, func(task stint.Task) bool { return task.FailFast })
	for i, task := range of.tasks {
		ids[i] = task.ID
		if len(task.WhenAny) == 0 {
			task.When = append(slices.Clone(task.When), open)
		}
		tasks[i] = task
	}
	body, err := json.Marshal(guard{p.decides, p.decision(), gate, ids})
	return append(tasks,
		// Without PostResult it could be aborted with what only an aborted task needs, and then say
		// nothing of the decision.
		stint.Task{ID: gate, Action: stint.External, PostResult: failsFast},
		stint.Task{
			ID: stint.TaskID(guardPrefix + p.insert), Action: guardAction, Body: body,
			MaxTries: stint.UnlimitedTries,
		}), err
}

// deciding returns the tasks of the part that decides.
func (p *plan) deciding() ([]stint.Task, error) {
	var others []string
	for shard := range p.parts {
		if shard != p.decides {
			others = append(others, shard)
		}
	}
	slices.Sort(others)
	body, err := json.Marshal(decision{Gate: p.gate(), Shards: others})
	return append(slices.Clone(p.parts[p.decides].tasks), stint.Task{
		ID: p.decision(), Action: decisionAction, Body: body, MaxTries: stint.UnlimitedTries,
		PostResult: true, // kept for whoever asks for it, also with KeepNone
	}), err
}

// refuseSignals refuses edges to stored tasks in an insert over several shards: undoing it would
// make these wait for tasks that never come, or delete them.
func refuseSignals(tasks []Task) error {
	inserted := idsOf(tasks)
	for i, task := range tasks {
		for _, dependent := range task.Task.ToSignalAfter {
			if !inserted[ID{task.Shard, dependent}] {
				return &stint.ArgumentError{
					Argument: "Task.ToSignalAfter", Index: i, ID: task.Task.ID,
					Err: stint.ErrInvalidArgument,
					Problem: fmt.Sprintf("must name tasks of the same call in an insert over "+
						"several shards, not %q: add that dependency afterwards", dependent),
				}
			}
		}
	}
	return nil
}

// shardOfFirsts returns the shard whose part has tasks with WhenAny that a stored task could start
// before the insert over several shards is decided: they cannot wait for a gate besides, so this
// part decides. If several shards have some, they are refused.
func shardOfFirsts(tasks []Task, order []int32, edges []dag.Edge) (string, error) {
	before, inserted := predecessors(tasks, edges), idsOf(tasks)
	exposed := make([]bool, len(tasks)) // to the end of a stored task
	shard := ""
	for _, i := range order {
		of := &tasks[i]
		ordinary, others := of.after()
		exposed[i] = slices.ContainsFunc(slices.Concat(ordinary, others), func(id ID) bool {
			return id.Shard == of.Shard && !inserted[id]
		}) || slices.ContainsFunc(before[i], func(predecessor int32) bool {
			return exposed[predecessor] && tasks[predecessor].Shard == of.Shard
		})
		switch {
		case !exposed[i] || len(of.WhenAny)+len(of.Task.WhenAny) == 0:
		case shard == "" || shard == of.Shard:
			shard = of.Shard
		default:
			return "", &stint.ArgumentError{
				Argument: "Task.WhenAny", Index: int(i), ID: of.Task.ID,
				Err: stint.ErrInvalidArgument,
				Problem: fmt.Sprintf("waits for stored tasks of its shard, as does that of a task "+
					"of shard %q: insert these two apart", shard),
			}
		}
	}
	return shard, nil
}

func idsOf(tasks []Task) map[ID]bool {
	ids := make(map[ID]bool, len(tasks))
	for _, task := range tasks {
		ids[ID{task.Shard, task.Task.ID}] = true
	}
	return ids
}

// predecessors returns the places of the tasks that each task waits for.
func predecessors(tasks []Task, edges []dag.Edge) [][]int32 {
	before := make([][]int32, len(tasks))
	for _, edge := range edges {
		before[edge.To] = append(before[edge.To], edge.From)
	}
	return before
}

// inOrder returns the places of tasks, each behind those that it waits for; the edges between them
// along which aborts bring tasks down; and the others. It refuses tasks that would wait for each
// other.
func inOrder(tasks []Task) (order []int32, edges, others []dag.Edge, err error) {
	number := make(map[ID]int32, len(tasks))
	for i, task := range tasks {
		number[ID{task.Shard, task.Task.ID}] = int32(i)
	}
	add := func(into *[]dag.Edge, before, after ID) {
		from, known := number[before]
		if to, also := number[after]; known && also {
			*into = append(*into, dag.Edge{From: from, To: to})
		}
	}
	for i, task := range tasks {
		id := ID{task.Shard, task.Task.ID}
		ordinary, conditional := tasks[i].after()
		for _, before := range ordinary {
			add(&edges, before, id)
		}
		for _, before := range conditional {
			add(&others, before, id)
		}
		for _, dependent := range task.Task.ToSignalAfter {
			add(&edges, id, ID{task.Shard, dependent})
		}
	}
	order, cycle := dag.Order(len(tasks), slices.Concat(edges, others))
	if len(cycle) == 0 {
		return order, edges, others, nil
	}
	path := make([]stint.TaskID, len(cycle))
	for i, n := range cycle {
		path[i] = stint.TaskID(ID{tasks[n].Shard, tasks[n].Task.ID}.String())
	}
	return nil, nil, nil, &stint.CycleError{Path: path}
}

// passingOn returns which tasks are to have FailFast since their aborts bring down, on other
// shards, tasks that have it: there, nobody sees what these tasks wait for.
func passingOn(tasks []Task, order []int32, edges []dag.Edge) []bool {
	before := predecessors(tasks, edges)
	brings, passOn := make([]bool, len(tasks)), make([]bool, len(tasks))
	for _, i := range slices.Backward(order) {
		of := tasks[i]
		if of.Task.OnAbort != stint.AbortToo || !of.Task.FailFast && !brings[i] {
			continue
		}
		for _, predecessor := range before[i] {
			brings[predecessor] = true
			if tasks[predecessor].Shard != of.Shard {
				passOn[predecessor] = true
			}
		}
	}
	return passOn
}
