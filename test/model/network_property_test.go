package model_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Everybody works on a network at once: it is inserted piece by piece, tied together further, cut
// and performed, while leases expire. A journal that the database keeps, in the transactions
// themselves, then tells whether each task was fetched, completed or aborted when the rules say,
// and whether its owner was told the truth.
//
// A failure prints the network and the journal of the tasks concerned. How everybody interleaved
// cannot be repeated, so nobody looks for a smaller network. To look further than the default does:
// -rapid.checks 1000, which also lifts the limit on time.
// Proves R7.
func TestStore_KeepsTheOrderOfANetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := plainPool(t)
	store, err := stint.New(pool, stint.Options{
		Maintenance: stint.MaintainNever,
		MaxLosses:   stint.UnlimitedLosses, // leases expire all the time
	})
	wantErr(t, "New", err, nil)
	exec(t, pool, makeJournal)
	spent := newBudget(t)
	var counts testrun.Tally
	rapid.Check(t, func(rt *rapid.T) {
		if spent() || t.Failed() {
			return
		}
		exec(t, pool, emptyJournal)
		p := &play{networkPlan: drawPlan(rt), store: store, pool: pool, counts: &counts}
		p.perform(t.Context())
		faults := append(p.faults, p.review(t.Context())...)
		const shown = 50
		for _, fault := range faults[:min(len(faults), shown)] {
			t.Error(fault)
		}
		if len(faults) > 0 {
			t.Error(p)
			rt.FailNow()
		}
		counts.Add("networks", 1)
	})
	t.Logf("%v; %d deadlocks", &counts, testdb.Deadlocks(t, pool))
}

// A networkPlan is a network, and how it comes into the store. Edges lead from tasks to later ones,
// so there is no cycle.
type networkPlan struct {
	tasks []stint.Task
	// groups are the tasks of each insert, by place, in an order that suits their edges.
	groups [][]int
	edges  []plannedEdge
	// undone are the groups whose insert is rolled back once before.
	undone []bool
	seed   uint64
}

type plannedEdge struct {
	after, run int

	// ends says which task names the edge: 0 run, 1 after, 2 both; with 3 more, it is named twice.
	ends int
}

func (p *networkPlan) String() string {
	text := fmt.Sprintf("seed %d, groups %v, undone %v", p.seed, p.groups, p.undone)
	for _, edge := range p.edges {
		text += fmt.Sprintf(", %d-%d", edge.after, edge.run)
	}
	for i, task := range p.tasks {
		text += fmt.Sprintf("\n%d: %q, OnAbort %d, MaxTries %d, Priority %d", i, task.Action,
			task.OnAbort, task.MaxTries, task.Priority)
	}
	return text
}

func plannedID(i int) stint.TaskID { return stint.TaskID(fmt.Sprintf("t%03d", i)) }

func drawPlan(t *rapid.T) *networkPlan {
	p := &networkPlan{seed: rapid.Uint64().Draw(t, "seed")}
	n := rapid.SampledFrom([]int{5, 20, 60, 100, 200}).Draw(t, "tasks")
	groups := rapid.IntRange(1, 12).Draw(t, "groups")
	p.groups = make([][]int, groups)
	for i := range n {
		group := rapid.IntRange(0, groups-1).Draw(t, "group")
		p.groups[group] = append(p.groups[group], i)
		p.tasks = append(p.tasks, drawPlannedTask(t, plannedID(i)))
	}
	p.undone = rapid.SliceOfN(rapid.Bool(), groups, groups).Draw(t, "undone")
	if n > 1 {
		p.edges = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plannedEdge {
			run := rapid.IntRange(1, n-1).Draw(t, "run")
			after := rapid.IntRange(max(0, run-30), run-1).Draw(t, "after")
			return plannedEdge{after, run, rapid.IntRange(0, 5).Draw(t, "ends")}
		}), 0, 2*n).Draw(t, "edges")
	}
	return p
}

