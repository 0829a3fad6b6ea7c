package shards_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// on is a dependency of one task on another, named like "eu/save".
func on(predecessor, dependent string) shards.Dependency {
	return shards.Dependency{
		Predecessor: idOf(predecessor), Dependent: idOf(dependent),
	}
}

func idOf(id string) shards.ID {
	of, err := shards.ParseID(id)
	if err != nil {
		panic(err)
	}
	return of
}

func insertAll(t *testing.T, c *shards.Cluster, ids ...string) {
	t.Helper()
	tasks := make([]shards.Task, len(ids))
	for i, id := range ids {
		tasks[i] = task(id)
	}
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
}

func TestAddDependencies_BetweenStoredTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	add := func(dependencies ...shards.Dependency) error {
		return c.AddDependencies(t.Context(), dependencies)
	}
	insertAll(t, c, "1/a", "1/b", "2/c", "2/lost")
	for range 2 { // one that exists is no error
		wantErr(t, "AddDependencies", add(on("1/a", "2/c"), on("1/a", "1/b")), nil)
	}
	wantErr(t, "AddDependencies", add(on("1/none", "2/lost")), stint.ErrTaskNotFound)
	wantErr(t, "AddDependencies", add(on("2/c", "1/none")), stint.ErrTaskNotFound)
	wantErr(t, "AddDependencies", add(on("3/x", "1/a")), shards.ErrUnknownShard)
	d.perform(t, "2/lost", stint.Return{})
	for _, id := range []string{"1/b", "2/c"} {
		if got := d.state(t, id); got != "blocked" {
			t.Errorf("%s is %s", id, got)
		}
	}
	d.perform(t, "1/a", stint.Return{})
	d.perform(t, "1/b", stint.Return{})
	c2 := d.own(t, "2")
	wantErr(t, "AddDependencies", add(on("1/a", "2/c")), nil) // exists
	insertAll(t, c, "1/new")
	wantErr(t, "AddDependencies", add(on("1/new", "2/c")), stint.ErrTaskStarted)
	err := d.stores["2"].ReturnTask(t.Context(), c2.ID, c2.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, nil)
	d.perform(t, "1/new", stint.Return{})
}

// Proves G145.
func TestAddDependencies_RefusesCyclesAcrossShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b", "1/a"), task("2/b2", "2/b"), task("3/c", "2/b2"),
	})
	wantErr(t, "InsertTasks", err, nil)
	d.awaitDecided(t)
	err = c.AddDependencies(t.Context(), []shards.Dependency{on("3/c", "1/a")})
	var cycle *stint.CycleError
	if !errors.As(err, &cycle) {
		t.Fatalf("AddDependencies = %v, want a cycle", err)
	}
	if got := fmt.Sprint(cycle.Path); got != "[1/a 2/b 2/b2 3/c 1/a]" {
		t.Errorf("the cycle is %s", got)
	}
	found, err := c.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
	for _, id := range []string{"1/a", "2/b", "2/b2", "3/c"} {
		d.perform(t, id, stint.Return{})
	}
}

// A dependency within a shard is refused if it closes a cycle through others.
//
// Proves R4.
func TestAddDependencies_WithinAShardRefusesCyclesThroughOthers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b", "1/a"), task("1/c", "2/b"), task("1/d"),
	})
	wantErr(t, "InsertTasks", err, nil)
	closing := []shards.Dependency{on("1/d", "1/c"), on("1/c", "1/a")}
	err = c.AddDependencies(t.Context(), closing)
	wantErr(t, "AddDependencies", err, stint.ErrCycle)
	var cycle *stint.CycleError
	if !errors.As(err, &cycle) || !slices.Contains(cycle.Path, "2/b") {
		t.Errorf("AddDependencies = %v, want a path with 2/b", err)
	}
	wantErr(t, "AddDependencies", c.AddDependencies(t.Context(), closing[:1]), nil)
}

