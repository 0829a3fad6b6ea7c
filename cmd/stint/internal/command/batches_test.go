package command

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/verbs"
)

// What a change by filters does must not depend on how its tasks are cut into batches, even if
// others own tasks between two batches, or the command is interrupted there and repeated.
// Proves G119.
func TestChange_IsOnePlanHoweverItIsCut(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pools := []*pgxpool.Pool{testdb.New(t), testdb.New(t), testdb.New(t)}
	for range testrun.Rounds(100) {
		seed := rand.Uint64()
		verb := bulkVerbs()[seed%uint64(len(bulkVerbs()))]
		t.Logf("seed %d: %s", seed, verb.name)
		var want string
		for i, pool := range pools {
			b := newBulk(t, pool, seed)
			b.play()
			b.batchMax, b.interrupted = batchTasksMax, math.MaxInt
			if i > 0 {
				b.batchMax = 1 + int(seed>>8%7)
			}
			if i > 1 {
				b.interrupted = int(seed >> 16 % 5)
			}
			got := b.change(verb)
			switch {
			case i == 0:
				want = got
			case got != want:
				t.Fatalf("seed %d: %s in one batch:\n%s\nof %d tasks, interrupted after %d:\n%s",
					seed, verb.name, want, b.batchMax, b.interrupted, got)
			}
		}
	}
}

type bulkVerb struct {
	name   string
	states []stint.State
	do     bulk.Change
}

func bulkVerbs() []bulkVerb {
	retry, remove := verbs.Changer.RetryTasks, verbs.Changer.DeleteTasks
	abort := bulk.Aborting("enough")
	pending := []stint.State{stint.StateReady, stint.StateScheduled, stint.StateBlocked}
	final := []stint.State{stint.StateCompleted, stint.StateAborted}
	return []bulkVerb{
		{"retry completed", final[:1], retry},
		{"retry aborted", final[1:], retry},
		{"retry", final, retry},
		{"abort", append(pending, stint.StateInProgress), abort},
		{"delete pending", pending, remove},
		{"delete", append(pending, final...), remove},
	}
}

// A bulkPlay is a random network whose tasks are changed.
type bulkPlay struct {
	*testing.T

	db    *database
	seed  uint64
	draw  *rand.Rand
	tasks []stint.Task

	batchMax    int
	interrupted int // after so many batches
}

func newBulk(t *testing.T, pool *pgxpool.Pool, seed uint64) *bulkPlay {
	t.Helper()
	b := &bulkPlay{
		T: t, db: &database{pool: pool}, seed: seed,
		draw: rand.New(rand.NewPCG(seed, 0)),
	}
	if err := b.db.open(new(program).storeOptions()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.ok(b.db.direct.Close(context.WithoutCancel(b.Context()))) })
	_, err := pool.Exec(b.Context(), `DO $$ DECLARE t text; BEGIN
		FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'stint' AND tablename IN (
			'tasks', 'ready', 'scheduled', 'blocked', 'leased', 'leases', 'finished', 'edges',
			'joined', 'deadlines', 'fail_fast', 'settling')
		LOOP EXECUTE format('DELETE FROM stint.%I', t); END LOOP; END $$`)
	b.ok(err)
	return b
}

func (b *bulkPlay) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// play inserts a network, and performs some of it.
func (b *bulkPlay) play() {
	b.Helper()
	n := 2 + b.draw.IntN(40)
	names := b.draw.Perm(n) // so that the order of IDs says nothing
	for i := range n {
		task := stint.Task{ID: stint.TaskID(fmt.Sprintf("%02d", names[i])), Action: "in"}
		switch b.draw.IntN(8) {
		case 0, 1:
			task.Action = "out"
		case 2:
			task.Action = stint.Spontaneous
		}
		if b.draw.IntN(3) == 0 {
			task.OnAbort = stint.RunAnyway
		}
		task.FailFast = b.draw.IntN(5) == 0
		for range b.draw.IntN(3) {
			if i > 0 {
				task.After = append(task.After, b.tasks[b.draw.IntN(i)].ID)
			}
		}
		b.tasks = append(b.tasks, task)
	}
	b.ok(b.db.direct.InsertTasks(b.Context(), b.tasks))
	for range b.draw.IntN(8) {
		b.perform()
	}
	if len(b.db.ids(b, stint.StateReady)) > 0 && b.seed&1 == 0 {
		aborted := b.tasks[b.draw.IntN(n)].ID
		_, err := b.db.direct.AbortTasks(b.Context(), []stint.TaskID{aborted}, "")
		b.ok(err)
	}
	b.ok(b.db.direct.Maintain(b.Context()))
}

