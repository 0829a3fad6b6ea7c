package model_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// A far store is one behind a service. Now and then an attempt of a call goes wrong.
type far struct {
	*client.Client

	store  *stint.Store
	faults *testservice.Faults

	mutex  sync.Mutex
	random *rand.Rand
	quiet  bool
	before int // faults that there were before the last verb
}

var _ verbs = (*far)(nil)

// newFar returns a client of a service with the store. One attempt in oneIn goes wrong; 0 is none.
func newFar(t *testing.T, pool *pgxpool.Pool, store *stint.Store, oneIn int) *far {
	t.Helper()
	address, _ := testservice.Start(t, pool, store, service.Options{})
	f := &far{store: store, faults: testservice.NewFaults()}
	if oneIn > 0 {
		seed := rand.Uint64()
		t.Logf("faults from seed %d", seed)
		f.random = rand.New(rand.NewPCG(seed, 0))
		f.faults.Choose(func(string) testservice.Fault { return f.fault(oneIn) })
		t.Cleanup(func() { t.Logf("%d attempts went wrong", f.faults.Made()) })
	}
	f.Client = testservice.Client(t, address, client.Options{
		HTTPClient: &http.Client{Transport: f.faults},
	})
	return f
}

// harsh are the faults that are over when the client tries again.
var harsh = []testservice.Fault{
	testservice.RequestLost, testservice.RequestCut, testservice.AnswerLost,
	testservice.AnswerCut, testservice.EndLost,
}

func (f *far) fault(oneIn int) testservice.Fault {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.quiet || f.random.IntN(oneIn) > 0 {
		return testservice.NoFault
	}
	return harsh[f.random.IntN(len(harsh))]
}

// begin begins a verb, whose attempts do not go wrong if it is to be quiet.
func (f *far) begin(quiet bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.quiet, f.before = quiet, f.faults.Made()
}

// unsure reports whether an attempt of the last verb went wrong.
func (f *far) unsure() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.faults.Made() > f.before
}

// stored counts the tasks that are in the store.
func (f *far) stored(ctx context.Context, ids []stint.TaskID) int {
	_, err := f.store.GetTasks(ctx, ids)
	var missing *stint.TaskError
	errors.As(err, &missing)
	distinct := slices.Compact(slices.Sorted(slices.Values(ids)))
	if missing == nil {
		return len(distinct)
	}
	return len(distinct) - len(missing.IDs)
}

// InsertTasks goes wrong only if some of the tasks are new: a client that gets no answer takes it
// that tasks which are all there are its own.
func (f *far) InsertTasks(ctx context.Context, tasks []stint.Task) error {
	ids := make([]stint.TaskID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	f.begin(f.stored(ctx, ids) == len(tasks))
	return f.Client.InsertTasks(ctx, tasks)
}

func (f *far) EnsureTasks(
	ctx context.Context, tasks []stint.Task,
) (existing []stint.TaskID, err error) {
	f.begin(false)
	return f.Client.EnsureTasks(ctx, tasks)
}

// ReplaceTasks does not go wrong: it is not repeated.
func (f *far) ReplaceTasks(ctx context.Context, tasks []stint.Task) error {
	f.begin(true)
	return f.Client.ReplaceTasks(ctx, tasks)
}

// DeleteTasks goes wrong only if some of the tasks are there, as InsertTasks does.
func (f *far) DeleteTasks(
	ctx context.Context, ids []stint.TaskID,
) (deleted stint.Affected, err error) {
	f.begin(f.stored(ctx, ids) == 0)
	return f.Client.DeleteTasks(ctx, ids)
}

func (f *far) AbortTasks(
	ctx context.Context, ids []stint.TaskID, status string,
) (aborted stint.Affected, err error) {
	f.begin(false)
	return f.Client.AbortTasks(ctx, ids, status)
}

func (f *far) RetryTasks(
	ctx context.Context, ids []stint.TaskID,
) (retried stint.Affected, err error) {
	f.begin(false)
	return f.Client.RetryTasks(ctx, ids)
}

func (f *far) ChangeTasks(
	ctx context.Context, ids []stint.TaskID, to stint.TaskChanges,
) (changed stint.Affected, err error) {
	f.begin(false)
	return f.Client.ChangeTasks(ctx, ids, to)
}

func (f *far) ReturnTask(
	ctx context.Context, id stint.TaskID, token stint.Token, status string,
	code stint.StatusCode,
) error {
	f.begin(false)
	return f.Client.ReturnTask(ctx, id, token, status, code)
}

func (f *far) ReturnTasks(
	ctx context.Context, returns []stint.Return,
) ([]error, error) {
	f.begin(false)
	return f.Client.ReturnTasks(ctx, returns)
}

// errorTasksMax is how many tasks an error names over the network.
const errorTasksMax = 64

// overTheNetwork returns the actions without those that only a store has, and with others.
func overTheNetwork(
	actions, others map[string]func(*rapid.T),
) map[string]func(*rapid.T) {
	for _, name := range []string{"begin", "end", "end 2", "stream"} {
		delete(actions, name)
	}
	for name, action := range others {
		actions[name] = action
	}
	return actions
}

// withAndWithoutFaults runs a test over a network that works, and over one that does not.
func withAndWithoutFaults(t *testing.T, test func(t *testing.T, oneIn int)) {
	t.Helper()
	testrun.Long(t)
	for name, oneIn := range map[string]int{"sound": 0, "faulty": 6} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, oneIn)
		})
	}
}

