package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

const (
	operatorConns = 12

	// inserters are those of the operator, and inserting those of all processes that follow a pace.
	inserters = 4
	inserting = inserters + 1

	// backlogMost is how many tasks are ready at most if as many are inserted as are performed.
	backlogMost = 1500
)

// operate inserts tasks, changes them, waits for them, and sets limits and schedules.
func (p *process) operate(ctx context.Context) error {
	store, pool, err := p.open(ctx, operatorConns, stint.Options{})
	if err != nil {
		return err
	}
	o := &operator{process: p, store: store}
	do := []func(context.Context, *rand.Rand){
		o.watch, o.change, o.change, o.limit, o.wait, o.wait, o.answer, o.schedule,
		o.probe, func(ctx context.Context, _ *rand.Rand) { p.follow(ctx, store) },
	}
	for range inserters {
		do = append(do, o.insert)
	}
	o.all(ctx, do)
	return closing(ctx, store, pool)
}

// all does several things at once, until ctx ends.
func (p *process) all(ctx context.Context, do []func(context.Context, *rand.Rand)) {
	var running sync.WaitGroup
	for i, one := range do {
		running.Go(func() { one(ctx, p.random(uint64(i))) }) //nolint:gosec // never negative
	}
	running.Wait()
}

// A store has the verbs of an operator: that of a database, or the client of a service.
type store interface {
	verbs.All
	ReplaceTasks(ctx context.Context, tasks []stint.Task) error
}

// An operator inserts tasks and changes them.
type operator struct {
	*process
	store store
	// full says that there are more tasks than are performed.
	full atomic.Bool

	mutex sync.Mutex
	asked []stint.TaskID // external ones
}

// watch looks how many tasks are ready.
func (o *operator) watch(ctx context.Context, _ *rand.Rand) {
	const every = 200 * time.Millisecond
	for Pause(ctx, every) {
		if o.paces.Load() != 0 {
			continue
		}
		stats, err := o.store.Stats(ctx)
		if err != nil {
			continue
		}
		var ready int64
		for _, a := range stats.Actions {
			ready += a.Ready
		}
		o.full.Store(ready > backlogMost)
	}
}

// due waits until more tasks may be inserted, and reports whether any may.
func (o *operator) due(ctx context.Context, inserted int, since *time.Time) bool {
	switch pace := o.paces.Load(); {
	case pace < 0:
		return false
	case pace == 0:
		return !o.full.Load()
	default:
		each := time.Second * inserting / time.Duration(pace)
		*since = since.Add(each * time.Duration(inserted))
		//nolint:forbidigo // to insert evenly
		now := time.Now()
		if behind := now.Sub(*since); behind > time.Second {
			*since = now // what an outage held up is not made up for
		}
		return Pause(ctx, since.Sub(now))
	}
}

// insert inserts tasks of all shapes.
func (o *operator) insert(ctx context.Context, r *rand.Rand) {
	since, inserted := time.Time{}, 0
	for ctx.Err() == nil {
		if !o.due(ctx, inserted, &since) {
			inserted = 0
			Pause(ctx, 20*time.Millisecond)
			continue
		}
		prefix := fmt.Sprintf("%d/%s.%d/%d", o.Round, o.Name, o.Number, o.ids.Add(1))
		tasks := drawShape(r).tasks(r, prefix)
		inserted = len(tasks)
		o.add(ctx, r, tasks)
	}
}

// add inserts tasks, by one of the verbs that do, and repeats what may have been lost.
func (o *operator) add(ctx context.Context, r *rand.Rand, tasks []stint.Task) {
	verb, do := o.verb(r, tasks)
	const attempts = 3
	for range attempts {
		err := o.call(ctx, verb, insertedItems(tasks), do)
		if outcome, _ := Judge(err); outcome != Unknown {
			break
		}
		if !Pause(ctx, time.Duration(r.IntN(100))*time.Millisecond) {
			return
		}
	}
	o.known.add(tasks)
	if tasks[0].Action == stint.External {
		o.mutex.Lock()
		o.asked = append(o.asked, tasks[0].ID)
		o.mutex.Unlock()
	}
}

