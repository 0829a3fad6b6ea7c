package shards_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// mustAbortStored inserts a task of a shard, and aborts it.
func (d *databases) mustAbortStored(t *testing.T, id string) {
	t.Helper()
	insertAll(t, d.cluster(t, shards.Options{}), id)
	d.perform(t, id, stint.Return{Code: stint.StatusAborted})
}

// Whatever an abort from outside of an insert brings down, or somebody replaces, no task of the
// insert starts before that is decided.
//
// Proves G139.
func TestInsertTasks_StartsNothingBeforeTheDecision(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.mustAbortStored(t, "1/old")
	anyway := task("1/anyway", "1/falls")
	anyway.Task.OnAbort = stint.RunAnyway
	join := task("1/join", "1/falls")
	join.Task.OnAbort, join.Task.Action = stint.RunAnyway, stint.Spontaneous
	waiting := []string{"1/anyway", "1/mend", "1/behind-join", "1/behind-replaced"}
	tasks := []shards.Task{
		task("1/falls", "1/old"), anyway, when("1/mend", ends("1/falls", stint.StateAborted)),
		join, task("1/behind-join", "1/join"),
		task("1/replaced"), task("1/behind-replaced", "1/replaced"),
		task("2/a"), task("2/b"), task("2/c"), task("2/d"), task("2/e"), task("2/f"), task("2/g"),
		task("2/h"),
	}
	err := d.dying(t, 2).InsertTasks(t.Context(), tasks)
	wantErr(t, "InsertTasks of a process that is killed", err, errKilled)
	err = d.stores["1"].ReplaceTasks(t.Context(), []stint.Task{{ID: "replaced", Action: "other"}})
	wantErr(t, "ReplaceTasks", err, nil)
	if got := d.state(t, "1/falls"); got != "aborted" {
		t.Errorf("1/falls is %s, though what it waits for was aborted", got)
	}
	for _, id := range waiting {
		if got := d.state(t, id); got != "blocked" {
			t.Errorf("%s is %s before the insert is decided", id, got)
		}
	}
}

// Nobody has asked to wait for a gate: handlers see nothing of it. Proves G139.
func TestInsertTasks_GatesDoNotCountAsPredecessors(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, "1", "2")
	last := task("1/last", "1/first")
	last.Task.OnAbort = stint.RunAnyway
	tasks := []shards.Task{
		task("1/first"), last, task("2/a"), task("2/b"), task("2/c"), task("2/d"),
	}
	wantErr(t, "InsertTasks", d.cluster(t, shards.Options{}).InsertTasks(t.Context(), tasks), nil)
	for i, id := range []stint.TaskID{"first", "last"} {
		owned := d.own(t, "1")
		inputs, err := d.stores["1"].Inputs(t.Context(), owned)
		if owned.ID != id || owned.Completed != i || len(inputs) != i || err != nil {
			t.Errorf("%q has %d completed predecessors and the inputs %v, %v",
				owned.ID, owned.Completed, inputs, err)
		}
		wantErr(t, "ReturnTask", d.stores["1"].ReturnTask(
			t.Context(), owned.ID, owned.Token, "", stint.StatusCompleted), nil)
	}
}

// deciding is a store that calls a test before the insert that decides.
type deciding struct {
	shards.Store
	before func(ctx context.Context)
}

func (s *deciding) InsertTasks(ctx context.Context, tasks []stint.Task) error {
	if tasks[len(tasks)-1].Action == "stint.Decision" {
		s.before(ctx)
	}
	return s.Store.InsertTasks(ctx, tasks)
}

// An abort that reaches a task before it is decided whether it is inserted reaches the dependents
// on other shards, which are not there yet then.
//
// Proves G141.
func TestAborts_BeforeADecisionGoToOtherShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.mustAbortStored(t, "1/old")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := shards.Connect(ctx, shard, url)
		return &deciding{store, func(ctx context.Context) { d.awaitReports(ctx, t, "1") }}, err
	}})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/falls", "1/old"), task("2/waits", "1/falls"), task("2/b"), task("2/c"),
	})
	wantErr(t, "InsertTasks", err, nil)
	wantSound(t, c)
	d.awaitState(t, "2/waits", "aborted")
}

// awaitReports waits until no task of a shard reports, or will soon.
func (d *databases) awaitReports(ctx context.Context, t *testing.T, shard string) {
	t.Helper()
	filter := stint.Filter{IDPrefix: "stint.report/", Limit: 100, States: []stint.State{
		stint.StateReady, stint.StateInProgress,
	}}
	for {
		page, err := d.stores[shard].ListTasks(ctx, filter)
		if err != nil {
			t.Errorf("ListTasks = %v", err)
		}
		if len(page.Tasks) == 0 {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// The gate of an insert is no end that anybody waited for: a report that was behind one says that
// its task was aborted, also if that is gone.
//
// Proves G140.
func TestRelay_TellsOfAnAbortBehindAGate(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, replaced := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t, "1", "2")
			c := d.cluster(t, shards.Options{})
			insertAll(t, c, "1/a")
			err := c.InsertTasks(t.Context(), []shards.Task{task("2/waits", "1/a"), task("2/b")})
			wantErr(t, "InsertTasks", err, nil)
			d.perform(t, "1/a", stint.Return{Code: stint.StatusAborted, Status: "no"})
			if replaced {
				again := []stint.Task{{ID: "a", Action: "act"}}
				wantErr(t, "ReplaceTasks", d.stores["1"].ReplaceTasks(t.Context(), again), nil)
				d.perform(t, "1/a", stint.Return{Result: []byte("of another")})
			} else {
				_, err := d.stores["1"].DeleteTasks(t.Context(), []stint.TaskID{"a"})
				wantErr(t, "DeleteTasks", err, nil)
			}
			d.relay(t, shards.Options{})
			d.awaitState(t, "2/waits", "aborted")
		})
	}
}

