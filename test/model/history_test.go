package model_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Workers own, extend and return tasks at random while leases expire under them, and write down
// what they were told. Whether that was right is judged from what they wrote alone: by then the
// state of the store shows no trace of a task that two owned at a time.
// Proves G46, R7.
func TestStore_HandsEachTaskToOneOwnerAtATime(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const workers = 16
	tasks := testrun.Rounds(50_000)
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{
		Maintenance: stint.MaintainNever,
		MaxLosses:   stint.UnlimitedLosses, // leases expire all the time
	})
	if err != nil {
		t.Fatal(err)
	}
	batch := make([]stint.Task, tasks)
	ids := make([]stint.TaskID, tasks)
	for i := range batch {
		ids[i] = stint.TaskID(fmt.Sprintf("task-%05d", i))
		// Leases expire so often that some tasks have more than the 25 tries of the default.
		batch[i] = stint.Task{
			ID: ids[i], Action: "work", Headers: headersOf(ids[i]), MaxTries: stint.UnlimitedTries,
		}
	}
	if err := store.InsertTasks(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d (what the workers choose; not how they interleave)", seed)
	p := &playground{store: store, pool: pool}
	p.left.Store(int64(tasks))
	p.play(t, workers, seed)
	if t.Failed() {
		return
	}
	h := p.events
	requireEventful(t, h)
	found := faults(ids, h)
	const shown = 20
	for _, fault := range found[:min(len(found), shown)] {
		t.Error(fault)
	}
	requireRecorded(t, pool, h)
}

// requireEventful checks that there was something to go wrong.
func requireEventful(t *testing.T, h []event) {
	t.Helper()
	counts := map[string]int{}
	for _, e := range h {
		switch {
		case e.kind == wasOwned && e.try > 1:
			counts["owned again"]++
		case e.kind == wasReturned && e.accepted && e.released:
			counts["released"]++
		case !e.accepted:
			counts[string(e.kind)+" refused"]++
		default:
			counts[string(e.kind)]++
		}
	}
	t.Logf("%d events: %v", len(h), counts)
	for _, kind := range []string{
		"owned again", "released", "return refused", "extend", "extend refused", "age",
	} {
		if counts[kind] == 0 {
			t.Errorf("nothing was %s", kind)
		}
	}
}

