package model_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// The model of TestStore_BehavesLikeTheModel knows no dependencies, and this one nothing else: one
// caller builds, cuts and performs networks, and everything the store answers is compared.
// Proves R2, R3, R4, R5, R7, R12, R14, R16, R17.
func TestStore_BehavesLikeTheModelOfNetworks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := plainPool(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "New", err, nil)
	checkWithin(t, pool, emptyNetworks, func(t *rapid.T) {
		m := &netMachine{comparison: compare(pool, store, &netReference{
			tasks: map[stint.TaskID]*netTask{},
		})}
		defer m.finish(t)
		m.insert(t) // so that there is something to do from the start
		t.Repeat(m.actions())
	})
}

// actions are what the machine does at random.
func (m *netMachine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":         m.check,
		"insert":   m.insert,
		"insert 2": m.insert,
		"ensure":   m.ensure,
		"ensure 2": m.ensure,
		"replace":  m.replace,
		"add":      m.add,
		"add 2":    m.add,
		"add 3":    m.add,
		"own":      m.own,
		"own 2":    m.own,
		"return":   m.returnTasks,
		"return 2": m.returnTasks,
		"return 3": m.returnTasks,
		"inputs":   m.inputs,
		"abort":    m.abort,
		"change":   m.change,
		"delete":   m.delete,
		"retry":    m.retry,
		"retry 2":  m.retry,
		"expire":   m.expire,
		"time":     m.passTime,
		"begin":    m.begin,
		"end":      m.end,
		"end 2":    m.end,
	}
}

// emptyNetworks empties the tables, faster than TRUNCATE does when there is little in them.
const emptyNetworks = `
DO $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT tablename FROM pg_tables
		WHERE schemaname = 'stint'
		  AND tablename NOT IN ('networks', 'supported', 'stint_schema_version')
	LOOP
		EXECUTE 'DELETE FROM stint.' || name;
	END LOOP;
END $$`

// A netMachine applies random verbs to a store and to the model of it, and compares what they
// answer.
type netMachine struct {
	comparison[*netReference]
	owned []stint.OwnedTask // all there were; most tokens have become good for nothing
}

// netIDs are few, so that edges meet.
var netIDs = []stint.TaskID{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}

// actOrJoin are the actions of tasks, most of which somebody performs.
var actOrJoin = []string{"act", "act", stint.Spontaneous}

func drawID(t *rapid.T, label string) stint.TaskID {
	return rapid.SampledFrom(netIDs).Draw(t, label)
}

// drawIDs draws some IDs, mostly of tasks that there are.
func (m *netMachine) drawIDs(t *rapid.T, most int, label string) []stint.TaskID {
	ids := rapid.SliceOfN(rapid.SampledFrom(netIDs), 0, most).Draw(t, label)
	if one(t, 8, "unknown") {
		return ids
	}
	return slices.DeleteFunc(ids, func(id stint.TaskID) bool { return m.model.tasks[id] == nil })
}

// batch draws tasks to insert, mostly with IDs that are free if they are to be, and with edges that
// lead from lower to higher IDs, most of them.
func (m *netMachine) batch(t *rapid.T, free bool) []netTask {
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom(netIDs), 0, 6, rapid.ID).Draw(t, "ids")
	if !one(t, 6, "taken") {
		ids = slices.DeleteFunc(ids, func(id stint.TaskID) bool {
			return free && m.model.tasks[id] != nil
		})
	} else if len(ids) > 0 && rapid.Bool().Draw(t, "twice") {
		ids = append(ids, ids[0])
	}
	wild := one(t, 10, "wild")
	batch := make([]netTask, len(ids))
	for i, id := range ids {
		task := netTask{Task: stint.Task{
			ID:       id,
			Action:   rapid.SampledFrom(actOrJoin).Draw(t, "action"),
			OnAbort:  rapid.SampledFrom([]stint.OnAbort{0, stint.RunAnyway}).Draw(t, "abort"),
			MaxTries: rapid.SampledFrom([]int{stint.UnlimitedTries, 3, 1, 2}).Draw(t, "tries"),
			Priority: rapid.SampledFrom([]int16{0, 0, 1}).Draw(t, "priority"),
		}}
		if one(t, 6, "early") {
			task.early, task.NotBefore = true, time.Now().Add(time.Hour)
		}
		for _, other := range rapid.SliceOfN(rapid.SampledFrom(netIDs), 0, 4).Draw(t, "edges") {
			known := m.model.tasks[other] != nil || slices.Contains(ids, other)
			switch {
			case !wild && (!known || other == id):
			case (other < id) != (wild && rapid.Bool().Draw(t, "back")):
				task.After = append(task.After, other)
			default:
				task.ToSignalAfter = append(task.ToSignalAfter, other)
			}
		}
		drawConditions(t, &task.Task)
		batch[i] = task
	}
	return batch
}