// An insert that is undone takes its own tasks with it, not one that has replaced one of them.
//
// Proves G139.
func TestInsertTasks_UndoneKeepsWhatHasReplacedATask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, seen := range map[string]bool{"as seen": true, "by a store that cannot see": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t, "1", "2")
			err := d.dying(t, 2).InsertTasks(t.Context(), []shards.Task{
				task("1/a"), task("1/replaced", "1/a"), task("1/debounced", "1/a"), task("2/b"),
				task("2/c"), task("2/d"), task("2/e"),
			})
			wantErr(t, "InsertTasks of a process that is killed", err, errKilled)
			another := stint.Task{ID: "replaced", Action: "act"}
			wantErr(t, "ReplaceTasks",
				d.stores["1"].ReplaceTasks(t.Context(), []stint.Task{another}), nil)
			another.ID = "debounced"
			wantErr(t, "Debounce",
				d.stores["1"].Debounce(t.Context(), another, time.Hour, time.Hour), nil)
			options := shards.Options{DecideWithin: time.Nanosecond}
			if seen {
				options.Connect = shards.Connect
			}
			d.relay(t, options)
			d.awaitDecided(t)
			if got := d.state(t, "1/replaced"); got != "ready" {
				t.Errorf("what has replaced a task of the insert is %s", got)
			}
			if got := d.state(t, "1/debounced"); got != "scheduled" {
				t.Errorf("what was debounced in place of a task of the insert is %s", got)
			}
			if got := d.state(t, "1/a"); got != "none" {
				t.Errorf("1/a is %s, though its insert was undone", got)
			}
		})
	}
}

// However many tasks an insert has, a call that is repeated before it is decided is not told that
// it took place; and afterwards it is.
//
// Proves G147.
func TestInsertTasks_OfManyTasksRepeatedBeforeADecision(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	const many = 10_100 // more than a graph has
	tasks := []shards.Task{task("1/a")}
	for i := range many {
		tasks = append(tasks, task(fmt.Sprint("1/b", i), "1/a"), task(fmt.Sprint("2/c", i)))
	}
	tasks = append(tasks, task("2/d"), task("2/e"))
	err := d.dying(t, 2).InsertTasks(t.Context(), tasks)
	wantErr(t, "InsertTasks of a process that is killed", err, errKilled)
	c := d.cluster(t, shards.Options{})
	err = c.InsertTasks(t.Context(), tasks)
	if errors.Is(err, stint.ErrTaskExists) || !errors.Is(err, shards.ErrUndecided) {
		t.Errorf("InsertTasks before the decision = %.200v, want %v", err, shards.ErrUndecided)
	}
	stop := d.relay(t, shards.Options{DecideWithin: time.Nanosecond})
	d.awaitDecided(t)
	stop()
	d.wantNothing(t)
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
	err = c.InsertTasks(t.Context(), tasks)
	if !errors.Is(err, stint.ErrTaskExists) || errors.Is(err, shards.ErrUndecided) {
		t.Errorf("InsertTasks after the decision = %.200v, want %v", err, stint.ErrTaskExists)
	}
}

// What others have made to wait for nothing but tasks of an insert goes with these when it is
// undone, on whatever shard; what waits for others, too, goes on to wait for these.
//
// Proves G148.
func TestInsertTasks_UndoneWithWhatWaitsForItOnOtherShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	err := d.dying(t, 2).InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("1/b", "1/a"), task("2/c"), task("2/d"), task("2/e"),
	})
	wantErr(t, "InsertTasks of a process that is killed", err, errKilled)
	c := d.cluster(t, shards.Options{})
	err = c.InsertTasks(t.Context(), []shards.Task{
		task("3/waits", "1/b"), task("2/behind", "3/waits"), task("3/other"),
		task("3/both", "1/b", "3/other"),
	})
	wantErr(t, "InsertTasks of another process", err, nil)
	d.relay(t, shards.Options{DecideWithin: time.Nanosecond})
	d.awaitState(t, "1/b", "none")
	d.awaitDecided(t)
	for id, want := range map[string]string{
		"1/a": "none", "3/waits": "none", "2/behind": "none", "3/both": "blocked",
	} {
		if got := d.state(t, id); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	wantSound(t, c)
	d.perform(t, "3/other", stint.Return{})
	d.awaitState(t, "3/both", "ready")
}
