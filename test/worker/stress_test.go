package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// A script says how the tries of a task end, one after the other. The last letter is its end.
type script string

const (
	fails      = 'f'
	panics     = 'p'
	waitsABit  = 'w' // returns RetryAfter
	rollsBack  = 'r' // after ReturnIn
	timesOut   = 't'
	completes  = 'C'
	inTx       = 'T' // completes with ReturnIn
	unheard    = 'U' // completes with ReturnIn and returns an error
	abortsTask = 'A'
)

func randomScript(random *rand.Rand) script {
	var s strings.Builder
	for range random.IntN(4) {
		s.WriteByte("fpwrt"[random.IntN(5)])
	}
	ends := "CTUA"
	if isRemote() {
		ends = "CCCA" // it has no transactions, so ReturnIn fails, which f does as well as r
	}
	s.WriteByte(ends[random.IntN(len(ends))])
	return script(s.String())
}

// cue is the letter for a try. Those that a stop interrupted do not count.
func (s script) cue(try int) byte { return s[min(try, len(s))-1] }

// A play performs scripts, and notes how often the handler was called for each task.
type play struct {
	pool    *pgxpool.Pool
	scripts map[stint.TaskID]script

	mutex sync.Mutex
	calls map[stint.TaskID]int
	// interrupted counts the calls that a stop ended, by task.
	interrupted map[stint.TaskID]int
	running     map[stint.TaskID]bool
	twice       []stint.TaskID
}

func (p *play) enter(id stint.TaskID, interrupt bool) (try int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.running[id] {
		p.twice = append(p.twice, id)
	}
	p.running[id] = true
	p.calls[id]++
	if interrupt {
		p.interrupted[id]++
	}
	return p.calls[id] - p.interrupted[id]
}

func (p *play) leave(id stint.TaskID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.running[id] = false
}

func (p *play) perform(ctx context.Context, task *worker.Task) (worker.Result, error) {
	try := p.enter(task.ID, false)
	defer p.leave(task.ID)
	errScript := errors.New("as the script says")
	inTime := context.WithoutCancel(ctx) // the script alone says what times out
	begin := func(work func(pgx.Tx) error) error { return pgx.BeginFunc(inTime, p.pool, work) }
	switch p.scripts[task.ID].cue(try) {
	case fails:
		return worker.Result{}, errScript
	case panics:
		panic(errScript)
	case waitsABit:
		return worker.Result{}, worker.RetryAfter(time.Millisecond)
	case timesOut:
		<-ctx.Done()
		return worker.Result{}, ctx.Err()
	case rollsBack:
		return worker.Result{}, begin(func(tx pgx.Tx) error {
			return errors.Join(task.ReturnIn(inTime, tx, worker.Result{}), errScript)
		})
	case inTx:
		return worker.Result{}, begin(func(tx pgx.Tx) error {
			return task.ReturnIn(inTime, tx, worker.Result{Bytes: []byte(task.ID)})
		})
	case unheard:
		err := begin(func(tx pgx.Tx) error {
			return task.ReturnIn(inTime, tx, worker.Result{Bytes: []byte(task.ID)})
		})
		return worker.Result{}, errors.Join(err, errScript)
	case abortsTask:
		return worker.Result{}, worker.Abort(errScript)
	}
	return worker.Result{Bytes: []byte(task.ID)}, nil
}

// together performs the tasks of a batch side by side, each as the handler does. It says nothing of
// one that panics, and panics as well.
func together(handler worker.Handler) worker.BatchHandler {
	return func(_ context.Context, tasks []*worker.BatchTask) error {
		var all sync.WaitGroup
		var panicked atomic.Value
		for _, task := range tasks {
			all.Go(func() {
				defer func() {
					if value := recover(); value != nil {
						panicked.Store(value)
					}
				}()
				task.End(handler(task.Context(), task.Task))
			})
		}
		all.Wait()
		if value := panicked.Load(); value != nil {
			panic(value)
		}
		return nil
	}
}