func drawPlannedTask(t *rapid.T, id stint.TaskID) stint.Task {
	task := stint.Task{
		ID:         id,
		Action:     rapid.SampledFrom(actOrJoin).Draw(t, "action"),
		OnAbort:    rapid.SampledFrom([]stint.OnAbort{0, stint.RunAnyway}).Draw(t, "abort"),
		Priority:   rapid.SampledFrom([]int16{0, 0, 1, -1}).Draw(t, "priority"),
		MaxTries:   rapid.SampledFrom([]int{stint.UnlimitedTries, 1, 2, 3}).Draw(t, "tries"),
		PostResult: rapid.Bool().Draw(t, "post"),
	}
	if one(t, 8, "later") && task.Action != stint.Spontaneous {
		task.NotBefore = time.Now().Add(50 * time.Millisecond)
	}
	return task
}

// A play is the performance of a plan by everybody at once, and what they were told.
type play struct {
	*networkPlan
	store  *stint.Store
	pool   *pgxpool.Pool
	counts *testrun.Tally
	// done are closed when a group has been inserted.
	done []chan struct{}
	// over says that only the workers are left.
	over atomic.Bool

	mutex  sync.Mutex
	faults []string
	edges  map[[2]stint.TaskID]bool // accepted
	// deleted are the tasks that were named to DeleteTasks.
	deleted map[stint.TaskID]bool
	owned   map[handedOut]told
	ended   map[handedOut]stint.StatusCode // by returns that were accepted
}

// A handedOut names a fetch of a task.
type handedOut struct {
	id    stint.TaskID
	claim int64
}

// told is what an owner was told of the predecessors of a task.
type told struct {
	completed, aborted int
	// asked says that inputs was asked for.
	asked  bool
	inputs []stint.TaskID
}

func (p *play) fault(format string, args ...any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// record counts what a verb answered, and reports an error that is none of those allowed. In the
// caller's transaction a verb may be the one that gives way in a deadlock.
func (p *play) record(verb string, err error, inTx bool, allowed ...error) {
	what := ""
	refused := slices.IndexFunc(allowed, func(target error) bool { return errors.Is(err, target) })
	switch {
	case err == nil:
	case refused >= 0:
		what = ", " + allowed[refused].Error()
	case inTx && testdb.IsDeadlock(err):
		what = ", deadlock"
	default:
		p.fault("%s = %v", verb, err)
	}
	p.counts.Add(verb+what, 1)
}

const playWorkers = 8

// perform lets everybody play their part, and then finishes what is left.
func (p *play) perform(ctx context.Context) {
	p.edges, p.deleted = map[[2]stint.TaskID]bool{}, map[stint.TaskID]bool{}
	p.owned, p.ended = map[handedOut]told{}, map[handedOut]stint.StatusCode{}
	p.done = make([]chan struct{}, len(p.groups))
	for i := range p.done {
		p.done[i] = make(chan struct{})
	}
	upkeep := make(chan struct{}, 1)
	var builders, workers, background sync.WaitGroup
	role := func(group *sync.WaitGroup, number int, act func(*player, context.Context)) {
		group.Go(func() {
			act(&player{
				play: p, upkeep: upkeep,
				random: rand.New(rand.NewPCG(p.seed, uint64(number))),
			}, ctx)
		})
	}
	const inserters = 3
	for i := range inserters {
		role(&builders, i, func(one *player, ctx context.Context) {
			for group := i; group < len(p.groups); group += inserters {
				one.insertGroup(ctx, group)
			}
		})
	}
	role(&builders, 10, (*player).tie)
	role(&builders, 11, (*player).tie)
	role(&builders, 12, (*player).meddle)
	for i := range playWorkers {
		role(&workers, 20+i, (*player).work)
	}
	role(&background, 30, (*player).maintain)
	builders.Wait()
	p.over.Store(true)
	workers.Wait()
	close(upkeep)
	background.Wait()
	p.finish(ctx)
}

// A player is one of those who act at once.
type player struct {
	*play
	random *rand.Rand
	upkeep chan struct{}
	// kept are tasks that were neither returned nor looked after.
	kept []stint.OwnedTask
	// seen are tasks that had yet to end at a recent look.
	seen []stint.TaskID
}

func (p *player) one(n int) bool { return p.random.IntN(n) == 0 }

// within runs verbs directly, or in a transaction of the caller's that lasts for a moment longer.
// It reports whether what they did counts.
func (p *player) within(
	ctx context.Context, inTx, undone bool, verbs func(*stint.Store) error,
) bool {
	if !inTx {
		return verbs(p.store) == nil
	}
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		p.fault("Begin = %v", err)
		return false
	}
	err = verbs(p.store.WithTx(tx))
	if _, sleepErr := tx.Exec(ctx, "SELECT pg_sleep($1)", p.random.Float64()/200); sleepErr != nil {
		p.fault("the transaction is unfit for use after %v: %v", err, sleepErr)
	}
	if err != nil || undone {
		if undoErr := tx.Rollback(ctx); undoErr != nil {
			p.fault("Rollback = %v", undoErr)
		}
		return false
	}
	if err := tx.Commit(ctx); err != nil {
		p.fault("Commit = %v", err)
		return false
	}
	return true
}

