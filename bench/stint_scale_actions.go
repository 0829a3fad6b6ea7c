package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// scaleWorkloads are those of W14: many of one thing at a time.
func scaleWorkloads() []workload {
	return slices.Concat(finishedWorkloads(), verbsWorkloads(), bodiesWorkloads(), []workload{
		{
			id: "W14-actions", title: "drain by action", tasks: 20_000, backlog: 200_000,
			figures: []figure{
				rate,
				{figureInsert, unitSecond},
				{figureOwnOne, unitMilli},
				{figureOwnHundred, unitMilli},
				{figureOwnAll, unitMilli},
				{figureStats, unitMilli},
				{figureList, unitMilli},
			},
		},
		{
			id: "W14-workers", title: "10,000 workers", tasks: 100_000, callers: manyWorkers,
			lasts: idleFor, once: true, figures: []figure{
				rate,
				{figureWait, unitSecond},
				{figureIdle, unitCommits},
				{figureIdleCPU, unitMicro},
				{figureWake, unitMilli},
				{figureOwn, unitMilli},
			},
		},
		{
			id: "W14-presence", title: "a process dies with its actors", tasks: manyWorkers,
			lasts: idleFor, once: true, figures: []figure{
				rate,
				{figureRegister, unitSecond},
				{figureAnother, unitMilli},
				{figureIdle, unitCommits},
				{figureIdleCPU, unitMicro},
				{figureHandOnFirst, unitSecond},
				{figureHandOn, unitSecond},
			},
		},
		{
			id: "W14-edges", title: "10,000 edges of a task", tasks: 10_000, figures: []figure{
				rate,
				{figureFanIn, unitSecond},
				{figureFanOut, unitSecond},
				{figureChain, unitSecond},
				{figureAddIn, unitSecond},
				{figureAddOut, unitSecond},
				{figureDrainIn, unitSecond},
				{figureDrainOut, unitSecond},
			},
		},
	})
}

// scaleEntries are those of W14.
func scaleEntries() []entry {
	entries := slices.Concat(finishedEntries(), verbsEntries(), bodiesEntries())
	for _, variant := range []string{tenActions, manyActions} {
		entries = append(entries, entry{
			workload: "W14-actions", variant: variant, fill: fillActions, measure: drainActions,
		})
	}
	for _, variant := range []string{oneActor, someActors, someActions} {
		entries = append(entries, entry{
			workload: "W14-workers", variant: variant, measure: performByMany,
		})
	}
	for _, variant := range []string{oneActor, manyActors} {
		entries = append(entries, entry{
			workload: "W14-presence", variant: variant, measure: loseProcess,
		})
	}
	return append(entries, entry{workload: "W14-edges", measure: timeManyEdges})
}

// Variants of W14.
const (
	tenActions  = "10 actions"
	manyActions = "10,000 actions"
	oneActor    = "1 actor"
	manyActors  = "10,000 actors"
	someActions = "1,000 workers, an action each"
	someActors  = "1,000 workers, an actor each"

	manyWorkers = 10_000
	someWorkers = 1_000
	idleFor     = 5 * time.Second
)

// Figures of W14-actions.
const (
	figureOwnOne     = "own 1 of 1 action p50"
	figureOwnHundred = "own 100 of 100 actions p50"
	figureOwnAll     = "own 100 of all actions p50"
)

// actionsOf are the actions of the variant, no more than there are tasks.
func (r *run) actionsOf() []string {
	n := 1
	switch r.Variant {
	case tenActions:
		n = 10
	case manyActions:
		n = manyWorkers
	case someActions:
		n = someWorkers
	}
	actions := make([]string, min(n, r.Backlog))
	for i := range actions {
		actions[i] = actionName(i)
	}
	return actions
}

// insertActions inserts the tasks from from to to, each with the next action.
func (r *run) insertActions(ctx context.Context, store *stint.Store, from, to int) error {
	actions := r.actionsOf()
	return insertStintRange(ctx, r, store, from, to, func(task *stint.Task, n int) {
		task.Action = actions[n%len(actions)]
	})
}

func fillActions(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, inserters)
	if err != nil {
		return err
	}
	begun := now()
	err = r.insertActions(ctx, store, 0, r.Backlog)
	r.set(figureInsert, time.Since(begun).Seconds())
	return errors.Join(err, store.Close(ctx))
}

// drainActions times single calls, and then drains tasks, 20 of one action at a time.
func drainActions(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, drainers)
	if err != nil {
		return err
	}
	actions := r.actionsOf()
	if err := r.timeActions(ctx, store, actions); err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		const together = 20
		var next, done atomic.Int64
		err := inParallel(ctx, drainers, func(ctx context.Context, goroutine int) error {
			actor := workerName(goroutine)
			for done.Load() < int64(r.Tasks) {
				at := int(next.Add(1)) % len(actions)
				owned, err := store.OwnTasks(ctx, actor, together, actions[at:at+1], time.Minute)
				if err != nil {
					return err
				}
				if err := returnAll(ctx, store, owned); err != nil {
					return err
				}
				done.Add(int64(len(owned)))
			}
			return nil
		})
		return int(done.Load()), err
	})
	return errors.Join(err, checkStint(ctx, r, store), store.Close(ctx))
}