// drawConditions draws conditions for some of what a task waits for.
func drawConditions(t *rapid.T, task *stint.Task) {
	if !one(t, 2, "conditional") {
		return
	}
	slices.Sort(task.After)
	after := slices.Compact(task.After)
	task.After = nil
	anyOf := one(t, 3, "any of")
	for _, id := range after {
		condition := stint.Condition{After: id, States: rapid.SampledFrom([][]stint.State{
			nil, nil,
			{stint.StateCompleted, stint.StateSkipped},
			{stint.StateAborted},
			{stint.StateSkipped},
			{stint.StateCompleted, stint.StateAborted},
			{stint.StateAborted, stint.StateSkipped},
		}).Draw(t, "states")}
		completes := len(condition.States) == 0 || condition.States[0] == stint.StateCompleted
		if completes && rapid.Bool().Draw(t, "result") {
			condition.Results = rapid.SampledFrom([][]string{{"x"}, {"x", "y"}, {""}}).
				Draw(t, "results")
		}
		switch {
		case anyOf:
			task.WhenAny = append(task.WhenAny, condition)
		case one(t, 3, "plain"):
			task.After = append(task.After, id)
		default:
			task.When = append(task.When, condition)
		}
	}
}

func plainTasks(batch []netTask) []stint.Task {
	tasks := make([]stint.Task, len(batch))
	for i := range batch {
		tasks[i] = batch[i].Task
	}
	return tasks
}

func (m *netMachine) insert(t *rapid.T) {
	batch := m.batch(t, true)
	m.judge(t, "InsertTasks", m.queue.InsertTasks(t.Context(), plainTasks(batch)),
		m.model.insert(batch, false), batchEdges(batch))
}

func (m *netMachine) ensure(t *rapid.T) {
	batch := m.batch(t, false)
	existing, err := m.queue.EnsureTasks(t.Context(), plainTasks(batch))
	missing, left := m.model.toAdd(batch)
	m.judge(t, "EnsureTasks", err, m.model.insert(missing, false), batchEdges(missing))
	if err == nil {
		m.requireExisting(t, existing, left, len(batch))
	}
}

func (m *netMachine) replace(t *rapid.T) {
	batch := m.batch(t, false)
	m.judge(t, "ReplaceTasks", m.queue.ReplaceTasks(t.Context(), plainTasks(batch)),
		m.model.insert(batch, true), batchEdges(batch))
}

// judge checks an error against those that the model finds right. Added are edges that the verb
// would have added.
func (m *netMachine) judge(
	t *rapid.T, verb string, got error, want verdicts, added []stint.Dependency,
) {
	t.Helper()
	if len(want) == 0 && got == nil {
		return
	}
	var cycle *stint.CycleError
	if errors.As(got, &cycle) {
		m.checkCycle(t, cycle, added)
	}
	for _, right := range want {
		var gotTasks, rightTasks *stint.TaskError
		errors.As(got, &gotTasks)
		errors.As(right, &rightTasks)
		if sameSentinel(got, right) && (rightTasks == nil ||
			gotTasks != nil && slices.Equal(gotTasks.IDs, rightTasks.IDs)) {
			return
		}
	}
	t.Fatalf("%s = %v, want one of %v", verb, got, want)
}