// insertGroup inserts the tasks of a group, without the edges that have become impossible.
func (p *player) insertGroup(ctx context.Context, group int) {
	defer close(p.done[group])
	edges := p.edgesOf(ctx, group)
	inTx, undone, ensures := p.one(3), p.undone[group], p.one(3)
	for range 2 * (len(edges) + 2) {
		var err error
		counts := p.within(ctx, inTx || undone, undone, func(store *stint.Store) error {
			if tasks := p.tasksOf(group, edges); ensures {
				_, err = store.EnsureTasks(ctx, tasks)
			} else {
				err = store.InsertTasks(ctx, tasks)
			}
			return err
		})
		p.record("InsertTasks", err, inTx || undone,
			stint.ErrTaskNotFound, stint.ErrTaskStarted, stint.ErrCycle)
		switch {
		case counts:
			for _, edge := range edges {
				p.accept(plannedID(edge.after), plannedID(edge.run))
			}
			return
		case err == nil, testdb.IsDeadlock(err):
			undone = false
		default:
			edges = without(edges, err)
		}
	}
	p.fault("the tasks of group %d cannot be inserted", group)
}

// edgesOf are those that the insert of a group has to name. It waits for the groups at their other
// ends.
func (p *player) edgesOf(ctx context.Context, group int) []plannedEdge {
	var edges []plannedEdge
	for _, edge := range p.networkPlan.edges {
		in := slices.Contains(p.groups[group], edge.after)
		if in == slices.Contains(p.groups[group], edge.run) {
			if in {
				edges = append(edges, edge)
			}
			continue
		}
		far, ends := edge.after, 0
		if in {
			far, ends = edge.run, 1
		}
		before := p.groupOf(far)
		if before > group {
			continue // it is named by that group
		}
		select {
		case <-p.done[before]:
		case <-ctx.Done():
		}
		edges = append(edges, plannedEdge{edge.after, edge.run, edge.ends/3*3 + ends})
	}
	return edges
}

func (p *networkPlan) groupOf(task int) int {
	return slices.IndexFunc(p.groups, func(group []int) bool {
		return slices.Contains(group, task)
	})
}

// tasksOf are the tasks of a group, which name edges.
func (p *play) tasksOf(group int, edges []plannedEdge) []stint.Task {
	tasks := make(map[int]*stint.Task, len(p.groups[group]))
	for _, i := range p.groups[group] {
		task := p.tasks[i]
		tasks[i] = &task
	}
	for _, edge := range edges {
		for range 1 + edge.ends/3 {
			if run := tasks[edge.run]; run != nil && edge.ends%3 != 1 {
				run.After = append(run.After, plannedID(edge.after))
			}
			if after := tasks[edge.after]; after != nil && edge.ends%3 != 0 {
				after.ToSignalAfter = append(after.ToSignalAfter, plannedID(edge.run))
			}
		}
	}
	list := make([]stint.Task, 0, len(tasks))
	for _, i := range p.groups[group] {
		list = append(list, *tasks[i])
	}
	return list
}

// without leaves out the edges that an insert was refused for.
func without(edges []plannedEdge, err error) []plannedEdge {
	var about *stint.TaskError
	var cycle *stint.CycleError
	return slices.DeleteFunc(slices.Clone(edges), func(edge plannedEdge) bool {
		after, run := plannedID(edge.after), plannedID(edge.run)
		switch {
		case errors.As(err, &cycle):
			at := slices.Index(cycle.Path, run)
			return at > 0 && cycle.Path[at-1] == after
		case errors.As(err, &about):
			return slices.Contains(about.IDs, run) || slices.Contains(about.IDs, after)
		default:
			return false
		}
	})
}

func (p *play) accept(after, run stint.TaskID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.edges[[2]stint.TaskID{after, run}] = true
}
