package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// A gauge counts who is in, and remembers the most.
type gauge struct {
	mutex    sync.Mutex
	in, most map[string]int
}

func (g *gauge) enter(name string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.in == nil {
		g.in, g.most = map[string]int{}, map[string]int{}
	}
	g.in[name]++
	g.most[name] = max(g.most[name], g.in[name])
}

func (g *gauge) leave(name string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.in[name]--
}

// A stage is a handler whose performances report themselves and wait for their cue.
type stage struct {
	entered chan *worker.Task
	cue     chan struct{}
}

func newStage() stage {
	return stage{entered: make(chan *worker.Task, 1000), cue: make(chan struct{}, 1000)}
}

func (s stage) perform(ctx context.Context, task *worker.Task) (worker.Result, error) {
	s.entered <- task
	select {
	case <-s.cue:
		return worker.Result{}, nil
	case <-ctx.Done():
		return worker.Result{}, ctx.Err()
	}
}

// Tasks that take long are not owned before there is a slot: nor are those of which nobody knows
// yet how long they take.
// Proves G104.
func TestWorker_OwnsNoMoreThanItPerforms(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, several(20, "a")...)
	insert(t, store, several(20, "b")...)
	either := newStage()
	w := newWorker(t, store, worker.Options{Concurrency: 5},
		worker.Handle("a", either.perform, worker.WithConcurrency(2)),
		worker.Handle("b", either.perform))
	run(t, w)
	inProgress := func(action string) int {
		page, err := store.ListTasks(t.Context(), stint.Filter{
			Actions: []string{action}, States: []stint.State{stint.StateInProgress},
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Tasks)
	}
	for range 5 {
		receive(t, "a task in each slot", either.entered)
	}
	if n, m := inProgress("a"), inProgress("b"); n > 2 || n+m != 5 {
		t.Errorf("%d and %d tasks owned, want 2 at most and 5 together", n, m)
	}
	for range 12 { // there are tasks of b left all the while
		either.cue <- struct{}{}
		receive(t, "the next task", either.entered)
	}
}

func TestWorker_KeepsToItsConcurrencies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	limits := map[string]int{"one": 1, "two": 2, "many": 4, "all": 6}
	var ids []stint.TaskID
	for action := range limits {
		tasks := several(60, action)
		insert(t, store, tasks...)
		for _, task := range tasks {
			ids = append(ids, task.ID)
		}
	}
	var g gauge
	var handlers []worker.Registration
	for action, limit := range limits {
		var options []worker.HandlerOption
		if limit < 6 {
			options = append(options, worker.WithConcurrency(limit))
		}
		handlers = append(handlers, worker.Handle(action,
			func(_ context.Context, task *worker.Task) (worker.Result, error) {
				g.enter(task.Action)
				g.enter("total")
				g.leave("total")
				g.leave(task.Action)
				return worker.Result{}, nil
			}, options...))
	}
	run(t, newWorker(t, store, worker.Options{Concurrency: 6}, handlers...))
	finished(t, store, ids...)
	limits["total"] = 6
	for action, limit := range limits {
		if g.most[action] > limit {
			t.Errorf("%d of %s at once, want %d at most", g.most[action], action, limit)
		}
	}
}

// What waits for a quiet action must not keep a slot from a busy one.
func TestWorker_UsesEverySlotForABusyAction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	quiet, busy := newStage(), newStage()
	w := newWorker(t, store, worker.Options{Concurrency: 3},
		worker.Handle("quiet", quiet.perform, worker.WithConcurrency(1)),
		worker.Handle("silent", quiet.perform, worker.WithConcurrency(2)),
		worker.Handle("busy", busy.perform))
	run(t, w)
	// Questions about each group of its own come about: that about the first one is open when the
	// slot of the second comes free.
	for i := range 5 {
		for _, action := range []string{"quiet", "silent"} {
			insert(t, store, stint.Task{ID: stint.TaskID(fmt.Sprint(action, i)), Action: action})
			receive(t, "a task of "+action, quiet.entered)
		}
		quiet.cue <- struct{}{}
		quiet.cue <- struct{}{}
	}
	insert(t, store, several(10, "busy")...)
	for range 3 {
		receive(t, "a task in each slot", busy.entered)
	}
	for range 10 {
		busy.cue <- struct{}{}
	}
	for range 7 {
		receive(t, "the other tasks", busy.entered)
	}
}

func TestWorker_PerformsAQuietActionWhileAnotherIsBusy(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	rare := newStage()
	// Each task has a successor, so that there always is one.
	w := newWorker(t, store, worker.Options{Concurrency: 2},
		worker.Handle("rare", rare.perform, worker.WithConcurrency(1)),
		worker.Handle("busy", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			return worker.Result{}, store.InsertTasks(ctx, []stint.Task{{
				ID: task.ID + "'", Action: "busy", Priority: 1,
			}})
		}))
	run(t, w)
	insert(t, store, several(4, "busy")...)
	for i := range 3 {
		insert(t, store, stint.Task{ID: stint.TaskID(fmt.Sprint(i)), Action: "rare"})
		receive(t, "a rare task", rare.entered)
		rare.cue <- struct{}{}
	}
}

func TestWorker_AsksForManyTasksAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newStoreAndPool(t)
	proxy := pgcut.New(t, pool)
	store := newStore(t, proxy.Pool(t, 20))
	insert(t, store, several(50, "a")...)
	owns := counting(proxy, "own_tasks")
	a := newStage()
	w := newWorker(t, store, worker.Options{Concurrency: 50}, worker.Handle("a", a.perform))
	run(t, w)
	for range 50 {
		receive(t, "a task", a.entered)
	}
	if n := owns(); n > 1 {
		t.Errorf("%d statements to own 50 tasks, want 1", n)
	}
	for range 50 {
		a.cue <- struct{}{}
	}
}

// counting counts the requests that execute a statement.
func counting(proxy *pgcut.Proxy, statement string) (count func() int) {
	var mutex sync.Mutex
	var n int
	executes := pgcut.Executes(statement)
	proxy.Hold(pgcut.AtRequest, func(r pgcut.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if executes(r) {
			n++
		}
		return false
	})
	return func() int {
		mutex.Lock()
		defer mutex.Unlock()
		return n
	}
}