// timeActions times calls that own tasks of one, of a hundred and of all actions, which are undone,
// and looks.
func (r *run) timeActions(ctx context.Context, store *stint.Store, actions []string) error {
	pool, err := r.pool(ctx, 1)
	if err != nil {
		return err
	}
	const hundred, few, many = 100, 10, 100
	own := func(figure string, often, most int, of func(i int) []string) error {
		took := make([]float64, often)
		for i := range took {
			if took[i], err = timeOwn(ctx, pool, store, most, of(i)); err != nil {
				return err
			}
		}
		r.set(figure, percentile(took, 0.50))
		return nil
	}
	return errors.Join(
		own(figureOwnOne, many, 1, func(i int) []string {
			at := i * len(actions) / many
			return actions[at : at+1]
		}),
		own(figureOwnHundred, few, hundred, func(i int) []string {
			at := i * len(actions) / few
			return actions[at:min(len(actions), at+hundred)]
		}),
		own(figureOwnAll, few, hundred, func(int) []string { return actions }),
		r.timeCalls(figureStats, few, func(int) error {
			_, err := store.Stats(ctx)
			return err
		}),
		r.timeCalls(figureList, few, func(int) error {
			_, err := store.ListTasks(ctx, stint.Filter{States: []stint.State{stint.StateReady}})
			return err
		}))
}

// timeOwn tells the milliseconds that a call of OwnTasks takes, and undoes it.
func timeOwn(
	ctx context.Context, pool *pgxpool.Pool, store *stint.Store, most int, actions []string,
) (float64, error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	begun := now()
	_, err = store.WithTx(tx).OwnTasks(ctx, "actor", most, actions, time.Minute)
	took := millis(time.Since(begun))
	return took, errors.Join(err, tx.Rollback(ctx))
}

// Figures of W14-edges.
const (
	figureFanIn    = "insert a fan-in"
	figureFanOut   = "insert a fan-out"
	figureChain    = "insert a chain"
	figureAddIn    = "AddDependencies of a fan-in"
	figureAddOut   = "AddDependencies of a fan-out"
	figureDrainIn  = "complete the fan-ins"
	figureDrainOut = "complete the roots"
)

// timeManyEdges times what a task costs that has very many predecessors or dependents: twice each,
// since the edges may come with the tasks or afterwards. A chain has as many in a row.
func timeManyEdges(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, drainers)
	if err != nil {
		return err
	}
	work, bare := r.manyEdges(store)
	if err := store.InsertTasks(ctx, bare); err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		const kinds = 5
		return kinds * r.Tasks, r.timeEach(ctx, work)
	})
	return errors.Join(err, store.Close(ctx))
}

// manyEdges are what timeManyEdges times, and the tasks that must be there before.
func (r *run) manyEdges(store *stint.Store) (work []timed, bare []stint.Task) {
	n := r.Tasks
	named := func(prefix, action string, after func(i int) []stint.TaskID) []stint.Task {
		tasks := stintTasks(0, n, r.BodyBytes)
		for i := range tasks {
			tasks[i].ID, tasks[i].Action, tasks[i].After = manyID(prefix, i), action, after(i)
		}
		return tasks
	}
	nobody := func(int) []stint.TaskID { return nil }
	join := stint.Task{ID: "join", Action: "join"}
	into, from := make([]stint.Dependency, n), make([]stint.Dependency, n)
	for i := range n {
		join.After = append(join.After, manyID("in", i))
		into[i] = stint.Dependency{Predecessor: manyID("late-in", i), Dependent: "late-join"}
		from[i] = stint.Dependency{Predecessor: "late-root", Dependent: manyID("late-out", i)}
	}
	insert := func(tasks ...stint.Task) func(context.Context) error {
		return func(ctx context.Context) error { return store.InsertTasks(ctx, tasks) }
	}
	add := func(all []stint.Dependency) func(context.Context) error {
		return func(ctx context.Context) error { return store.AddDependencies(ctx, all) }
	}
	complete := func(tasks int, action string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := completeStint(ctx, store, tasks, 1, tasks, []string{action})
			return err
		}
	}
	fanOut := named("out", "out", func(int) []stint.TaskID { return []stint.TaskID{"root"} })
	chain := named("chain", "chain", func(i int) []stint.TaskID {
		if i == 0 {
			return nil
		}
		return []stint.TaskID{manyID("chain", i-1)}
	})
	bare = slices.Concat(named("late-in", "in", nobody), named("late-out", "out", nobody),
		[]stint.Task{{ID: "late-join", Action: "join"}, {ID: "late-root", Action: "root"}})
	return []timed{
		{figureFanIn, insert(append(named("in", "in", nobody), join)...)},
		{figureFanOut, insert(append(fanOut, stint.Task{ID: "root", Action: "root"})...)},
		{figureChain, insert(chain...)},
		{figureAddIn, add(into)},
		{figureAddOut, add(from)},
		{figureDrainIn, complete(2*n, "in")}, //nolint:mnd // two fan-ins, and two roots
		{figureDrainOut, complete(2, "root")},
	}, bare
}

func manyID(prefix string, n int) stint.TaskID {
	return stint.TaskID(fmt.Sprintf("%s-%06d", prefix, n))
}

// A timed is work whose seconds are a figure.
type timed struct {
	figure string
	work   func(ctx context.Context) error
}

func (r *run) timeEach(ctx context.Context, all []timed) error {
	for _, t := range all {
		begun := now()
		if err := t.work(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.figure, err)
		}
		r.set(t.figure, time.Since(begun).Seconds())
	}
	return nil
}
