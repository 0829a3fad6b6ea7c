package model_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
)

// A failure prints the seed and writes the shortest run of verbs that fails to testdata/rapid. To
// run that again: go test -run TestStore_BehavesLikeTheModel -rapid.failfile <file>. To look
// further than the default does: -rapid.checks 5000.
// Proves G46.
func TestStore_BehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	pool := plainPool(t)
	retentions := []stint.Retention{
		{Completed: step, Aborted: 3 * step},
		{Completed: stint.KeepForever, Aborted: 2 * step},
		{Completed: stint.KeepNone, Aborted: stint.KeepNone},
	}
	stores := make([]*stint.Store, len(retentions))
	for i, keep := range retentions {
		var err error
		stores[i], err = stint.New(pool,
			stint.Options{Maintenance: stint.MaintainNever, Retention: keep})
		if err != nil {
			t.Fatal(err)
		}
	}
	checkWithin(t, pool, emptyTables, func(t *rapid.T) {
		i := rapid.IntRange(0, len(stores)-1).Draw(t, "retention")
		m := &machine{
			comparison: compare(pool, stores[i], &reference{
				keep: retentions[i], tasks: map[stint.TaskID]*referenceTask{},
			}),
			start:   time.Now(),
			crowded: one(t, 3, "crowded"),
			tokens:  map[stint.Token]bool{},
		}
		defer m.finish(t)
		m.insert(t) // so that there is something to do from the start
		t.Repeat(m.actions())
	})
}

// actions are what the machine does at random.
func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":          m.check,
		"insert":    m.insert,
		"insert 2":  m.insert,
		"ensure":    m.ensure,
		"stream":    m.stream,
		"replace":   m.replace,
		"own":       m.own,
		"own 2":     m.own,
		"own 3":     m.own,
		"extend":    m.extend,
		"extend 2":  m.extend,
		"return":    m.returnTask,
		"returns":   m.returnTasks,
		"returns 2": m.returnTasks,
		"status":    m.setStatus,
		"abort":     m.abort,
		"change":    m.change,
		"change 2":  m.change,
		"delete":    m.delete,
		"get":       m.get,
		"list":      m.list,
		"maintain":  m.maintain,
		"time":      m.passTime,
		"time 2":    m.passTime,
		"begin":     m.begin,
		"end":       m.end,
		"end 2":     m.end,
	}
}

// emptyTables empties the tables, faster than TRUNCATE does when there is little in them.
const emptyTables = `
WITH tasks AS (DELETE FROM stint.tasks), ready AS (DELETE FROM stint.ready),
     scheduled AS (DELETE FROM stint.scheduled), leases AS (DELETE FROM stint.leases),
     leased AS (DELETE FROM stint.leased), finished AS (DELETE FROM stint.finished)
DELETE FROM stint.deadlines`

// A machine applies random verbs to a store and to the model of it, and compares what they answer.
type machine struct {
	comparison[*reference]
	start time.Time
	// crowded says that there are batches large enough for spans.
	crowded bool

	fetches []fetch
	tokens  map[stint.Token]bool
	// named is how many tasks an error names at most, 0 for all.
	named int
}

// told is an error as a caller is told of it.
func (m *machine) told(err error) error {
	var about *stint.TaskError
	if errors.As(err, &about) && m.named > 0 && len(about.IDs) > m.named {
		return &stint.TaskError{IDs: about.IDs[:m.named], Err: about.Err}
	}
	return err
}

// A fetch is an answer of OwnTasks. Those that were rolled back stay, with tokens good for
// nothing.
type fetch struct {
	actor stint.ActorID
	tasks []stint.OwnedTask
}

var (
	actions = []string{"cook", "wash"}
	actors  = []stint.ActorID{"ann", "bob"}
	fewIDs  = []stint.TaskID{"a", "b", "c", "d", "e", "f", "g", "h"}
	leases  = []time.Duration{step, 2 * step, 4 * step, stint.NoExpiry}

	// crowds are sizes of batches: the last that is not copied, the first that is, and those whose
	// spans are of two, three and four tasks.
	crowds = []int{copiedTasksMin - 1, copiedTasksMin, 100, 150, 200}
)

const crowdMax = 250