// The verbs that insert.
const (
	insertTasks     = "InsertTasks"
	insertTasksFrom = "InsertTasksFrom"
	ensureTasks     = "EnsureTasks"
	replaceTasks    = "ReplaceTasks"
	debounce        = "Debounce"
)

func (o *operator) verb(r *rand.Rand, tasks []stint.Task) (string, func(context.Context) error) {
	const kinds = 20
	switch k := r.IntN(kinds); {
	case k == 0 && tasks[0].Action != stint.External:
		return insertTasksFrom, func(ctx context.Context) error {
			_, err := o.store.InsertTasksFrom(ctx, func(yield func(stint.Task, error) bool) {
				for _, task := range tasks {
					if !yield(task, nil) {
						return
					}
				}
			})
			return err
		}
	case k <= 2:
		return ensureTasks, func(ctx context.Context) error {
			_, err := o.store.EnsureTasks(ctx, tasks)
			return err
		}
	case k <= 4:
		if ids := o.known.pick(r, 1); len(tasks) == 1 && len(ids) == 1 {
			tasks[0].ID = ids[0]
		}
		return replaceTasks, func(ctx context.Context) error {
			return o.store.ReplaceTasks(ctx, tasks)
		}
	case k <= 6 && len(tasks) == 1:
		tasks[0].ID = stint.TaskID(fmt.Sprintf("%d/quiet/%d", o.Round, r.IntN(kinds)))
		return debounce, func(ctx context.Context) error {
			const quiet, atMost = 100 * time.Millisecond, time.Second
			return o.store.Debounce(ctx, tasks[0], quiet, atMost)
		}
	}
	return insertTasks, func(ctx context.Context) error { return o.store.InsertTasks(ctx, tasks) }
}

// Waiting is what is said of a task that was inserted with predecessors.
const Waiting = "waits"

func insertedItems(tasks []stint.Task) []Item {
	items := make([]Item, len(tasks))
	for i, task := range tasks {
		items[i].ID = task.ID
		if len(task.After)+len(task.When)+len(task.WhenAny) > 0 {
			items[i].Said = Waiting
		}
	}
	return items
}

func named(ids []stint.TaskID) []Item {
	items := make([]Item, len(ids))
	for i, id := range ids {
		items[i].ID = id
	}
	return items
}

// change changes tasks of others.
func (o *operator) change(ctx context.Context, r *rand.Rand) {
	const most = 100 * time.Millisecond
	for Pause(ctx, time.Duration(r.Int64N(int64(most)))) {
		ids := o.known.pick(r, 4)
		if len(ids) == 0 || o.paces.Load() < 0 {
			continue
		}
		items := named(ids)
		const kinds = 8
		switch r.IntN(kinds) {
		case 0:
			_ = o.call(ctx, "AbortTasks", items, func(ctx context.Context) error {
				_, err := o.store.AbortTasks(ctx, ids, "by an operator")
				return err
			})
		case 1, 2:
			_ = o.call(ctx, "RetryTasks", items, func(ctx context.Context) error {
				_, err := o.store.RetryTasks(ctx, ids)
				return err
			})
		case 3:
			_ = o.call(ctx, "DeleteTasks", items, func(ctx context.Context) error {
				_, err := o.store.DeleteTasks(ctx, ids)
				return err
			})
		case 4, 5:
			to := changes(r)
			_ = o.call(ctx, "ChangeTasks", items, func(ctx context.Context) error {
				_, err := o.store.ChangeTasks(ctx, ids, to)
				return err
			})
		default:
			o.depend(ctx, r)
		}
	}
}

func changes(r *rand.Rand) (to stint.TaskChanges) {
	switch r.IntN(4) {
	case 0:
		to.StartNow = true
	case 1:
		to.StartAfter = time.Duration(1+r.IntN(500)) * time.Millisecond
	case 2:
		priority := int16(r.IntN(3)) //nolint:gosec // small
		to.Priority = &priority
	default:
		key := fmt.Sprintf("key %d", r.IntN(4))
		to.Key, to.MaxTries = &key, 3
	}
	return to
}