// interrupt is the handler of a worker that will be stopped: it goes on until then.
func (p *play) interrupt(ctx context.Context, task *worker.Task) (worker.Result, error) {
	p.enter(task.ID, true)
	defer p.leave(task.ID)
	<-ctx.Done()
	return worker.Result{}, ctx.Err()
}

// wantAsScripted checks how a task has ended, and after how many tries.
func (p *play) wantAsScripted(t *testing.T, got stint.TaskInfo) {
	t.Helper()
	s := p.scripts[got.ID]
	wantCode, wantResult := stint.StatusCompleted, string(got.ID)
	if s[len(s)-1] == abortsTask {
		wantCode, wantResult = stint.StatusAborted, ""
	}
	wantCalls := len(s) + p.interrupted[got.ID]
	if got.StatusCode != wantCode || string(got.Result) != wantResult ||
		got.Tries != len(s) || p.calls[got.ID] != wantCalls {
		t.Errorf("script %s, %d interruptions, %d calls: got %+v",
			s, p.interrupted[got.ID], p.calls[got.ID], got)
	}
}

// Several workers perform tasks whose handlers end at random, and one of them is stopped in the
// middle. Each task ends as its script says, after as many tries as it has letters, interruptions
// not counted, and is never performed by two at once.
func TestWorkers_PerformEveryTaskAsItsScriptSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := &play{
		pool: pool, scripts: map[stint.TaskID]script{}, calls: map[stint.TaskID]int{},
		interrupted: map[stint.TaskID]int{}, running: map[stint.TaskID]bool{},
	}
	const n = 400
	tasks, ids := make([]stint.Task, n), make([]stint.TaskID, n)
	for i := range tasks {
		ids[i] = stint.TaskID(fmt.Sprintf("%03d", i))
		p.scripts[ids[i]] = randomScript(random)
		tasks[i] = stint.Task{
			ID: ids[i], Action: string("abcd"[random.IntN(4)]), Priority: int16(random.IntN(3)),
			Key: []string{"", "x", "y"}[random.IntN(3)],
		}
		if i > 0 && random.IntN(4) == 0 {
			tasks[i].After = []stint.TaskID{ids[random.IntN(i)]}
			tasks[i].OnAbort = stint.RunAnyway
		}
	}
	newPlayer := func(handler worker.Handler) *worker.Worker {
		var handlers []worker.Registration
		for _, action := range []string{"a", "b", "c", "d"} {
			options := []worker.HandlerOption{worker.WithTimeout(50 * time.Millisecond)}
			if random.IntN(2) == 0 {
				options = append(options, worker.WithConcurrency(1+random.IntN(5)))
			}
			registration := worker.Handle(action, handler, options...)
			if random.IntN(2) == 0 {
				batch := worker.Batch{Wait: 5 * time.Millisecond, ByKey: random.IntN(2) == 0}
				registration = worker.HandleBatch(action, batch, together(handler), options...)
			}
			handlers = append(handlers, registration)
		}
		return newWorker(t, store, worker.Options{Concurrency: 3 + random.IntN(20)}, handlers...)
	}
	entered := make(chan struct{}, n)
	interrupt := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		entered <- struct{}{}
		return p.interrupt(ctx, task)
	}
	interrupter := newWorker(t, store, worker.Options{Actor: "interrupter", Concurrency: 10},
		worker.Handle("a", interrupt))
	insert(t, store, tasks...)
	stop := run(t, interrupter)
	receive(t, "a task to interrupt", entered)
	for range 3 {
		run(t, newPlayer(p.perform))
	}
	if err := stop(); err != nil {
		t.Fatalf("Run = %v", err)
	}
	for _, got := range finished(t, store, ids...) {
		p.wantAsScripted(t, got)
	}
	if len(p.twice) > 0 {
		t.Errorf("performed by two at once: %q", p.twice)
	}
	if len(p.interrupted) == 0 {
		t.Error("nothing was interrupted")
	}
}