// ids are those of the tasks in a state.
func (db *database) ids(b *bulkPlay, state stint.State) (ids []stint.TaskID) {
	page, err := db.direct.ListTasks(b.Context(), stint.Filter{States: []stint.State{state}})
	b.ok(err)
	for _, task := range page.Tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

// perform owns all that is ready, and ends most of it.
func (b *bulkPlay) perform() {
	b.Helper()
	owned := b.own()
	for _, task := range owned {
		code := stint.StatusCompleted
		switch b.draw.IntN(8) {
		case 0:
			continue
		case 1, 2:
			code = stint.StatusAborted
		}
		b.ok(b.db.direct.ReturnTask(b.Context(), task.ID, task.Token, "", code))
	}
}

func (b *bulkPlay) own() []stint.OwnedTask {
	b.Helper()
	owned, err := b.db.direct.OwnTasks(b.Context(), "actor", 100, []string{"in", "out"}, time.Hour)
	b.ok(err)
	slices.SortFunc(owned, func(a, b stint.OwnedTask) int {
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return owned
}

// change changes the tasks with the action "in" and tells all that has come of it. Between the
// batches others own what is ready, unless the change is one that spares tasks in progress.
func (b *bulkPlay) change(verb bulkVerb) string {
	b.Helper()
	others := func() {
		if !strings.HasPrefix(verb.name, "delete") {
			b.own()
		}
		b.ok(b.db.direct.Maintain(b.Context()))
	}
	others()
	ctx, interrupt := context.WithCancel(b.Context())
	defer interrupt()
	batches := 0
	c := &change{batchMax: b.batchMax, do: func(
		s verbs.Changer, ctx context.Context, ids []stint.TaskID,
	) (stint.Affected, error) {
		others()
		if batches++; batches > b.interrupted {
			interrupt()
		}
		return verb.do(s, ctx, ids)
	}}
	affected, left := b.changeAll(ctx, c, verb.states)
	if ctx.Err() != nil {
		b.interrupted = math.MaxInt
		more, leftAgain := b.changeAll(b.Context(), c, verb.states)
		affected.Tasks = append(affected.Tasks, more.Tasks...)
		affected.Others += more.Others
		affected.InProgress += more.InProgress
		left = leftAgain
	}
	others()
	// A task that is not needed is aborted again, and changed again if the command is repeated.
	slices.Sort(affected.Tasks)
	affected.Tasks = slices.Compact(affected.Tasks)
	affected.InProgress = 0 // depends on who owned tasks between two batches
	found, err := b.db.direct.Check(b.Context())
	b.ok(err)
	return fmt.Sprint(affected, " left: ", left, "\n", found, "\n", b.tables())
}

// changeAll is one run of the command. It says how many tasks it has left out, all of them because
// of a refusal.
func (b *bulkPlay) changeAll(
	ctx context.Context, c *change, states []stint.State,
) (affected stint.Affected, left int) {
	b.Helper()
	filter := stint.Filter{Actions: []string{"in"}, States: states}
	tasks, _, err := c.find(b.Context(), b.db, filter)
	b.ok(err)
	came, err := c.inBatches(ctx, b.db, filter, tasks, func(int) {})
	if ctx.Err() == nil {
		b.ok(err)
	}
	left = came.left(len(tasks))
	if err == nil && came.refusal == nil && left > 0 {
		b.Errorf("seed %d: %d of %d tasks were left out, changed by nobody", b.seed, left,
			len(tasks))
	}
	return came.Affected, left
}

// tables tells the states of all tasks, and the dependencies. Of several aborted tasks that needed
// one, any may be the first to take it along, so the status does not say which it was.
func (b *bulkPlay) tables() string {
	b.Helper()
	rows, err := b.db.pool.Query(b.Context(), `
		SELECT format('%s %s %s %s', id, state, tries,
			regexp_replace(status, '^only .* needed it, which was aborted.*', 'not needed'))
		FROM stint.task_states
		UNION ALL
		SELECT format('%s-%s', after.id, run.id)
		FROM stint.edges
		LEFT JOIN stint.tasks AS after ON after.key = edges.after
		LEFT JOIN stint.tasks AS run ON run.key = edges.run
		ORDER BY 1`)
	b.ok(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	b.ok(err)
	return strings.Join(lines, "\n")
}

// A service is sent the whole plan in one request. One that is too large is refused before anything
// is changed.
// Proves G119.
func TestChange_IsOneRequestToAService(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const bytesMax = 1 << 20
	b := newBulk(t, testdb.New(t), 0)
	limits := service.Limits{RequestBytes: bytesMax}
	at, _ := testservice.Start(t, b.db.pool, b.db.direct, service.Options{Limits: limits})
	b.db.client = testservice.Client(t, at, client.Options{})
	b.db.store = patient{b.db.client}
	verb := bulkVerbs()[3] // abort
	c := &change{verb: verb.name, batchMax: 2, do: verb.do}
	filter := stint.Filter{Actions: []string{"in"}, States: verb.states}
	first := strings.Repeat("a", 400)
	b.ok(b.db.direct.InsertTasks(b.Context(), []stint.Task{
		{ID: stint.TaskID(first), Action: "in"},
		{ID: "b", Action: "in"},
		{ID: "c", Action: "in", After: []stint.TaskID{stint.TaskID(first), "b"}},
	}))
	tasks, _, err := c.find(b.Context(), b.db, filter)
	b.ok(err)
	many := slices.Repeat(tasks[:1], bytesMax/800)
	_, err = c.inBatches(b.Context(), b.db, filter, many, func(int) {})
	if err == nil || !strings.Contains(err.Error(), "narrower filters") {
		t.Errorf("a plan beyond the limit of a request: %v", err)
	}
	affected, err := c.inBatches(b.Context(), b.db, filter, tasks, func(int) {})
	b.ok(err)
	if len(affected.Tasks) != len(tasks) || affected.Others != 0 {
		t.Errorf("a change over a service affected %+v, want all %d", affected, len(tasks))
	}
}

// A task that is so already is told from one that has begun since it was found.
func TestChange_TellsWhatWasSoFromWhatHasBegun(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		b := newBulk(t, testdb.New(t), 0)
		if remote {
			at, _ := testservice.Start(t, b.db.pool, b.db.direct, service.Options{})
			b.db.client = testservice.Client(t, at, client.Options{})
			b.db.store = patient{b.db.client}
		}
		b.ok(b.db.direct.InsertTasks(b.Context(), []stint.Task{
			{ID: "a", Action: "act"},
			{ID: "begun", Action: "in"},
			{ID: "so", Action: "act", Priority: 5},
		}))
		c := &change{separate: true, batchMax: 2, do: bulk.Changing(
			stint.TaskChanges{Priority: new(int16(5))},
		)}
		filter := stint.Filter{States: bulk.Changeable()}
		tasks, _, err := c.find(b.Context(), b.db, filter)
		b.ok(err)
		b.own()
		came, err := c.inBatches(b.Context(), b.db, filter, tasks, func(int) {})
		b.ok(err)
		if !slices.Equal(came.Tasks, []stint.TaskID{"a"}) || came.left(len(tasks)) != 1 ||
			!slices.Equal(came.unchanged, []stint.TaskID{"so"}) {
			t.Errorf("over a service %t: it changed %+v of %d tasks", remote, came, len(tasks))
		}
	}
}

// What is committed while the command is interrupted is reported.
func TestChange_ReportsWhatIsCommittedWhileItIsInterrupted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	proxy := pgcut.New(t, pool)
	b := newBulk(t, proxy.Pool(t, 4), 1)
	b.ok(b.db.direct.InsertTasks(t.Context(), []stint.Task{{ID: "a", Action: "in"}}))
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	proxy.Cut(pgcut.AtRequest, func(r pgcut.Request) bool {
		if pgcut.Commits("withdraw_tasks")(r) {
			interrupt()
			<-time.After(100 * time.Millisecond) // for the driver to notice
		}
		return false
	})
	c := &change{batchMax: 1, do: bulk.Aborting("")}
	affected, left := b.changeAll(ctx, c, []stint.State{stint.StateReady})
	if ctx.Err() == nil || left > 0 {
		t.Errorf("it reports %+v, %d left, want a", affected, left)
	}
}