func sameSentinel(got, want error) bool {
	var refused *stint.ArgumentError
	if errors.As(got, &refused) {
		return errors.Is(want, errAny)
	}
	return slices.ContainsFunc([]error{
		stint.ErrTaskExists, stint.ErrTaskNotFound, stint.ErrTaskInProgress, stint.ErrTaskStarted,
		stint.ErrCycle, stint.ErrPredecessorAborted,
	}, func(sentinel error) bool { return errors.Is(got, sentinel) && errors.Is(want, sentinel) })
}

// errAny stands for the refusal to let a task wait for another that the first of several starts.
var errAny = errors.New("a task with WhenAny waits for nothing else")

// batchEdges are all edges that a batch names.
func batchEdges(batch []netTask) []stint.Dependency {
	var edges []stint.Dependency
	for i := range batch {
		edges = append(edges, batch[i].edges()...)
		for _, condition := range slices.Concat(batch[i].When, batch[i].WhenAny) {
			edges = append(edges, stint.Dependency{
				Predecessor: condition.After, Dependent: batch[i].ID,
			})
		}
	}
	return edges
}

// checkCycle checks that each task on the path waits for the one before it, or would.
func (m *netMachine) checkCycle(t *rapid.T, cycle *stint.CycleError, added []stint.Dependency) {
	t.Helper()
	path := cycle.Path
	if len(path) < 2 || path[0] != path[len(path)-1] {
		t.Fatalf("the path %q is not closed", path)
	}
	for i, run := range path[1:] {
		pair := stint.Dependency{Predecessor: path[i], Dependent: run}
		task := m.model.tasks[run]
		waits := task != nil && task.waitsOnce(pair.Predecessor) && !task.after[pair.Predecessor]
		if !waits && !slices.Contains(added, pair) {
			t.Fatalf("on the path %q, %q does not wait for %q", path, run, pair.Predecessor)
		}
	}
}

func (m *netMachine) add(t *rapid.T) {
	wild := one(t, 5, "wild")
	wanted := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) stint.Dependency {
		pair := stint.Dependency{Predecessor: drawID(t, "after"), Dependent: drawID(t, "run")}
		if !wild && pair.Predecessor > pair.Dependent {
			pair.Predecessor, pair.Dependent = pair.Dependent, pair.Predecessor
		}
		return pair
	}), 1, 4).Draw(t, "dependencies")
	if !one(t, 5, "any") {
		wanted = slices.DeleteFunc(wanted, func(pair stint.Dependency) bool {
			after, run := m.model.tasks[pair.Predecessor], m.model.tasks[pair.Dependent]
			return after == nil || run == nil || after.final() || run.final()
		})
	}
	refused, cyclic, toAny := m.model.addDependencies(wanted)
	err := m.queue.AddDependencies(t.Context(), wanted)
	var refusal *stint.DependencyError
	var cycle *stint.CycleError
	var argument *stint.ArgumentError
	switch {
	case toAny && errors.As(err, &argument):
	case err == nil && len(refused) == 0 && !cyclic && !toAny:
	case cyclic && errors.As(err, &cycle):
		m.checkCycle(t, cycle, wanted)
	case errors.As(err, &refusal) && len(refused) > 0:
		var got []stint.RefusedDependency
		for _, r := range refusal.Refused {
			if !slices.Contains(got, r) {
				got = append(got, r)
			}
		}
		if !slices.Equal(got, refused) {
			t.Fatalf("AddDependencies refused %v, want %v", got, refused)
		}
	default:
		t.Fatalf("AddDependencies(%v) = %v, want refused %v, a cycle: %t",
			wanted, err, refused, cyclic)
	}
}

func (m *netMachine) own(t *rapid.T) {
	limit := rapid.SampledFrom([]int{1, 2, 3, 100}).Draw(t, "limit")
	owned, err := m.queue.OwnTasks(t.Context(), "actor", limit, []string{"act"}, time.Hour)
	if err == nil {
		err = m.model.own(limit, owned)
	}
	if err != nil {
		t.Fatalf("OwnTasks(%d) = %v: %v", limit, owned, err)
	}
	m.owned = append(m.owned, owned...)
	for _, task := range owned {
		m.checkInputs(t, task)
	}
}

