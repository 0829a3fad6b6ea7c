package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/worker"
)

// Variants of Stint.
const (
	verbsKept    = "verbs, kept"
	verbsDropped = "verbs, KeepNone"
	loopKept     = "worker, kept"
	loopDropped  = "worker, KeepNone"
)

// Variants of W10: finished tasks stay for as long as they do by default, which is until long after
// the measurement, or are pruned meanwhile.
const (
	retained = "retained"
	pruned   = "pruned"

	// prunedAfter is the age at which the latter are pruned. They are looked for every half minute
	// or so, so the first tasks are gone after prunedSurely.
	prunedAfter  = 5 * time.Second
	prunedSurely = 45 * time.Second
)

// stintContender is this library: its bare verbs, and the loop of package worker.
func stintContender() contender {
	c := contender{
		name:  "stint",
		title: "Stint",
		create: func(ctx context.Context, r *run) error {
			err := migrations.Migrate(ctx, r.observer)
			if r.second != nil {
				err = errors.Join(err, migrations.Migrate(ctx, r.second))
			}
			return err
		},
		entries: []entry{
			{workload: "W1", measure: insertStint},
			{workload: "W2", variant: verbsKept, fill: fillStint, measure: drainStint},
			{workload: "W2", variant: verbsDropped, fill: fillStint, measure: drainStint},
			{workload: "W2", variant: loopKept, fill: fillStint, measure: loopStint},
			{workload: "W2", variant: loopDropped, fill: fillStint, measure: loopStint},
			{workload: "W3-insert", measure: insertStintSingly},
			{workload: "W3-own-16", fill: fillStint, measure: ownStintSingly},
			{workload: "W3-own-200", fill: fillStint, measure: ownStintSingly},
			{
				workload: "W3-own-16", variant: "in two calls", fill: fillStint,
				measure: ownStintInTwoCalls, notQuick: true,
			},
			{
				workload: "W3-own-200", variant: "in two calls", fill: fillStint,
				measure: ownStintInTwoCalls, notQuick: true,
			},
			{workload: "W4", variant: "worker", measure: hearStintWorker},
			{workload: "W4", variant: "WaitToOwnTasks", measure: hearStintAwait, notQuick: true},
			{workload: "W5-100k", fill: fillStint, measure: drainStint},
			{workload: "W5-2M", fill: fillStint, measure: drainStint},
			{workload: "W5-10M", fill: fillStint, measure: drainStint},
			{workload: "W6", measure: streamStintUnderSnapshot},
			{workload: "W7", fill: fillStintFanIn, measure: drainStintFanIn},
			{workload: "W8-insert", measure: insertStint},
			{workload: "W8-drain", fill: fillStint, measure: drainStint},
			{workload: "W9", variant: verbsKept, fill: fillStintMixed, measure: drainStintMixed},
			{workload: "W9", variant: loopKept, fill: fillStintMixed, measure: loopStintMixed},
			{workload: "W10", variant: retained, measure: streamStint},
			{workload: "W10", variant: pruned, measure: streamStint},
		},
	}
	c.entries = append(c.entries, entry{
		workload: stepsWorkload, fill: fillStint, measure: drainStintSteps,
	})
	for _, load := range mixedLoads() {
		c.entries = append(c.entries, entry{
			workload: "W11", variant: load.variant, measure: streamStintMixed,
		})
	}
	c.entries = append(append(c.entries, serviceEntries()...), shardEntries()...)
	c.entries = append(append(c.entries, scaleEntries()...), limitEntries()...)
	c.entries = append(append(c.entries, historyEntries()...), stintSlotEntries()...)
	c.entries = append(c.entries, disturbedEntries("", openStintSlots, "stint.tasks")...)
	c.entries = append(c.entries, pinnedEntries("", openStintSlots)...)
	return c
}

// stintAction is the action of tasks where there is only one.
const stintAction = "bench"

// newStint returns a store with a pool of its own.
func newStint(ctx context.Context, r *run, connections int) (*stint.Store, error) {
	pool, err := r.pool(ctx, connections)
	if err != nil {
		return nil, err
	}
	var options stint.Options
	switch r.Variant {
	case verbsDropped, loopDropped:
		options.Retention.Completed = stint.KeepNone
	case pruned:
		options.Retention.Completed = prunedAfter
	default:
		options.Retention.Completed = mixedLoadOf(r.Variant).retention
	}
	if r.Workload == historyWorkload && historyLoadOf(r.Variant).keeps {
		options.History.Tries = 25
	}
	return stint.New(pool, options)
}

// stintTasks are the tasks with the numbers from from to to.
func stintTasks(from, to, bodyBytes int) []stint.Task {
	text := newBodies(bodyBytes)
	tasks := make([]stint.Task, to-from)
	for i := range tasks {
		tasks[i] = stint.Task{
			ID: stint.TaskID(taskID(from + i)), Action: stintAction, Body: text.of(from + i),
		}
	}
	return tasks
}

// insertStintTasks inserts n tasks as River does, many at a time.
func insertStintTasks(ctx context.Context, r *run, store *stint.Store, n int) error {
	return insertStintRange(ctx, r, store, 0, n, nil)
}

// insertStintRange inserts the tasks with the numbers from from to to, many at a time. Change, if
// not nil, makes something else of the task with a number.
func insertStintRange(
	ctx context.Context, r *run, store *stint.Store, from, to int,
	change func(task *stint.Task, n int),
) error {
	return inBatches(ctx, inserters, to-from, r.insertBatch(),
		func(ctx context.Context, first, last int) error {
			tasks := stintTasks(from+first, from+last, r.BodyBytes)
			for i := range tasks {
				if change != nil {
					change(&tasks[i], from+first+i)
				}
			}
			return store.InsertTasks(ctx, tasks)
		})
}