// depend adds edges at run time.
func (o *operator) depend(ctx context.Context, r *rand.Rand) {
	var edges []stint.Dependency
	var items []Item
	for range 1 + r.IntN(3) {
		before, after := o.known.pick(r, 1), o.known.pick(r, 1)
		if before[0] != after[0] {
			edges = append(edges, stint.Dependency{Predecessor: before[0], Dependent: after[0]})
			items = append(items, Item{ID: before[0]}, Item{ID: after[0], Said: Waiting})
		}
	}
	_ = o.call(ctx, "AddDependencies", items, func(ctx context.Context) error {
		return o.store.AddDependencies(ctx, edges)
	})
}

// limit sets limits, and changes them.
func (o *operator) limit(ctx context.Context, r *rand.Rand) {
	set := func(action string, limits stint.Limits) {
		for ctx.Err() == nil {
			err := o.call(ctx, "SetLimits", nil, func(ctx context.Context) error {
				return o.store.SetLimits(ctx, action, limits)
			})
			if outcome, _ := Judge(err); outcome != Unknown {
				return
			}
			Pause(ctx, 100*time.Millisecond)
		}
	}
	set(limitedAction, stint.Limits{Concurrency: 8})
	set(keyedAction, stint.Limits{ConcurrencyPerKey: 2})
	set(orderedAction, stint.Limits{Ordered: true, ConcurrencyPerKey: 1})
	set(fairAction, stint.Limits{Fair: true, FairGroup: "fair"})
	set(fairerAction, stint.Limits{Fair: true, FairGroup: "fair"})
	set(ratedAction, stint.Limits{Rate: stint.Rate{Tasks: 200, Per: time.Second}})
	set(budgetAction, stint.Limits{
		Rate:       stint.Rate{Tasks: 2000, Per: time.Second},
		RatePerKey: stint.Rate{Tasks: 400, Per: time.Second}, ByCost: true,
	})
	for Pause(ctx, time.Duration(500+r.IntN(1500))*time.Millisecond) {
		switch r.IntN(3) {
		case 0:
			set(limitedAction, stint.Limits{Concurrency: 4 + r.IntN(16)})
		case 1:
			o.pauseFor(ctx, r)
		default:
			_ = o.call(ctx, "SetWeights", nil, func(ctx context.Context) error {
				return o.store.SetWeights(ctx, fairAction, map[string]int{"key 1": 1 + r.IntN(5)})
			})
		}
	}
}

// pauseFor pauses an action or a key for a while.
func (o *operator) pauseFor(ctx context.Context, r *rand.Rand) {
	key := r.IntN(2) == 0
	_ = o.call(ctx, "Pause", nil, func(ctx context.Context) error {
		if key {
			return o.store.PauseKeys(ctx, keyedAction, "key 1", "key 2")
		}
		return o.store.Pause(ctx, slowAction)
	})
	Pause(ctx, time.Duration(r.IntN(500))*time.Millisecond)
	const attempts = 100
	for range attempts { // else the action stays paused
		err := o.call(context.WithoutCancel(ctx), "Resume", nil, func(ctx context.Context) error {
			return errors.Join(o.store.ResumeKeys(ctx, keyedAction, "key 1", "key 2"),
				o.store.Resume(ctx, slowAction))
		})
		if err == nil || !Pause(ctx, 100*time.Millisecond) {
			return
		}
	}
}