// drawOwned draws a fetch, a recent one rather than an old one.
func (m *netMachine) drawOwned(t *rapid.T) stint.OwnedTask {
	if len(m.owned) == 0 {
		t.Skip("nothing was owned yet")
	}
	return m.owned[len(m.owned)-1-rapid.IntRange(0, len(m.owned)-1).Draw(t, "back")]
}

func (m *netMachine) returnTasks(t *rapid.T) {
	var returns []stint.Return
	for range rapid.IntRange(1, 3).Draw(t, "returns") {
		owned := m.drawOwned(t)
		if slices.ContainsFunc(returns, func(r stint.Return) bool { return r.ID == owned.ID }) {
			continue
		}
		given := rapid.SampledFrom([]stint.Return{
			{Code: stint.StatusCompleted},
			{Code: stint.StatusCompleted, Result: []byte("x")},
			{Code: stint.StatusCompleted, Result: []byte("y")},
			{Code: stint.StatusAborted},
			{Code: stint.StatusPending},
			{Code: stint.StatusPending, RetryAfter: time.Hour},
			{Code: stint.StatusPending, Release: true},
		}).Draw(t, "outcome")
		given.ID, given.Token = owned.ID, owned.Token
		returns = append(returns, given)
	}
	got, err := m.queue.ReturnTasks(t.Context(), returns)
	if err != nil {
		t.Fatalf("ReturnTasks = %v", err)
	}
	for i, accepted := range m.model.returnTasks(returns) {
		if got[i] == nil && !accepted && m.isUnsure() {
			continue // it was returned so before, which the client takes for the lost answer
		}
		if (got[i] == nil) != accepted || !accepted && !errors.Is(got[i], stint.ErrInvalidToken) {
			t.Fatalf("ReturnTasks(%v)[%d] = %v, want accepted: %t", returns, i, got[i], accepted)
		}
	}
}

func (m *netMachine) inputs(t *rapid.T) { m.checkInputs(t, m.drawOwned(t)) }

func (m *netMachine) checkInputs(t *rapid.T, owned stint.OwnedTask) {
	t.Helper()
	task := m.model.tasks[owned.ID]
	if task.owns(owned.Token) && task.late {
		t.Skip("a late owner who asks is the owner again, which is for the other model")
	}
	got, err := m.queue.Inputs(t.Context(), owned)
	if !task.owns(owned.Token) {
		if !errors.Is(err, stint.ErrInvalidToken) {
			t.Fatalf("Inputs(%q) = %v, want %v", owned.ID, err, stint.ErrInvalidToken)
		}
		return
	}
	ids := make([]stint.TaskID, len(got))
	for i, input := range got {
		ids[i] = input.ID
		before := m.model.tasks[input.ID]
		if before == nil || stint.StatusCode(before.state) != input.StatusCode ||
			before.cause != input.AbortCause {
			t.Fatalf("Inputs(%q)[%d] = %+v, want that of %+v", owned.ID, i, input, before)
		}
	}
	slices.Sort(ids)
	if want := m.model.inputs(task); err != nil || !slices.Equal(ids, want) {
		t.Fatalf("Inputs(%q) = %q, %v, want %q", owned.ID, ids, err, want)
	}
}

func (m *netMachine) abort(t *rapid.T) {
	ids := m.drawIDs(t, 2, "ids")
	before := m.model.states()
	aborted, err := m.queue.AbortTasks(t.Context(), ids, "")
	m.judge(t, "AbortTasks", err, m.model.abort(ids), nil)
	m.requireAffected(t, "AbortTasks", aborted, err, before, ids, func(task *netTask) bool {
		return task != nil && task.state == stint.StateAborted
	})
}