// What was refused may be added when it closes no cycle any more.
func TestAddDependencies_AgainAfterARefusal(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	last := task("3/z", "2/m")
	last.Task.OnAbort = stint.RunAnyway
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/x"), task("2/m", "1/x"), last})
	wantErr(t, "InsertTasks", err, nil)
	closing := []shards.Dependency{on("3/z", "1/x")}
	for range 2 {
		wantErr(t, "AddDependencies", c.AddDependencies(t.Context(), closing), stint.ErrCycle)
	}
	_, err = c.AbortTasks(t.Context(), []shards.ID{idOf("2/m")}, "no longer wanted")
	wantErr(t, "AbortTasks", err, nil)
	d.awaitState(t, "3/z", "ready")
	wantErr(t, "AddDependencies", c.AddDependencies(t.Context(), closing), nil)
	if got := d.state(t, "1/x"); got != "blocked" {
		t.Errorf("1/x is %s", got)
	}
	d.perform(t, "3/z", stint.Return{})
	d.perform(t, "1/x", stint.Return{})
}

// Of dependencies that close a cycle at once, at least one is refused, and none of the tasks waits
// for ever.
// Proves G145.
func TestAddDependencies_NeverLeaveADeadlock(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	d.relay(t, shards.Options{DecideWithin: time.Nanosecond}) // which looks at once
	d.work(t)
	clusters := []*shards.Cluster{
		d.cluster(t, shards.Options{}), d.cluster(t, shards.Options{}),
		d.cluster(t, shards.Options{}),
	}
	for round := range testrun.Rounds(50) {
		name := func(shard string) string { return fmt.Sprintf("%s/%d", shard, round) }
		gate := stint.TaskID(fmt.Sprintf("start/%d", round))
		for shard, store := range d.stores {
			err := store.InsertTasks(t.Context(), []stint.Task{
				{ID: gate, Action: stint.External},
				{ID: task(name(shard)).Task.ID, Action: "act", After: []stint.TaskID{gate}},
			})
			wantErr(t, "InsertTasks", err, nil)
		}
		errs := make(chan error, len(clusters))
		for i, edge := range []shards.Dependency{
			on(name("1"), name("2")), on(name("2"), name("3")), on(name("3"), name("1")),
		} {
			go func() {
				errs <- clusters[i].AddDependencies(t.Context(), []shards.Dependency{edge})
			}()
		}
		refused := 0
		for range clusters {
			if err := <-errs; err != nil {
				wantErr(t, "AddDependencies", err, stint.ErrCycle)
				refused++
			}
		}
		if refused == 0 {
			t.Error("none of three dependencies that form a cycle is refused")
		}
		for _, store := range d.stores {
			verdicts, err := store.AnswerTasks(t.Context(), "test", []stint.Answer{
				{ID: gate, Code: stint.StatusCompleted},
			})
			wantErr(t, "AnswerTasks", errors.Join(append(verdicts, err)...), nil)
		}
		for shard := range d.stores {
			d.awaitState(t, name(shard), "completed")
		}
	}
}

// Wherever the process of the call is killed, the dependency is whole in the end, or not there.
// Proves G145.
func TestAddDependencies_KilledAnywhere(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{DecideWithin: time.Nanosecond})
	sound := d.cluster(t, shards.Options{})
	for _, late := range testrun.Some([]bool{false, true}) {
		for at := int32(1); ; at++ {
			before, behind := fmt.Sprintf("1/%d%t", at, late), fmt.Sprintf("2/%d%t", at, late)
			insertAll(t, sound, before)
			insertAll(t, sound, behind)
			calls := &atomic.Int32{}
			c := d.cluster(t, shards.Options{Connect: func(
				ctx context.Context, shard, url string,
			) (shards.Store, error) {
				store, err := shards.Connect(ctx, shard, url)
				return &mortal{store, calls, at, late}, err
			}})
			err := c.AddDependencies(t.Context(), []shards.Dependency{on(before, behind)})
			waits := d.state(t, behind) == "blocked"
			if err == nil && !waits {
				t.Errorf("%s does not wait, though AddDependencies did not fail", behind)
			}
			d.perform(t, before, stint.Return{})
			d.perform(t, behind, stint.Return{})
			if calls.Load() < at {
				break
			}
		}
	}
}