func crowdID(i int) stint.TaskID { return stint.TaskID(fmt.Sprintf("n%03d", i)) }

// ids draws some IDs, mostly of tasks that there are.
func (m *machine) ids(t *rapid.T) []stint.TaskID {
	var ids []stint.TaskID
	if m.crowded && rapid.Bool().Draw(t, "crowd") {
		from := rapid.IntRange(0, crowdMax-1).Draw(t, "from")
		stride := rapid.IntRange(1, 7).Draw(t, "stride")
		n := rapid.IntRange(1, 30).Draw(t, "n")
		for i := from; i < crowdMax && len(ids) < n; i += stride {
			ids = append(ids, crowdID(i))
		}
	} else {
		ids = rapid.SliceOfN(rapid.SampledFrom(fewIDs), 0, 3).Draw(t, "ids")
	}
	if one(t, 4, "unknown") {
		return ids
	}
	return slices.DeleteFunc(ids, func(id stint.TaskID) bool { return m.model.tasks[id] == nil })
}

// someHeaders are what tasks have for headers, and lists are filtered by.
var someHeaders = []map[string]string{
	nil, nil, {"tenant": "a"}, {"tenant": "b", "traceparent": `{"\`}, {"n-1": ""},
}

// sevens is a body that is searched for.
const sevens = `{"n": [6, 7]}`

// someBodies are what tasks have for bodies.
var someBodies = [][]byte{nil, {}, {0, 255}, []byte(sevens), []byte(`{"n": "7"}`)}

func drawTask(t *rapid.T) newTask {
	return newTask{
		Task: stint.Task{
			ID:         rapid.SampledFrom(fewIDs).Draw(t, "id"),
			Action:     rapid.SampledFrom(actions).Draw(t, "action"),
			Key:        rapid.SampledFrom([]string{"", "", "k", "l"}).Draw(t, "key"),
			Priority:   rapid.SampledFrom([]int16{0, 0, 1, -1}).Draw(t, "priority"),
			MaxTries:   rapid.SampledFrom([]int{stint.UnlimitedTries, 3, 1, 2}).Draw(t, "tries"),
			PostResult: rapid.Bool().Draw(t, "post"),
			Body:       rapid.SampledFrom(someBodies).Draw(t, "body"),
			OnAbort:    rapid.SampledFrom([]stint.OnAbort{0, stint.RunAnyway}).Draw(t, "abort"),
			Headers:    rapid.SampledFrom(someHeaders).Draw(t, "headers"),
		},
		start:   rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1, 2}).Draw(t, "start"),
		expires: rapid.SampledFrom([]int{0, 0, 0, 0, 0, -1, 1, 3}).Draw(t, "expires"),
	}
}

// batch draws tasks to insert, few of all kinds or many of a few kinds, mostly with IDs that are
// free if they are to be.
func (m *machine) batch(t *rapid.T, free bool) []newTask {
	var batch []newTask
	if m.crowded && rapid.Bool().Draw(t, "crowd") {
		kinds := rapid.SliceOfN(rapid.Custom(drawTask), 1, 3).Draw(t, "kinds")
		batch = make([]newTask, rapid.SampledFrom(crowds).Draw(t, "n"))
		from := rapid.IntRange(0, crowdMax-len(batch)).Draw(t, "from")
		run := rapid.IntRange(1, 40).Draw(t, "run")
		for i := range batch {
			batch[i] = kinds[i/run%len(kinds)]
			batch[i].ID = crowdID(from + i)
		}
	} else {
		batch = rapid.SliceOfN(rapid.Custom(drawTask), 0, 5).Draw(t, "tasks")
	}
	if one(t, 4, "taken") {
		return batch
	}
	seen := map[stint.TaskID]bool{}
	return slices.DeleteFunc(batch, func(task newTask) bool {
		taken := seen[task.ID] || free && m.model.tasks[task.ID] != nil
		seen[task.ID] = true
		return taken
	})
}

// dated are the tasks with their times on the clock. The minute makes up for the clocks of test and
// database being two.
func dated(batch []newTask) []stint.Task {
	tasks := make([]stint.Task, len(batch))
	moment := func(steps int) time.Time {
		if steps == 0 {
			return time.Time{}
		}
		return time.Now().Add(time.Duration(steps)*step - time.Minute)
	}
	for i, task := range batch {
		tasks[i] = task.Task
		tasks[i].NotBefore, tasks[i].Deadline = moment(task.start), moment(task.expires)
	}
	return tasks
}

// sentinels are the errors to tell apart.
var sentinels = []error{
	stint.ErrTaskExists, stint.ErrTaskNotFound, stint.ErrTaskInProgress, stint.ErrTaskStarted,
	stint.ErrInvalidToken,
	stint.ErrAlreadyReturned, stint.ErrInvalidArgument,
}

func requireError(t *rapid.T, verb string, got, want error) {
	t.Helper()
	same := (got == nil) == (want == nil)
	for _, sentinel := range sentinels {
		same = same && errors.Is(got, sentinel) == errors.Is(want, sentinel)
	}
	var gotTasks, wantTasks *stint.TaskError
	errors.As(got, &gotTasks)
	errors.As(want, &wantTasks)
	if same && wantTasks != nil {
		same = gotTasks != nil && slices.Equal(gotTasks.IDs, wantTasks.IDs)
	}
	if !same {
		t.Fatalf("%s = %v, want %v", verb, got, want)
	}
}

func (m *machine) insert(t *rapid.T) {
	batch := m.batch(t, true)
	err := m.queue.InsertTasks(t.Context(), dated(batch))
	requireError(t, "InsertTasks", err, m.told(m.model.insert(batch)))
}

func (m *machine) ensure(t *rapid.T) {
	batch := m.batch(t, false)
	if rapid.Bool().Draw(t, "again") && len(batch) > 0 {
		batch = append(batch, batch[0])
	}
	existing, err := m.queue.EnsureTasks(t.Context(), dated(batch))
	requireError(t, "EnsureTasks", err, nil)
	m.requireExisting(t, existing, m.model.ensure(batch), len(batch))
}

// requireExisting checks which tasks of a call EnsureTasks has left out.
func (c *comparison[M]) requireExisting(t *rapid.T, got, want []stint.TaskID, all int) {
	t.Helper()
	if c.isUnsure() && len(got) == all {
		return // an earlier attempt has added the others
	}
	if !slices.Equal(got, want) {
		t.Fatalf("EnsureTasks has left out %q, want %q", got, want)
	}
}

var errBroken = errors.New("the sequence broke off")

func (m *machine) stream(t *rapid.T) {
	batch := m.batch(t, true)
	broken := one(t, 5, "broken")
	n, err := m.store.InsertTasksFrom(t.Context(), sequence(dated(batch), broken))
	if broken {
		if n != 0 || !errors.Is(err, errBroken) {
			t.Fatalf("InsertTasksFrom = %d, %v, want 0, %v", n, err, errBroken)
		}
		return
	}
	want := m.model.insert(batch)
	requireError(t, "InsertTasksFrom", err, want)
	if want == nil && n != int64(len(batch)) {
		t.Fatalf("InsertTasksFrom = %d, want %d", n, len(batch))
	}
}

func sequence(tasks []stint.Task, broken bool) iter.Seq2[stint.Task, error] {
	return func(yield func(stint.Task, error) bool) {
		for _, task := range tasks {
			if !yield(task, nil) {
				return
			}
		}
		if broken {
			yield(stint.Task{}, errBroken)
		}
	}
}

func (m *machine) replace(t *rapid.T) {
	batch := m.batch(t, false)
	err := m.queue.ReplaceTasks(t.Context(), dated(batch))
	requireError(t, "ReplaceTasks", err, m.told(m.model.replace(batch)))
}

func (m *machine) own(t *rapid.T) {
	actor := rapid.SampledFrom(actors).Draw(t, "actor")
	limit := rapid.SampledFrom([]int{1, 2, 3, 10, 33, 1000}).Draw(t, "limit")
	wanted := rapid.SampledFrom([][]string{
		actions, actions, actions[:1], {"wash", "none", "wash"},
	}).Draw(t, "actions")
	lease := rapid.SampledFrom(leases).Draw(t, "lease")
	owned, err := m.queue.OwnTasks(t.Context(), actor, limit, wanted, lease)
	requireError(t, "OwnTasks", err, nil)
	if err := m.model.own(actor, limit, wanted, lease, owned); err != nil {
		t.Fatalf("OwnTasks(%d, %v) = %v: %v", limit, wanted, owned, err)
	}
	for _, task := range owned {
		if m.tokens[task.Token] {
			t.Fatalf("OwnTasks gave the token of %q out before", task.ID)
		}
		m.tokens[task.Token] = true
		if got, want := m.steps(task.LeaseUntil), m.model.leaseEnd(lease); got != want {
			t.Fatalf("OwnTasks: deadline of %q at step %d, want %d", task.ID, got, want)
		}
	}
	if len(owned) > 0 {
		m.fetches = append(m.fetches, fetch{actor: actor, tasks: owned})
	}
}

// part draws a fetch and some of its tasks, the latest fetch rather than an old one.
func (m *machine) part(t *rapid.T) fetch {
	if len(m.fetches) == 0 {
		t.Skip("nothing was owned yet")
	}
	back := rapid.IntRange(0, len(m.fetches)-1).Draw(t, "back")
	chosen := m.fetches[len(m.fetches)-1-back]
	if rapid.Bool().Draw(t, "whole") {
		return chosen
	}
	from := rapid.IntRange(0, len(chosen.tasks)-1).Draw(t, "from")
	to := rapid.IntRange(from+1, len(chosen.tasks)).Draw(t, "to")
	chosen.tasks = slices.Clone(chosen.tasks[from:to])
	return chosen
}

func (m *machine) extend(t *rapid.T) {
	part := m.part(t)
	if rapid.Bool().Draw(t, "two") {
		part.tasks = slices.Concat(part.tasks, m.part(t).tasks)
	}
	if one(t, 8, "other") {
		part.actor = rapid.SampledFrom(actors).Draw(t, "actor")
	}
	lease := rapid.SampledFrom(leases).Draw(t, "lease")
	kept, err := m.queue.ExtendTasksOwnership(t.Context(), part.actor, part.tasks, lease)
	requireError(t, "ExtendTasksOwnership", err, nil)
	if want := m.model.extend(part.actor, part.tasks, lease); !slices.Equal(kept, want) {
		t.Fatalf("ExtendTasksOwnership(%v) = %v, want %v", part, kept, want)
	}
}

func drawOutcome(t *rapid.T) stint.Return {
	outcome := rapid.SampledFrom([]stint.Return{
		{Code: stint.StatusPending, RetryAfter: step},
		{Code: stint.StatusCompleted, Result: []byte{1}},
		{Code: stint.StatusPending},
		{Code: stint.StatusAborted, Result: []byte{}},
		{Code: stint.StatusPending, Release: true},
		{Code: stint.StatusPending, RetryAfter: step},
		{Code: stint.StatusPending, RetryAfter: 2 * step, Release: true},
	}).Draw(t, "outcome")
	outcome.Status = rapid.SampledFrom([]string{"", "done", "never"}).Draw(t, "status")
	return outcome
}

// misnamed is the ID, or now and then that of another task, which the token does not fit.
func misnamed(t *rapid.T, id stint.TaskID) stint.TaskID {
	if !one(t, 10, "misnamed") {
		return id
	}
	return rapid.SampledFrom(fewIDs).Draw(t, "id")
}

func (m *machine) returnTask(t *rapid.T) {
	task := m.part(t).tasks[0]
	given := stint.Return{
		ID: misnamed(t, task.ID), Token: task.Token, Status: "fine",
		Code: rapid.SampledFrom([]stint.StatusCode{
			stint.StatusCompleted, stint.StatusAborted, stint.StatusPending,
		}).Draw(t, "code"),
	}
	err := m.queue.ReturnTask(t.Context(), given.ID, given.Token, given.Status, given.Code)
	want := m.model.returnTasks([]stint.Return{given})[0]
	if err == nil && errors.Is(want, stint.ErrAlreadyReturned) && m.isUnsure() {
		return // the client takes it for the answer that was lost
	}
	requireError(t, "ReturnTask", err, want)
}

func (m *machine) returnTasks(t *rapid.T) {
	tasks := m.part(t).tasks
	if rapid.Bool().Draw(t, "two") {
		tasks = slices.Concat(tasks, m.part(t).tasks)
	}
	outcomes := rapid.SliceOfN(rapid.Custom(drawOutcome), 1, 3).Draw(t, "outcomes")
	returns := make([]stint.Return, 0, len(tasks))
	first := map[stint.Token]stint.Return{}
	for i, task := range tasks {
		given, repeated := first[task.Token]
		if repeated && m.model.keep.Completed == stint.KeepNone {
			continue // whether the first one is remembered depends on the number of calls
		}
		if !repeated { // nobody gives two outcomes for one task in one call
			given = outcomes[i%len(outcomes)]
			first[task.Token] = given
		}
		given.ID, given.Token = task.ID, task.Token
		if i < len(fewIDs) {
			given.ID = misnamed(t, task.ID)
		}
		returns = append(returns, given)
	}
	verdicts, err := m.queue.ReturnTasks(t.Context(), returns)
	requireError(t, "ReturnTasks", err, nil)
	for i, want := range m.model.returnTasks(returns) {
		if verdicts[i] == nil && errors.Is(want, stint.ErrAlreadyReturned) && m.isUnsure() {
			continue // the client takes it for the answer that was lost
		}
		requireError(t, fmt.Sprintf("ReturnTasks[%d]", i), verdicts[i], want)
	}
}

func (m *machine) setStatus(t *rapid.T) {
	owned := m.part(t).tasks[0]
	owned.ID = misnamed(t, owned.ID)
	status := rapid.SampledFrom([]string{"", "half", "late"}).Draw(t, "status")
	progress := rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "progress")
	err := m.queue.SetStatus(t.Context(), owned, status, progress)
	requireError(t, "SetStatus", err, m.model.setStatus(owned.ID, owned.Token, status, progress))
}

func (m *machine) abort(t *rapid.T) {
	ids := m.ids(t)
	_, err := m.queue.AbortTasks(t.Context(), ids, "enough")
	requireError(t, "AbortTasks", err, m.model.abort(ids, "enough"))
}

func (m *machine) change(t *rapid.T) {
	ids, to := m.ids(t), drawChanges(t)
	changed, err := m.queue.ChangeTasks(t.Context(), ids, to.dated())
	want, wantErr := m.model.change(ids, to)
	requireError(t, "ChangeTasks", err, m.told(wantErr))
	if !slices.Equal(changed.Tasks, want) && !m.isUnsure() {
		t.Fatalf("ChangeTasks of %q to %+v changed %q, want %q", ids, to, changed.Tasks, want)
	}
}

func (m *machine) delete(t *rapid.T) {
	ids := m.ids(t)
	_, err := m.queue.DeleteTasks(t.Context(), ids)
	requireError(t, "DeleteTasks", err, m.model.delete(ids))
}

func (m *machine) maintain(t *rapid.T) {
	requireError(t, "Maintain", m.store.Maintain(t.Context()), nil)
	m.model.maintain()
	m.requireNone(t, `
		SELECT format('lease %s/%s is empty', claim, part) FROM stint.leases AS lease
		WHERE (deadline <= statement_timestamp() OR deadline = 'infinity')
		  AND NOT EXISTS (SELECT FROM stint.leased
			WHERE leased.claim = lease.claim AND leased.part = lease.part)`)
}

// passTime ages everything in the database, which is the same as time going by.
func (m *machine) passTime(t *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(t, "steps")
	if _, err := m.db.Exec(t.Context(), ageTables, time.Duration(n)*step); err != nil {
		t.Fatal(err)
	}
	m.model.now += n
}

const ageTables = `
WITH tasks AS (UPDATE stint.tasks SET deadline = deadline - $1::interval
               WHERE deadline IS NOT NULL),
     ready AS (UPDATE stint.ready SET deadline = deadline - $1 WHERE deadline IS NOT NULL),
     deadlines AS (UPDATE stint.deadlines SET deadline = deadline - $1),
     scheduled AS (UPDATE stint.scheduled SET not_before = not_before - $1),
     leases AS (UPDATE stint.leases SET deadline = deadline - $1, owned_at = owned_at - $1)
UPDATE stint.finished SET finished_at = finished_at - $1, owned_at = owned_at - $1,
    ready_at = ready_at - $1`