func fillStint(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, inserters)
	if err != nil {
		return err
	}
	return errors.Join(insertStintTasks(ctx, r, store, r.Backlog), store.Close(ctx))
}

func insertStint(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, inserters)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		return r.Tasks, insertStintTasks(ctx, r, store, r.Tasks)
	})
	return errors.Join(err, store.Close(ctx))
}

// drainStint owns tasks and completes them with the bare verbs, many at a time.
func drainStint(ctx context.Context, r *run) error {
	return drainStintOf(ctx, r, r.Tasks, []string{stintAction})
}

func drainStintOf(ctx context.Context, r *run, tasks int, actions []string) error {
	return drainStintBy(ctx, r, tasks, r.drainBatch(), actions)
}

// drainStintBy drains so many tasks a call.
func drainStintBy(ctx context.Context, r *run, tasks, batch int, actions []string) error {
	store, err := newStint(ctx, r, drainers)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		return completeStint(ctx, store, tasks, drainers, batch, actions)
	})
	return errors.Join(err, checkStint(ctx, r, store), store.Close(ctx))
}

// completeStint owns and completes at least n tasks, and returns how many.
func completeStint(
	ctx context.Context, by owner, n, goroutines, batch int, actions []string,
) (int, error) {
	var taken, done atomic.Int64
	err := inParallel(ctx, goroutines, func(ctx context.Context, goroutine int) error {
		actor := workerName(goroutine)
		for taken.Load() < int64(n) {
			owned, err := by.OwnTasks(ctx, actor, batch, actions, time.Minute)
			if err != nil {
				return err
			}
			taken.Add(int64(len(owned)))
			if err := returnAll(ctx, by, owned); err != nil {
				return err
			}
			done.Add(int64(len(owned)))
		}
		return nil
	})
	return int(done.Load()), err
}

// returnAll completes tasks in one call, each of which must be accepted.
func returnAll(ctx context.Context, by owner, owned []stint.OwnedTask) error {
	return returnAllWith(ctx, by, owned, "", nil)
}

// returnAllWith is returnAll with a status, and a result for the task at each place unless result
// is nil.
func returnAllWith(
	ctx context.Context, by owner, owned []stint.OwnedTask, status string,
	result func(i int) []byte,
) error {
	returns := make([]stint.Return, len(owned))
	for i, task := range owned {
		returns[i] = stint.Return{
			ID: task.ID, Token: task.Token, Status: status, Code: stint.StatusCompleted,
		}
		if result != nil {
			returns[i].Result = result(i)
		}
	}
	verdicts, err := by.ReturnTasks(ctx, returns)
	return errors.Join(append(verdicts, err)...)
}

// A drainer owns and completes up to batch tasks at a time, which it returns with a status.
type drainer struct {
	actor  stint.ActorID
	batch  int
	status string
}

// drainWhile drains until live ends, and calls done with how many tasks each call has completed.
func (d drainer) drainWhile(ctx, live context.Context, by owner, done func(tasks int)) error {
	for {
		owned, err := by.WaitToOwnTasks(
			live, d.actor, d.batch, []string{stintAction}, time.Minute)
		if err != nil {
			return untilEnd(live, err)
		}
		if err := returnAllWith(ctx, by, owned, d.status, nil); err != nil {
			return err
		}
		done(len(owned))
	}
}

// workerName is the actor of a goroutine that drains.
func workerName(goroutine int) stint.ActorID {
	return stint.ActorID(fmt.Sprintf("worker-%d", goroutine))
}

// A lister is a store, or what lists the tasks of one.
type lister interface {
	ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
}

// checkStint makes sure that no task is left, if all were measured. (That those measured have been
// completed, the verdicts on their returns tell.)
func checkStint(ctx context.Context, r *run, store lister) error {
	if r.Backlog > r.report.Tasks {
		return nil
	}
	unfinished := []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateAborted,
	}
	left, err := store.ListTasks(ctx, stint.Filter{States: unfinished})
	tasks := slices.DeleteFunc(left.Tasks, func(task stint.TaskInfo) bool {
		return task.ID == "stint.shard" // the name of a shard, which stays
	})
	if err == nil && len(tasks) > 0 {
		err = fmt.Errorf("task %s is %s", tasks[0].ID, tasks[0].State)
	}
	return err
}

// loopStint drains with a worker as large as River's.
func loopStint(ctx context.Context, r *run) error {
	return loopStintOf(ctx, r, []string{stintAction})
}

func loopStintOf(ctx context.Context, r *run, actions []string) error {
	return loopStintWith(ctx, r, actions, func(context.Context, *worker.Task) error { return nil })
}

// loopStintWith measures until the worker has stopped, since by then it has returned everything. It
// is stopped when perform has returned nil for as many tasks as are measured.
func loopStintWith(
	ctx context.Context, r *run, actions []string,
	perform func(ctx context.Context, task *worker.Task) error,
) error {
	live, stop := context.WithCancel(ctx)
	defer stop()
	var performed atomic.Int64
	counted := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		err := perform(ctx, task)
		if err == nil && performed.Add(1) == int64(r.Tasks) {
			stop()
		}
		return worker.Result{}, err
	}
	handlers := make([]worker.Registration, len(actions))
	for i, action := range actions {
		handlers[i] = worker.Handle(action, counted)
	}
	store, err := newStint(ctx, r, 20)
	if err != nil {
		return err
	}
	w, err := worker.New(store, worker.Options{
		Concurrency: 2000, Logger: slog.New(slog.DiscardHandler),
	}, handlers...)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(context.Context) (int, error) {
		err := w.Run(live)
		return int(performed.Load()), err
	})
	return errors.Join(err, checkStint(ctx, r, store), store.Close(ctx))
}
