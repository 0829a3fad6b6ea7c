package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// errKilled is what everything fails with in a process that was killed.
var errKilled = errors.New("the process was killed")

// A mortal store ends with its process: from one call on, nothing is done any more. With late set,
// the call at which the process is killed still takes place.
type mortal struct {
	shards.Store
	calls *atomic.Int32
	at    int32
	late  bool
}

func (m *mortal) die() (before, after bool) {
	n := m.calls.Add(1)
	return n > m.at || n == m.at && !m.late, n >= m.at
}

func killed[T any](m *mortal, call func() (T, error)) (T, error) {
	var none T
	before, after := m.die()
	if before {
		return none, errKilled
	}
	got, err := call()
	if after {
		return none, errKilled
	}
	return got, err
}

// isNaming reports whether a call is about the name of a shard, which is no part of an insert.
func isNaming(id stint.TaskID) bool { return id == "stint.shard" }

func (m *mortal) InsertTasks(ctx context.Context, tasks []stint.Task) error {
	if isNaming(tasks[0].ID) {
		return m.Store.InsertTasks(ctx, tasks)
	}
	_, err := killed(m, func() (struct{}, error) {
		return struct{}{}, m.Store.InsertTasks(ctx, tasks)
	})
	return err
}

func (m *mortal) DeleteTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	return killed(m, func() (stint.Affected, error) { return m.Store.DeleteTasks(ctx, ids) })
}

func (m *mortal) GetTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error) {
	if isNaming(ids[0]) {
		return m.Store.GetTasks(ctx, ids)
	}
	return killed(m, func() ([]stint.TaskInfo, error) { return m.Store.GetTasks(ctx, ids) })
}

func (m *mortal) AnswerTasks(
	ctx context.Context, actor stint.ActorID, answers []stint.Answer,
) ([]error, error) {
	return killed(m, func() ([]error, error) { return m.Store.AnswerTasks(ctx, actor, answers) })
}

// Wherever the process of an insert is killed, and whether the insert could take place or not, all
// tasks are there in the end, or none.
// Proves G139.
func TestInsertTasks_KilledAnywhereIsAllOrNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	sides := []bool{false, true}
	for _, c := range testrun.Some(testrun.Pairs(sides, sides)) {
		taken, late := c.A, c.B
		t.Run(fmt.Sprintf("taken %t, late %t", taken, late), func(t *testing.T) {
			t.Parallel()
			killEverywhere(t, taken, late)
		})
	}
}

func killEverywhere(t *testing.T, taken, late bool) {
	t.Helper()
	d := newDatabases(t, "1", "2", "3")
	stop := d.relay(t, shards.Options{DecideWithin: time.Nanosecond})
	performed := d.work(t)
	for at := int32(1); ; at++ {
		calls, _ := d.insertKilled(t, performed, at, taken, late)
		if calls < at { // it was not killed, but may have been too late
			break
		}
	}
	stop()
	d.relay(t, shards.Options{})
	_, err := d.insertKilled(t, performed, math.MaxInt32, taken, late)
	var want error
	if taken {
		want = stint.ErrTaskExists
	}
	if !errors.Is(err, want) || errors.Is(err, shards.ErrTooLate) {
		t.Errorf("InsertTasks that nobody kills = %v, want %v", err, want)
	}
}

// insertKilled inserts a network in a process that is killed at one of its calls, and looks what
// becomes of it. It returns how many calls there were.
func (d *databases) insertKilled(
	t *testing.T, performed *sync.Map, at int32, taken, late bool,
) (int32, error) {
	t.Helper()
	all := []string{"1/a", "2/b", "2/b2", "2/b3", "3/c"}
	prefix := fmt.Sprintf("%d-", at)
	name := func(id string) string { return id[:2] + prefix + id[2:] }
	if taken { // the ID of a task is taken by another one
		err := d.stores["3"].InsertTasks(t.Context(), []stint.Task{
			{ID: stint.TaskID(prefix + "c"), Action: "other"},
		})
		wantErr(t, "InsertTasks", err, nil)
	}
	calls := &atomic.Int32{}
	c := d.cluster(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := shards.Connect(ctx, shard, url)
		return &mortal{store, calls, at, late}, err
	}})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task(name("1/a")), task(name("2/b"), name("1/a")), task(name("2/b2"), name("2/b")),
		task(name("2/b3")), task(name("3/c"), name("2/b2"), name("1/a")),
	})
	d.settles(t, err, taken, name, all, performed)
	return calls.Load(), err
}

// work performs all tasks of all shards until the test ends, none of them twice, and notes them.
func (d *databases) work(t *testing.T) *sync.Map {
	t.Helper()
	performed := &sync.Map{}
	var all sync.WaitGroup
	for name, store := range d.stores {
		all.Go(func() {
			for {
				owned, err := store.WaitToOwnTasks(
					t.Context(), "worker", 10, []string{"act"}, time.Hour)
				if err != nil {
					return
				}
				returns := make([]stint.Return, len(owned))
				for i, task := range owned {
					id := shards.ID{Shard: name, Task: task.ID}.String()
					if _, again := performed.LoadOrStore(id, true); again {
						t.Errorf("%s was performed twice", id)
					}
					returns[i] = stint.Return{
						ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
					}
				}
				if _, err := store.ReturnTasks(t.Context(), returns); err != nil {
					return
				}
			}
		})
	}
	t.Cleanup(all.Wait)
	return performed
}