// wait inserts tasks and waits for them.
func (o *operator) wait(ctx context.Context, r *rand.Rand) {
	for Pause(ctx, time.Duration(r.IntN(100))*time.Millisecond) {
		if o.paces.Load() < 0 {
			continue
		}
		prefix := fmt.Sprintf("%d/%s.%d/%d", o.Round, o.Name, o.Number, o.ids.Add(1))
		tasks := chain(r, prefix)
		var ids []stint.TaskID
		for i := range tasks {
			tasks[i].PostResult = true
			ids = append(ids, tasks[i].ID)
		}
		o.add(ctx, r, tasks)
		var infos []stint.TaskInfo
		begin := Instant()
		ctx, cancel := context.WithTimeout(ctx, callMax)
		infos, err := o.store.WaitForTasks(ctx, ids)
		cancel()
		call := Call{Verb: "WaitForTasks", Begin: begin, Items: named(ids)}
		call.Outcome, call.Error = Judge(err)
		for i := range infos {
			call.Items[i] = Item{ID: infos[i].ID, Said: string(infos[i].State)}
		}
		o.journal.Write(call)
	}
}

// answer answers external tasks.
func (o *operator) answer(ctx context.Context, r *rand.Rand) {
	codes := []stint.StatusCode{
		stint.StatusCompleted, stint.StatusCompleted, stint.StatusAborted, stint.StatusSkipped,
	}
	for Pause(ctx, time.Duration(r.IntN(100))*time.Millisecond) {
		o.mutex.Lock()
		ids := o.asked
		o.asked = nil
		o.mutex.Unlock()
		if len(ids) == 0 {
			continue
		}
		var answers []stint.Answer
		for _, id := range ids {
			answers = append(answers, stint.Answer{ID: id, Code: codes[r.IntN(len(codes))]})
		}
		begin := Instant()
		ctx, cancel := context.WithTimeout(ctx, callMax)
		verdicts, err := o.store.AnswerTasks(ctx, "operator", answers)
		cancel()
		call := Call{Verb: "AnswerTasks", Begin: begin, Items: named(ids)}
		call.Outcome, call.Error = Judge(err)
		for i := range verdicts {
			call.Items[i].Outcome, call.Items[i].Error = Judge(verdicts[i])
			call.Items[i].Said = string(answers[i].Code)
		}
		o.journal.Write(call)
		if call.Outcome == Unknown {
			o.mutex.Lock()
			o.asked = append(o.asked, ids...)
			o.mutex.Unlock()
		}
	}
}

// schedule keeps schedules that insert tasks.
func (o *operator) schedule(ctx context.Context, r *rand.Rand) {
	const schedules = 3
	for Pause(ctx, time.Duration(200+r.IntN(800))*time.Millisecond) {
		if o.paces.Load() < 0 {
			continue
		}
		name := fmt.Sprintf("%d/schedule %d", o.Round, r.IntN(schedules))
		_ = o.call(ctx, "PutSchedules", nil, func(ctx context.Context) error {
			return o.store.PutSchedules(ctx, []stint.Schedule{{
				Name: name, Spec: "every 1s", Tasks: []stint.Task{{Action: plainAction}},
				Overlap: stint.Overlap(r.IntN(4)), //nolint:gosec // few
			}})
		})
		if r.IntN(3) == 0 {
			_ = o.call(ctx, "TriggerSchedule", nil, func(ctx context.Context) error {
				_, err := o.store.TriggerSchedule(ctx, name)
				return err
			})
		}
	}
}

// probe says how long it takes from the insertion of a task until a waiter knows that it has ended.
func (o *operator) probe(ctx context.Context, _ *rand.Rand) {
	const every = 100 * time.Millisecond
	for Pause(ctx, every) {
		if o.paces.Load() < 0 {
			continue
		}
		id := fmt.Sprintf("%d/%s.%d/probe %d", o.Round, o.Name, o.Number, o.ids.Add(1))
		task := stint.Task{ID: stint.TaskID(id), Action: plainAction, PostResult: true}
		begin := Instant()
		err := o.call(ctx, insertTasks, []Item{{ID: task.ID}}, func(ctx context.Context) error {
			return o.store.InsertTasks(ctx, []stint.Task{task})
		})
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, callMax)
		_, err = o.store.WaitForTask(ctx, task.ID)
		cancel()
		if err == nil {
			took := time.Duration(Instant() - begin)
			fmt.Fprintf(os.Stdout, "took %g\n", float64(took)/float64(time.Millisecond))
		}
	}
}