func (m *netMachine) delete(t *rapid.T) {
	ids := m.drawIDs(t, 2, "ids")
	before := m.model.states()
	deleted, err := m.queue.DeleteTasks(t.Context(), ids)
	m.judge(t, "DeleteTasks", err, m.model.delete(ids), nil)
	m.requireAffected(t, "DeleteTasks", deleted, err, before, ids, func(task *netTask) bool {
		return task == nil
	})
}

// retry opens tasks again, mostly some that have ended.
func (m *netMachine) retry(t *rapid.T) {
	ids := m.drawIDs(t, 4, "ids")
	if !one(t, 6, "any") {
		ids = slices.DeleteFunc(ids, func(id stint.TaskID) bool {
			return m.model.tasks[id] != nil && !m.model.tasks[id].final()
		})
	}
	settled := m.model.settled()
	opened, err := m.queue.RetryTasks(t.Context(), ids)
	var ended []stint.TaskID
	for _, id := range ids {
		if task := m.model.tasks[id]; task != nil && task.final() && !slices.Contains(ended, id) {
			ended = append(ended, id)
		}
	}
	m.judge(t, "RetryTasks", err, m.model.retry(ids), settled)
	slices.Sort(ended)
	if err == nil && !m.isUnsure() && !slices.Equal(opened.Tasks, ended) {
		t.Fatalf("RetryTasks(%q) opened %q, want %q", ids, opened.Tasks, ended)
	}
}

// requireAffected compares what a call says of the tasks that it has changed with those that
// changed in the model.
func (m *netMachine) requireAffected(
	t *rapid.T, verb string, got stint.Affected, err error, before map[stint.TaskID]stint.State,
	ids []stint.TaskID, changed func(*netTask) bool,
) {
	t.Helper()
	if err != nil || m.isUnsure() {
		return
	}
	var want stint.Affected
	for id, state := range before {
		switch task := m.model.tasks[id]; {
		case !changed(task), task != nil && task.state == state:
		case slices.Contains(ids, id):
			want.Tasks = append(want.Tasks, id)
		default:
			want.Others++
		}
	}
	slices.Sort(want.Tasks)
	if !slices.Equal(got.Tasks, want.Tasks) || got.Others != want.Others {
		t.Fatalf("%s(%q) says %+v, want %+v", verb, ids, got, want)
	}
}

func (m *netMachine) expire(t *rapid.T) {
	m.let(t, "UPDATE stint.leases SET deadline = statement_timestamp() - interval '1 second'")
	m.model.expire()
}

func (m *netMachine) passTime(t *rapid.T) {
	m.let(t, `
		WITH blocked AS (UPDATE stint.blocked SET not_before = statement_timestamp()
			WHERE not_before IS NOT NULL)
		UPDATE stint.scheduled SET not_before = statement_timestamp()`)
	m.model.passTime()
}

// let lets time pass by what a statement says, and then maintains.
func (m *netMachine) let(t *rapid.T, statement string) {
	t.Helper()
	if _, err := m.db.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	if err := m.store.Maintain(t.Context()); err != nil {
		t.Fatalf("Maintain = %v", err)
	}
}

// check compares the states of all tasks with the model, and looks at the rows behind them.
func (m *netMachine) check(t *rapid.T) {
	ids := m.model.ids()
	infos, err := m.queue.GetTasks(t.Context(), ids)
	if err != nil {
		t.Fatalf("GetTasks(%q) = %v", ids, err)
	}
	for i, info := range infos {
		task := m.model.tasks[ids[i]]
		got := fmt.Sprint(info.State, " ", info.AbortCause, " ", info.Tries)
		if want := fmt.Sprint(task.place(), " ", task.cause, " ", task.tries); got != want {
			t.Fatalf("%q is %s, want %s; %s", ids[i], got, want, m.model.describe(task))
		}
	}
	if found, err := m.store.Check(t.Context()); err != nil || len(found) > 0 {
		t.Fatalf("Check = %v, %v", found, err)
	}
	all, err := listTasks(t.Context(), m.queue, stint.Filter{})
	if err != nil || len(all) != len(ids) {
		t.Fatalf("ListTasks = %d tasks, %v, want %d", len(all), err, len(ids))
	}
}