// What TestStore_BehavesLikeTheModel says of a store is true of a client of a service as well.
func TestClient_BehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	withAndWithoutFaults(t, checkFar)
}

func checkFar(t *testing.T, oneIn int) {
	t.Helper()
	pool := plainPool(t)
	keep := []stint.Retention{
		{Completed: step, Aborted: 3 * step},
		{Completed: stint.KeepNone, Aborted: stint.KeepNone},
	}
	if oneIn > 0 { // a lost return cannot be told from another if nothing is kept
		keep = keep[:1]
	}
	fars := make([]*far, len(keep))
	for i := range keep {
		store, err := stint.New(pool, stint.Options{
			Maintenance: stint.MaintainNever, Retention: keep[i],
		})
		wantErr(t, "New", err, nil)
		fars[i] = newFar(t, pool, store, oneIn)
	}
	checkWithin(t, pool, emptyTables, func(t *rapid.T) {
		i := rapid.IntRange(0, len(fars)-1).Draw(t, "retention")
		m := &machine{
			comparison: compare(pool, fars[i].store, &reference{
				keep: keep[i], tasks: map[stint.TaskID]*referenceTask{},
			}),
			start:   time.Now(),
			crowded: one(t, 3, "crowded"),
			tokens:  map[stint.Token]bool{},
			named:   errorTasksMax,
		}
		m.queue, m.unsure = fars[i], fars[i].unsure
		m.insert(t)
		t.Repeat(overTheNetwork(m.actions(), nil))
	})
}

// What TestStore_BehavesLikeTheModelOfNetworks says of a store is true of a client of a service as
// well, which besides tells what the store tells, and does several verbs in one commit.
func TestClient_BehavesLikeTheModelOfNetworks(t *testing.T) {
	t.Parallel()
	withAndWithoutFaults(t, checkFarNetworks)
}

func checkFarNetworks(t *testing.T, oneIn int) {
	t.Helper()
	pool := plainPool(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "New", err, nil)
	f := newFar(t, pool, store, oneIn)
	checkWithin(t, pool, emptyNetworks, func(t *rapid.T) {
		m := &farMachine{far: f, netMachine: netMachine{
			comparison: compare(pool, store, &netReference{
				tasks: map[stint.TaskID]*netTask{},
			}),
		}}
		m.queue, m.unsure = f, f.unsure
		m.insert(t)
		t.Repeat(overTheNetwork(m.actions(), map[string]func(*rapid.T){
			"look": m.look, "wait": m.wait, "transact": m.transact, "transact 2": m.transact,
		}))
	})
}