// settles waits until all inserts are decided, and then all tasks must be there, or none.
func (d *databases) settles(
	t *testing.T, err error, taken bool, name func(string) string, all []string,
	performed *sync.Map,
) {
	t.Helper()
	d.awaitDecided(t)
	var there []string
	for _, id := range all {
		state := d.state(t, name(id))
		if state != "none" && (!taken || id != "3/c") {
			there = append(there, name(id))
		}
	}
	for _, id := range all {
		if len(there) > 0 {
			d.awaitState(t, name(id), "completed")
		} else if _, ok := performed.Load(name(id)); ok {
			t.Errorf("%s was performed, though it was not inserted", name(id))
		}
	}
	switch {
	case len(there) == len(all) && !taken:
	case len(there) > 0:
		t.Errorf("only %q are there, InsertTasks = %v", there, err)
	case err == nil:
		t.Error("nothing is there, and InsertTasks did not fail")
	}
	if taken && err == nil {
		t.Error("InsertTasks did not fail for an ID that is taken")
	}
}

// awaitDecided waits until no gate is closed and nothing guards one.
func (d *databases) awaitDecided(t *testing.T) {
	t.Helper()
	const tooLong = time.Minute
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		var open []stint.TaskID
		for _, store := range d.stores {
			for _, prefix := range []string{"stint.gate/", "stint.guard/", "stint.decision/"} {
				filter := stint.Filter{IDPrefix: prefix, Limit: 1000}
				page, err := store.ListTasks(t.Context(), filter)
				wantErr(t, "ListTasks", err, nil)
				for _, info := range page.Tasks {
					undone := prefix == "stint.decision/" && info.Action == stint.External
					if !undone && info.StatusCode == stint.StatusPending {
						open = append(open, info.ID)
					}
				}
			}
		}
		if len(open) == 0 {
			return
		}
		if time.Since(began) > tooLong {
			t.Fatalf("not decided: %q", open)
		}
	}
}

// dying returns a cluster of a process that is killed at one of its calls.
func (d *databases) dying(t *testing.T, at int32) *shards.Cluster {
	t.Helper()
	calls := &atomic.Int32{}
	return d.cluster(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := shards.Connect(ctx, shard, url)
		return &mortal{store, calls, at, false}, err
	}})
}

// A call that is repeated before the first one is decided is not told that that one took place.
// Proves G147.
func TestInsertTasks_RepeatedBeforeADecision(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	tasks := []shards.Task{task("1/a"), task("2/b", "1/a"), task("2/b2", "2/b")}
	err := d.dying(t, 2).InsertTasks(t.Context(), tasks)
	wantErr(t, "InsertTasks of a process that is killed", err, errKilled)
	c := d.cluster(t, shards.Options{})
	err = c.InsertTasks(t.Context(), tasks)
	if errors.Is(err, stint.ErrTaskExists) || !errors.Is(err, shards.ErrUndecided) {
		t.Errorf("InsertTasks before the decision = %v, want %v", err, shards.ErrUndecided)
	}
	stop := d.relay(t, shards.Options{DecideWithin: time.Nanosecond})
	d.awaitDecided(t)
	stop()
	d.relay(t, shards.Options{})
	d.wantNothing(t)
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
	d.awaitDecided(t)
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), stint.ErrTaskExists)
}

// An insert whose answer was lost is not undone on the other shards, though what decided it is
// kept for a moment only.
func TestInsertTasks_DecisionsAreKept(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	keepNone := func(ctx context.Context, shard, url string) (shards.Store, error) {
		return shards.ConnectWith(stint.Options{Retention: stint.Retention{
			Completed: stint.KeepNone, Aborted: stint.KeepNone,
		}})(ctx, shard, url)
	}
	d.relay(t, shards.Options{Connect: keepNone})
	c := d.cluster(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := shards.Connect(ctx, shard, url)
		return &forgetful{store, d, t}, err
	}})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b", "1/a"), task("2/b2", "2/b"),
	})
	wantErr(t, "InsertTasks", err, nil)
	d.perform(t, "1/a", stint.Return{})
	d.perform(t, "2/b", stint.Return{})
}

// A forgetful store loses the answer to the insert that decides, until that was performed.
type forgetful struct {
	shards.Store
	d *databases
	t *testing.T
}

func (f *forgetful) InsertTasks(ctx context.Context, tasks []stint.Task) error {
	err := f.Store.InsertTasks(ctx, tasks)
	last := tasks[len(tasks)-1]
	if last.Action != "stint.Decision" || err != nil {
		return err
	}
	for f.d.state(f.t, "2/"+string(last.ID)) == "ready" ||
		f.d.state(f.t, "2/"+string(last.ID)) == "in-progress" {
		<-time.After(10 * time.Millisecond)
	}
	return errAway
}

// A call that is repeated once the first one is decided is told that that one took place, also
// while gates are closed that its process could not open.
//
// Proves G147.
func TestInsertTasks_RepeatedBeforeTheGatesOpen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	tasks := []shards.Task{task("1/a"), task("2/b", "1/a"), task("2/b2", "2/b")}
	err := d.dying(t, 3).InsertTasks(t.Context(), tasks)
	wantErr(t, "InsertTasks of a process that is killed before it opens the gates", err, nil)
	if got := d.state(t, "1/a"); got != "blocked" {
		t.Fatalf("1/a is %s, want it behind a closed gate", got)
	}
	err = d.cluster(t, shards.Options{}).InsertTasks(t.Context(), tasks)
	if !errors.Is(err, stint.ErrTaskExists) || errors.Is(err, shards.ErrUndecided) {
		t.Errorf("InsertTasks after the decision = %v, want %v", err, stint.ErrTaskExists)
	}
}
