package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
	"github.com/stint-tasks/stint/worker"
)

// The actors. The first one is a worker in this process, the second one in a process of its own.
const (
	FirstActor  stint.ActorID = "worker-1"
	SecondActor stint.ActorID = "worker-2"
)

// A Config is what a story needs.
type Config struct {
	// Store is a store on an empty schema. It must have a session and maintain the schema, as a
	// store with zero options does.
	Store *stint.Store
	// Second is the command of a process that calls Work for SecondActor, on the same schema.
	Second *exec.Cmd
	// Tell is called with each event, by one goroutine at a time. It should return soon.
	Tell func(Event)
}

// errStuck says that the story has not come to its end in time.
var errStuck = errors.New("the story is stuck")

// Run plays the story, which takes about half a minute, and leaves no process behind. If a task has
// not ended as it should have, the summary says so; that is no error. If ctx ends, so does the
// story.
func Run(ctx context.Context, config Config) (Summary, error) {
	const longest = 3 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, longest, errStuck)
	defer cancel()
	s := &story{Config: config, begun: now(), lost: make(chan error, 1)}
	summary, err := s.run(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errStuck) {
		err = errors.Join(errStuck, err)
	}
	return summary, err
}

type story struct {
	Config
	begun   time.Time
	plan    structures.Plan
	planned map[stint.TaskID]bool

	second *process
	killed time.Time // Zero: not yet.
	// noticed and handedOn are how long after the kill the first task was no longer the second
	// worker's, and the last one had another owner; taken is how many tasks have another owner.
	noticed, handedOn time.Duration
	taken             int
	printed           time.Duration // When all tasks of the yearbook had ended.
	sprinted          Sprint

	lost chan error // The owner of the lost scan says why it gives up.

	mutex     sync.Mutex // Guards what follows: handlers tell too.
	hasFailed bool
}

// run is the story from its beginning to its end.
func (s *story) run(ctx context.Context) (Summary, error) {
	for _, begin := range []func(context.Context) error{s.decide, s.insert} {
		if err := begin(ctx); err != nil {
			return Summary{}, err
		}
	}
	ctx, dismiss, err := s.hire(ctx)
	if err != nil {
		return Summary{}, err
	}
	defer dismiss()
	for _, act := range []func(context.Context) error{s.abort, s.kill, s.finish} {
		if err := act(ctx); err != nil {
			return Summary{}, err
		}
	}
	if s.sprinted, err = sprint(ctx, s.Store); err != nil {
		return Summary{}, err
	}
	s.tell(Event{Kind: KindSprinted, Sprint: &s.sprinted})
	return s.summarise(ctx)
}

// insert inserts the whole network, in one transaction.
func (s *story) insert(ctx context.Context) (err error) {
	if s.plan, err = yearbook(); err != nil {
		return err
	}
	s.planned = map[stint.TaskID]bool{}
	for _, id := range s.plan.IDs() {
		s.planned[id] = true
	}
	if err := s.Store.InsertTasks(ctx, s.plan.Tasks); err != nil {
		return err
	}
	s.tell(Event{Kind: KindInserted, Tasks: len(s.plan.Tasks)})
	return nil
}

// hire starts both workers. The context that it returns also ends if the first worker ends.
func (s *story) hire(ctx context.Context) (_ context.Context, dismiss func(), err error) {
	if s.second, err = startProcess(SecondActor, s.Second); err != nil {
		return nil, nil, err
	}
	if err := s.present(ctx); err != nil {
		s.second.end()
		return nil, nil, err
	}
	first, err := (&agency{failed: s.tellFailed, lost: s.noteLost}).newWorker(
		s.Store, FirstActor, actionOrder, actionScan, actionDevelop, actionPage, actionIndex,
		actionBind, actionPrint, actionShip)
	if err != nil {
		s.second.end()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { cancel(first.Run(ctx)) })
	s.tell(Event{Kind: KindWorking, Actor: SecondActor, Process: s.second.cmd.Process.Pid})
	return ctx, func() {
		cancel(nil)
		running.Wait()
		s.second.end()
	}, nil
}