// What nobody will answer is found.
// Proves G146.
func TestCheck_FindsPlaceholdersThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/a"), task("2/b", "1/a")})
	wantErr(t, "InsertTasks", err, nil)
	found, err := c.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Fatalf("Check = %v, %v", found, err)
	}
	_, err = d.stores["1"].DeleteTasks(t.Context(), []stint.TaskID{"a"})
	wantErr(t, "DeleteTasks", err, nil)
	found, err = c.Check(t.Context())
	if err != nil || len(found) != 1 || found[0].Shard != "2" ||
		!strings.Contains(found[0].String(), "nothing reports to it on shard 1") {
		t.Errorf("Check = %v, %v", found, err)
	}
}

// A dependency of a task that was replaced is gone, and may be added again.
func TestAddDependencies_AgainToATaskThatWasReplaced(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	insertAll(t, c, "1/a", "2/b")
	add := func(e shards.Dependency) error {
		return c.AddDependencies(t.Context(), []shards.Dependency{e})
	}
	wantErr(t, "AddDependencies", add(on("1/a", "2/b")), nil)
	err := d.stores["2"].ReplaceTasks(t.Context(), []stint.Task{task("2/b").Task})
	wantErr(t, "ReplaceTasks", err, nil)
	wantErr(t, "AddDependencies", add(on("1/a", "2/b")), nil)
	if got := d.state(t, "2/b"); got != "blocked" {
		t.Errorf("2/b is %s, though it was made to wait", got)
	}
	wantErr(t, "AddDependencies", add(on("2/b", "1/a")), stint.ErrCycle)
	d.perform(t, "1/a", stint.Return{})
	d.perform(t, "2/b", stint.Return{})
}

// What only an aborted task needs is aborted, but not the gate that tells whether an insert took
// place.
func TestInsertTasks_KeepsTheGateOfWhatFailsFast(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	d.relay(t, shards.Options{})
	tasks := []shards.Task{task("1/a"), task("1/b", "1/a"), task("2/a"), task("2/b", "2/a")}
	for i := range tasks {
		tasks[i].Task.FailFast = len(tasks[i].After) > 0
	}
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
	gates := 0
	for name, store := range d.stores {
		page, err := store.ListTasks(t.Context(), stint.Filter{IDPrefix: "stint.gate/"})
		wantErr(t, "ListTasks", err, nil)
		for _, gate := range page.Tasks {
			if gates++; !gate.PostResult {
				t.Errorf("%s in %s may be aborted", gate.ID, name)
			}
		}
	}
	if gates == 0 {
		t.Error("there is no gate")
	}
}

// Tasks of several shards are moved, and wait for those of other shards as before.
// Proves G212.
func TestChangeTasks_MovesTasksOfSeveralShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/a"), task("2/b", "1/a")})
	wantErr(t, "InsertTasks", err, nil)
	ids := []shards.ID{idOf("1/a"), idOf("2/b")}
	for _, to := range []stint.TaskChanges{{StartAfter: time.Hour}, {StartNow: true, MaxTries: 2}} {
		changed, err := c.ChangeTasks(t.Context(), ids, to)
		wantErr(t, "ChangeTasks", err, nil)
		if len(changed.Tasks) != 2 || changed.Others != 0 {
			t.Errorf("ChangeTasks to %+v changed %+v", to, changed)
		}
	}
	if got := d.state(t, "2/b"); got != "blocked" {
		t.Errorf("2/b is %s", got)
	}
	d.perform(t, "1/a", stint.Return{})
	d.perform(t, "2/b", stint.Return{})
	_, err = c.ChangeTasks(t.Context(), ids, stint.TaskChanges{StartNow: true})
	wantErr(t, "ChangeTasks", err, stint.ErrTaskStarted)
}