// requireRecorded checks that what the workers were told is what the database holds.
func requireRecorded(t *testing.T, pool *pgxpool.Pool, h []event) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT tasks.id, finished.claim FROM stint.tasks
		JOIN stint.finished ON tasks.key BETWEEN lo AND hi WHERE finished.cause = 0`)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[stint.TaskID]int64{}
	var id stint.TaskID
	var claim int64
	_, err = pgx.ForEachRow(rows, []any{&id, &claim}, func() error {
		recorded[id] = claim
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range h {
		if e.completes() && recorded[e.task] != e.claim() {
			t.Errorf("task %s was completed by another fetch than it says", e.task)
		}
	}
}

// An event is what a call did to one task, or to all tasks of a claim.
type event struct {
	kind     eventKind
	task     stint.TaskID
	token    stint.Token
	try      int              // of an own
	code     stint.StatusCode // of a return
	released bool             // of a return
	aged     int64            // the claim whose lease expired
	// accepted says that the store agreed.
	accepted bool
	// began and ended are when the call did, by a clock that all workers share: if one call ended
	// before another one began, then its ended is less than the other's began.
	began, ended int64
}

type eventKind string

const (
	wasOwned    eventKind = "own"
	wasExtended eventKind = "extend"
	wasReturned eventKind = "return"
	// wasAged is an expiry of the lease with a claim.
	wasAged eventKind = "age"
)

func (e event) completes() bool {
	return e.kind == wasReturned && e.accepted && e.code == stint.StatusCompleted
}

// claim is what all tasks of a fetch share.
func (e event) claim() int64 {
	if e.kind == wasAged {
		return e.aged
	}
	return claimOf(e.task, e.token)
}

// A playground is where workers meet. The tasks they own lie on a shelf, where any of them may take
// them up, so that verbs on one fetch meet. Copies lie there as well, which are stale by the
// time that somebody finds them.
type playground struct {
	store *stint.Store
	pool  *pgxpool.Pool
	clock atomic.Int64
	left  atomic.Int64
	stop  context.CancelFunc

	mutex  sync.Mutex
	shelf  []portion
	events []event
}

// A portion is a part of a fetch.
type portion struct {
	actor  stint.ActorID
	copied bool
	tasks  []stint.OwnedTask
}

// actsMax is many times what a worker needs to do; if tasks are left then, they are lost.
const actsMax = 5000

// play lets workers work until all tasks are completed, or something goes wrong.
func (p *playground) play(t *testing.T, workers int, seed uint64) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p.stop = stop
	var group, background sync.WaitGroup
	expiries, upkeep := make(chan struct{}), make(chan struct{}, 1)
	background.Go(func() { p.expire(t, expiries, upkeep, seed) })
	background.Go(func() { p.maintain(t, upkeep) })
	for i := range workers {
		group.Go(func() {
			w := &worker{
				playground: p, t: t, actor: stint.ActorID(fmt.Sprintf("worker-%d", i)),
				random: rand.New(rand.NewPCG(seed, uint64(i))), expiries: expiries,
			}
			for range actsMax {
				if p.left.Load() <= 0 || ctx.Err() != nil {
					break
				}
				w.act(t.Context())
			}
			p.write(w.events)
		})
	}
	group.Wait()
	close(expiries)
	background.Wait()
}

// fail ends the test and everybody's work.
func (p *playground) fail(t *testing.T, verb string, err error) {
	t.Helper()
	t.Errorf("%s = %v", verb, err)
	p.stop()
}

func (p *playground) write(events []event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.events = append(p.events, events...)
}

// expire ages some leases at each request, and asks for maintenance.
func (p *playground) expire(
	t *testing.T, requests <-chan struct{}, upkeep chan<- struct{}, seed uint64,
) {
	t.Helper()
	defer close(upkeep)
	random := rand.New(rand.NewPCG(seed, seed))
	for range requests {
		e := event{kind: wasAged, accepted: true, began: p.clock.Add(1)}
		rows, err := p.pool.Query(t.Context(), `
			WITH chosen AS MATERIALIZED (
				SELECT claim, part FROM stint.leases ORDER BY random() LIMIT $1
				FOR UPDATE SKIP LOCKED
			)
			UPDATE stint.leases SET deadline = statement_timestamp() - interval '1 s' FROM chosen
			WHERE leases.claim = chosen.claim AND leases.part = chosen.part
			RETURNING leases.claim`, 1+random.IntN(4))
		claims, collectErr := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err = errors.Join(err, collectErr); err != nil {
			p.fail(t, "age leases", err)
			continue
		}
		e.ended = p.clock.Add(1)
		aged := make([]event, len(claims))
		for i, claim := range claims {
			aged[i] = e
			aged[i].aged = claim
		}
		p.write(aged)
		select {
		case upkeep <- struct{}{}:
		default: // under way already
		}
	}
}

func (p *playground) maintain(t *testing.T, requests <-chan struct{}) {
	t.Helper()
	for range requests {
		if err := p.store.Maintain(t.Context()); err != nil {
			p.fail(t, "Maintain", err)
		}
	}
}

// take removes a portion from the shelf.
func (p *playground) take(random *rand.Rand) (portion, bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.shelf) == 0 {
		return portion{}, false
	}
	i, last := random.IntN(len(p.shelf)), len(p.shelf)-1
	taken := p.shelf[i]
	p.shelf[i] = p.shelf[last]
	p.shelf = p.shelf[:last]
	return taken, true
}

// copiesMax bounds the shelf, on which stale tokens would else outnumber the good ones.
const copiesMax = 100

func (p *playground) put(portions ...portion) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, portion := range portions {
		if len(portion.tasks) > 0 && (!portion.copied || len(p.shelf) < copiesMax) {
			p.shelf = append(p.shelf, portion)
		}
	}
}

// A worker does one thing after another at random.
type worker struct {
	*playground
	t        *testing.T
	actor    stint.ActorID
	random   *rand.Rand
	expiries chan<- struct{}
	events   []event
}

func (w *worker) act(ctx context.Context) {
	switch n := w.random.IntN(100); {
	case n < 30:
		w.own(ctx)
	case n < 75:
		w.settle(ctx)
	case n < 95:
		w.extend(ctx)
	default:
		select {
		case w.expiries <- struct{}{}:
		default: // under way already
		}
	}
}

// headersOf are the headers of a task, by its ID; one in eight has none.
func headersOf(id stint.TaskID) map[string]string {
	if id[len(id)-1]%8 == 0 {
		return nil
	}
	return map[string]string{"of": string(id)}
}

func (w *worker) own(ctx context.Context) {
	const ownedMax = 300
	began := w.clock.Add(1)
	wanted := 1 + w.random.IntN(ownedMax)
	owned, err := w.store.OwnTasks(ctx, w.actor, wanted, []string{"work"}, time.Hour)
	ended := w.clock.Add(1)
	if err == nil && len(owned) > wanted {
		err = fmt.Errorf("%d tasks, want %d at most", len(owned), wanted)
	}
	if err != nil {
		w.fail(w.t, "OwnTasks", err)
		return
	}
	for _, task := range owned {
		if !maps.Equal(task.Headers, headersOf(task.ID)) {
			w.fail(w.t, "OwnTasks", fmt.Errorf("%q has the headers %q", task.ID, task.Headers))
		}
		w.events = append(w.events, event{
			kind: wasOwned, task: task.ID, token: task.Token, try: task.Try, accepted: true,
			began: began, ended: ended,
		})
	}
	cut := w.random.IntN(len(owned) + 1)
	w.put(portion{actor: w.actor, tasks: owned[:cut]}, portion{actor: w.actor, tasks: owned[cut:]})
}

// settle returns some tasks of a portion and lays the others back.
func (w *worker) settle(ctx context.Context) {
	taken, ok := w.take(w.random)
	if !ok {
		return
	}
	cut := w.random.IntN(len(taken.tasks) + 1)
	if w.random.IntN(2) == 0 {
		cut = len(taken.tasks)
	}
	returns := make([]stint.Return, cut)
	for i, task := range taken.tasks[:cut] {
		returns[i] = stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
		switch w.random.IntN(10) {
		case 0:
			returns[i].Code = stint.StatusPending
		case 1:
			returns[i].Code, returns[i].Release = stint.StatusPending, true
		}
	}
	left := taken
	left.tasks = taken.tasks[cut:]
	if w.random.IntN(4) == 0 {
		taken.copied = true
		w.put(taken)
	}
	began := w.clock.Add(1)
	verdicts, err := w.store.ReturnTasks(ctx, returns)
	ended := w.clock.Add(1)
	if err != nil {
		w.fail(w.t, "ReturnTasks", err)
		return
	}
	for i, verdict := range verdicts {
		if verdict != nil && !errors.Is(verdict, stint.ErrInvalidToken) {
			w.fail(w.t, "ReturnTasks", verdict)
		}
		e := event{
			kind: wasReturned, task: returns[i].ID, token: returns[i].Token, code: returns[i].Code,
			released: returns[i].Release, accepted: verdict == nil, began: began, ended: ended,
		}
		w.events = append(w.events, e)
		if e.completes() {
			w.left.Add(-1)
		}
	}
	w.put(left)
}

// extend extends some tasks of a portion, which it leaves to others meanwhile.
func (w *worker) extend(ctx context.Context) {
	taken, ok := w.take(w.random)
	if !ok {
		return
	}
	w.put(taken)
	chosen := taken.tasks
	if w.random.IntN(2) == 0 {
		chosen = chosen[:1+w.random.IntN(len(chosen))]
	}
	began := w.clock.Add(1)
	kept, err := w.store.ExtendTasksOwnership(ctx, taken.actor, chosen, time.Hour)
	ended := w.clock.Add(1)
	if err != nil {
		w.fail(w.t, "ExtendTasksOwnership", err)
		return
	}
	for i, task := range chosen {
		w.events = append(w.events, event{
			kind: wasExtended, task: task.ID, token: task.Token, accepted: kept[i],
			began: began, ended: ended,
		})
	}
}