// present waits until the second worker is there: its actor is registered.
func (s *story) present(ctx context.Context) error {
	return s.repeat(ctx, watchEvery, func() (bool, error) {
		actors, err := s.Store.ListActors(ctx)
		return len(actors) > 0, err
	})
}

// abort aborts the scan of a film that never comes, while its owner waits for it. Everything that
// depends on it is aborted in the same transaction.
func (s *story) abort(ctx context.Context) error {
	const share = 0.2
	err := s.watch(ctx, watchEvery, func(tasks []stint.TaskInfo, now *Picture) bool {
		waiting := false
		for _, task := range tasks {
			waiting = waiting || task.ID == lostScan() && task.State == stint.StateInProgress
		}
		return waiting && s.isThrough(now, share)
	})
	if err != nil {
		return err
	}
	begun := now()
	_, err = s.Store.AbortTasks(ctx, []stint.TaskID{lostScan()}, "the film is lost")
	if err != nil {
		return err
	}
	var cause error
	select {
	case cause = <-s.lost:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after := now().Sub(begun)
	aborted := 0
	err = s.watch(ctx, watchEvery, func(_ []stint.TaskInfo, now *Picture) bool {
		aborted = now.States[stint.StateAborted]
		return true
	})
	s.tell(Event{
		Kind: KindAborted, Task: lostScan(), Tasks: aborted, Actor: FirstActor,
		After: after.Seconds(), Status: cause.Error(),
	})
	return err
}

// kill kills the second worker while it owns tasks, and waits until they have been handed on.
func (s *story) kill(ctx context.Context) error {
	const share = 0.45
	err := s.watch(ctx, watchEvery, func(_ []stint.TaskInfo, now *Picture) bool {
		return s.isThrough(now, share) && now.worker(SecondActor).Owns > slots/2
	})
	if err != nil {
		return err
	}
	s.killed = now()
	if err := s.second.kill(); err != nil {
		return err
	}
	page, err := s.Store.ListTasks(ctx, stint.Filter{
		Actor: SecondActor, States: []stint.State{stint.StateInProgress}, Limit: tasksMax,
	})
	if err != nil {
		return err
	}
	orphans := page.Tasks
	if len(orphans) == 0 {
		return fmt.Errorf("%s owned nothing when it was killed", SecondActor)
	}
	left, err := s.leaseLeft(ctx, orphans)
	if err != nil {
		return err
	}
	s.tell(Event{
		Kind: KindKilled, Actor: SecondActor, Process: s.second.cmd.Process.Pid,
		Tasks: len(orphans), LeaseLeft: left.Seconds(),
	})
	if err := s.awaitHandOn(ctx, orphans); err != nil {
		return err
	}
	s.tell(Event{
		Kind: KindHandedOn, Actor: FirstActor, Tasks: s.taken, After: s.handedOn.Seconds(),
	})
	return nil
}

// leaseLeft is how long the last of the leases on tasks has still to run, on the database's clock.
func (s *story) leaseLeft(ctx context.Context, tasks []stint.TaskInfo) (time.Duration, error) {
	last := tasks[0]
	for _, task := range tasks {
		if task.LeaseUntil.After(last.LeaseUntil) {
			last = task
		}
	}
	why, err := s.Store.Explain(ctx, last.ID)
	return last.LeaseUntil.Sub(why.Now), err
}

// awaitHandOn waits until others own, or have performed, the tasks that the second worker owned. A
// return that the database had received before the kill still counts: the returned task is not
// handed on, even if it is to be tried again later.
func (s *story) awaitHandOn(ctx context.Context, orphans []stint.TaskInfo) error {
	const every = 25 * time.Millisecond
	isOrphan := map[stint.TaskID]bool{}
	for _, task := range orphans {
		isOrphan[task.ID] = true
	}
	return s.watch(ctx, every, func(tasks []stint.TaskInfo, _ *Picture) bool {
		owned, ready, taken := 0, 0, 0
		for _, task := range tasks {
			switch {
			case !isOrphan[task.ID]:
			case task.State == stint.StateScheduled && s.noticed == 0:
				delete(isOrphan, task.ID)
			case task.State == stint.StateReady:
				ready++
			case task.Actor != SecondActor:
				taken++
			case task.State == stint.StateInProgress:
				owned++
			}
		}
		s.taken, s.handedOn = taken, now().Sub(s.killed)
		if s.noticed == 0 && ready+taken > 0 {
			s.noticed = s.handedOn
		}
		return owned+ready == 0
	})
}

// finish waits until the last task has ended, however it ends.
func (s *story) finish(ctx context.Context) error {
	err := s.watch(ctx, watchEvery, func(_ []stint.TaskInfo, now *Picture) bool {
		return now.States.ended() == len(s.plan.Tasks)
	})
	if err != nil {
		return err
	}
	s.printed = now().Sub(s.begun)
	// The last task has finished, so this returns at once. Others may have waited for it all the
	// while.
	last, err := s.Store.WaitForTask(ctx, s.plan.End)
	if err != nil {
		return err
	}
	tasks, err := s.Store.GetTasks(ctx, []stint.TaskID{bindID})
	if err != nil {
		return err
	}
	s.tell(Event{Kind: KindPrinted, Task: last.ID, Status: tasks[0].Status})
	return nil
}

const (
	watchEvery = 250 * time.Millisecond
	// tasksMax is more tasks than the yearbook has.
	tasksMax = 10_000
)

// watch looks at all tasks of the yearbook, shows them and asks whether that is enough, again and
// again.
func (s *story) watch(
	ctx context.Context, every time.Duration, enough func([]stint.TaskInfo, *Picture) bool,
) error {
	return s.repeat(ctx, every, func() (bool, error) {
		// This is for a few thousand tasks; in a large store, Stats tells how things are going.
		page, err := s.Store.ListTasks(ctx, stint.Filter{Limit: tasksMax})
		if err != nil {
			return false, err
		}
		tasks := slices.DeleteFunc(page.Tasks, func(task stint.TaskInfo) bool {
			return !s.planned[task.ID]
		})
		picture := newPicture(tasks, []Worker{
			{Actor: FirstActor}, {Actor: SecondActor, Killed: !s.killed.IsZero()},
		})
		s.tell(Event{Kind: KindProgress, Picture: picture})
		return enough(tasks, picture), nil
	})
}

// repeat calls look until it is satisfied, or the second worker ends before its time.
func (s *story) repeat(
	ctx context.Context, every time.Duration, look func() (satisfied bool, err error),
) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if satisfied, err := look(); satisfied || err != nil {
			return err
		}
		if s.killed.IsZero() {
			if err := s.second.early(); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isThrough reports whether that share of the tasks has ended.
func (s *story) isThrough(picture *Picture, share float64) bool {
	return float64(picture.States.ended()) >= share*float64(len(s.plan.Tasks))
}

func (s *story) tell(e Event) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e.Seconds = now().Sub(s.begun).Seconds()
	s.Tell(e)
}

// tellFailed tells of the first task that fails.
func (s *story) tellFailed(task *worker.Task) {
	s.mutex.Lock()
	told := s.hasFailed
	s.hasFailed = true
	s.mutex.Unlock()
	if !told {
		s.tell(Event{
			Kind: KindFailed, Task: task.ID, Actor: FirstActor, Status: errSmudged.Error(),
		})
	}
}

// noteLost notes the first report of the loss. There is no second one, unless the task had another
// owner.
func (s *story) noteLost(cause error) {
	select {
	case s.lost <- cause:
	default:
	}
}
