package shards_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// The network of seed 003: two tasks on two shards, and one that waits for both.
// Proves G140.
func TestInsertTasks_OverTwoShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/save"), task("2/save"), task("1/email", "1/save", "2/save"),
	})
	wantErr(t, "InsertTasks", err, nil)
	d.perform(t, "2/save", stint.Return{Result: []byte("link 2"), Status: "saved"})
	d.perform(t, "1/save", stint.Return{Result: []byte("link 1")})
	email := d.own(t, "1")
	if email.ID != "email" || email.Completed != 2 || email.Aborted != 0 {
		t.Errorf("shard 1 gave %+v", email)
	}
	inputs, err := d.stores["1"].Inputs(t.Context(), email)
	wantErr(t, "Inputs", err, nil)
	results := map[string]string{}
	for _, input := range inputs {
		id := shards.ID{Shard: "1", Task: input.ID}
		if of, ok := shards.StandsFor(input.ID); ok {
			id = of
		}
		results[id.String()] = string(input.Result) + "/" + input.Status
	}
	if got := fmt.Sprint(results); got != "map[1/save:link 1/ 2/save:link 2/saved]" {
		t.Errorf("Inputs = %s", got)
	}
}

// Whoever waits for a task of any shard is told its result.
func TestWaitForTask_OfAnyShard(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	waited := task("2/a")
	waited.Task.PostResult = true
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{waited}), nil)
	d.perform(t, "2/a", stint.Return{Result: []byte("done")})
	info, err := c.WaitForTask(t.Context(), idOf("2/a"))
	if err != nil || string(info.Result) != "done" {
		t.Errorf("WaitForTask = %q, %v", info.Result, err)
	}
	for id, want := range map[string]error{
		"1/none": stint.ErrTaskNotFound, "3/a": shards.ErrUnknownShard,
	} {
		_, err := c.WaitForTask(t.Context(), idOf(id))
		wantErr(t, "WaitForTask of "+id, err, want)
	}
}

// A task may wait for one that is there already, finished or not.
// Proves G140.
func TestInsertTasks_AfterStoredTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	insert := func(tasks ...shards.Task) error { return c.InsertTasks(t.Context(), tasks) }
	wantErr(t, "InsertTasks", insert(task("1/done"), task("1/open")), nil)
	d.perform(t, "1/done", stint.Return{})
	wantErr(t, "InsertTasks", insert(task("2/a", "1/done"), task("2/b", "1/open")), nil)
	d.perform(t, "2/a", stint.Return{})
	d.perform(t, "1/open", stint.Return{})
	d.perform(t, "2/b", stint.Return{})
	err := insert(task("2/c", "1/none"))
	wantErr(t, "InsertTasks", err, stint.ErrTaskNotFound)
	if got := d.state(t, "2/c"); got != "none" {
		t.Errorf("2/c is %s", got)
	}
}

// An abort goes from shard to shard as within one, and so does the end of a retry.
// Proves G141.
func TestAborts_GoFromShardToShard(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	anyway := task("2/anyway", "1/a")
	anyway.Task.OnAbort = stint.RunAnyway
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b", "1/a"), task("3/c", "2/b"), anyway,
	})
	wantErr(t, "InsertTasks", err, nil)
	d.perform(t, "1/a", stint.Return{Code: stint.StatusAborted, Status: "no"})
	d.awaitState(t, "3/c", "aborted")
	if got := d.perform(t, "2/anyway", stint.Return{}); got.Aborted != 1 {
		t.Errorf("anyway was told of %d aborted tasks, want 1", got.Aborted)
	}
	for range 2 { // a second failure changes nothing
		retried, err := c.RetryTasks(t.Context(), []shards.ID{{Shard: "1", Task: "a"}})
		if err != nil || len(retried.Tasks) != 1 {
			t.Fatalf("RetryTasks = %v, %v", retried, err)
		}
		d.perform(t, "1/a", stint.Return{Code: stint.StatusAborted, Status: "no"})
	}
	_, err = c.RetryTasks(t.Context(), []shards.ID{{Shard: "1", Task: "a"}})
	wantErr(t, "RetryTasks", err, nil)
	d.perform(t, "1/a", stint.Return{Result: []byte("yes")})
	d.perform(t, "2/b", stint.Return{})
	d.perform(t, "3/c", stint.Return{})
}

// A shard that is away delays what depends on it, and nothing else.
// Proves G142.
func TestRelay_AShardThatIsAwayHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	d.relay(t, shards.Options{DecideWithin: time.Second})
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b", "1/a"), task("3/c", "1/a"),
	})
	wantErr(t, "InsertTasks", err, nil)
	d.awaitDecided(t)
	d.away.Store("1", true)
	why, err := c.Explain(t.Context(), idOf("2/b"))
	if err != nil || len(why.Remote) != 1 || !errors.Is(why.Remote[0].Err, errAway) ||
		!strings.Contains(why.String(), "waits for 1/a: ") {
		t.Errorf("Explain = %v, %v", why, err)
	}
	d.away.Store("2", true)
	d.away.Delete("1")
	why, err = c.Explain(t.Context(), idOf("3/c"))
	if err != nil || !strings.Contains(why.String(), "waits for 1/a, which is ready") {
		t.Errorf("Explain = %v, %v", why, err)
	}
	d.perform(t, "1/a", stint.Return{Result: []byte("kept")})
	d.perform(t, "3/c", stint.Return{})
	if got := d.state(t, "2/b"); got != "blocked" {
		t.Errorf("2/b is %s", got)
	}
	err = c.InsertTasks(t.Context(), []shards.Task{task("2/x"), task("3/y", "2/x")})
	wantErr(t, "InsertTasks", err, errAway)
	d.away.Clear()
	d.perform(t, "2/b", stint.Return{})
	d.awaitDecided(t)
	if got := d.state(t, "3/y"); got != "none" {
		t.Errorf("3/y is %s, though 2/x was not inserted", got)
	}
}

// With a pattern, a relay finds the shards that tasks report to.
func TestRelay_FindsTheShardsOfAPattern(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	names := map[string]string{} // of the databases, which are those of the shards here
	var pattern string
	for shard, pool := range d.pools {
		names[shard] = pool.Config().ConnConfig.Database
		pattern = strings.Replace(testdb.URL(pool), "/"+names[shard], "/{shard}", 1)
	}
	topology, err := shards.ParseTopology("pattern:" + pattern)
	wantErr(t, "ParseTopology", err, nil)
	d.topology = topology
	relay := d.cluster(t, shards.Options{Connect: shards.Connect})
	_, err = relay.Store(t.Context(), names["1"])
	wantErr(t, "Store", err, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	c := d.cluster(t, shards.Options{Connect: shards.Connect})
	err = c.InsertTasks(t.Context(), []shards.Task{
		task(names["1"] + "/a"), task(names["2"]+"/b", names["1"]+"/a"),
	})
	wantErr(t, "InsertTasks", err, nil)
	d.perform(t, "1/a", stint.Return{})
	d.perform(t, "2/b", stint.Return{})
	cancel()
	wantErr(t, "Run", <-ended, nil)
}

// absent is a store of a database that is not there.
type absent struct {
	shards.Store
	closed *atomic.Int32
}

func (absent) GetTasks(context.Context, []stint.TaskID) ([]stint.TaskInfo, error) {
	return nil, errAway
}

func (a absent) Close(context.Context) error {
	a.closed.Add(1)
	return nil
}

// A pattern has a shard of every name, so those that are not there are not kept.
func TestCluster_ForgetsShardsOfAPatternThatItHasNotReached(t *testing.T) {
	t.Parallel()
	topology, err := shards.ParseTopology("pattern:postgres://db/{shard}")
	wantErr(t, "ParseTopology", err, nil)
	var opened, closed atomic.Int32
	c, err := shards.New(topology, shards.Options{Connect: func(
		context.Context, string, string,
	) (shards.Store, error) {
		opened.Add(1)
		return absent{closed: &closed}, nil
	}})
	wantErr(t, "New", err, nil)
	const names = 50
	var all sync.WaitGroup
	for i := range 4 * names {
		all.Go(func() {
			id := shards.ID{Shard: fmt.Sprint(i % names), Task: "a"}
			_, err := c.GetTasks(t.Context(), []shards.ID{id})
			if !errors.Is(err, errAway) {
				t.Errorf("GetTasks of a shard that is not there = %v", err)
			}
		})
	}
	all.Wait()
	for opened.Load() > closed.Load() { // by who opened it, if that was last
		<-time.After(time.Millisecond)
	}
	found, err := c.Stats(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Stats = %d shards, %v, want none", len(found), err)
	}
	if n := opened.Load(); n < names {
		t.Errorf("%d shards were opened, want %d at least", n, names)
	}
	wantErr(t, "Close", c.Close(t.Context()), nil)
}

// unmeasured is a store that can no longer say how large tasks are.
type unmeasured struct {
	shards.Store
	closed *stint.Store
}

func (u unmeasured) Remote() *stint.Remote { return u.closed.Remote() }

// A shard that cannot say how large its tasks are is not said to have too many, nor are others.
func TestGetTasksWithin_TellsAShardThatFailsFromTasksThatAreTooLarge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	closed, err := stint.New(d.pools["1"], stint.Options{})
	wantErr(t, "New", err, nil)
	wantErr(t, "Close", closed.Close(t.Context()), nil)
	c := d.cluster(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := shards.Connect(ctx, shard, url)
		if shard == "1" {
			return unmeasured{store, closed}, err
		}
		return store, err
	}})
	body := make([]byte, 100)
	ids := []shards.ID{{Shard: "1", Task: "a"}, {Shard: "2", Task: "b"}}
	for _, id := range ids {
		wantErr(t, "InsertTasks", d.stores[id.Shard].InsertTasks(t.Context(), []stint.Task{
			{ID: id.Task, Action: "act", Body: body},
		}), nil)
	}
	found, err := c.GetTasksWithin(t.Context(), ids, 150)
	if !errors.Is(err, stint.ErrClosed) || errors.Is(err, stint.ErrTooLarge) || len(found) != 1 {
		t.Errorf("GetTasksWithin = %d tasks, %v, want one and %v", len(found), err,
			stint.ErrClosed)
	}
	_, err = c.GetTasksWithin(t.Context(), ids[1:], 99)
	wantErr(t, "GetTasksWithin of less than a task has", err, stint.ErrTooLarge)
}

func TestInsertTasks_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	signals := task("1/e")
	signals.Task.ToSignalAfter = []stint.TaskID{"stored"}
	long := task("1/" + strings.Repeat("l", 500))
	for name, test := range map[string]struct {
		tasks []shards.Task
		want  error
	}{
		"an unknown shard": {[]shards.Task{task("3/a")}, shards.ErrUnknownShard},
		"after a task of an unknown shard": {
			[]shards.Task{task("1/a", "3/b")}, shards.ErrUnknownShard,
		},
		"a cycle": {[]shards.Task{
			task("1/a", "2/b"), task("2/b", "2/c"), task("2/c", "1/a"),
		}, stint.ErrCycle},
		"itself": {[]shards.Task{task("1/a", "1/a")}, stint.ErrCycle},
		"a taken": {[]shards.Task{
			task("1/a"), task("1/a"), task("2/b", "1/a"),
		}, stint.ErrTaskExists},
		"a signal to a stored task": {
			[]shards.Task{signals, task("2/f", "1/e")}, stint.ErrInvalidArgument,
		},
		"a long ID": {[]shards.Task{
			long, task("2/g", "1/"+string(long.Task.ID)),
		}, stint.ErrTooLarge},
		"a bad task": {[]shards.Task{
			task("1/h"), {Shard: "2", Task: stint.Task{ID: "i"}, After: task("1/x", "1/h").After},
		}, stint.ErrInvalidArgument},
	} {
		err := c.InsertTasks(t.Context(), test.tasks)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: InsertTasks = %v, want %v", name, err, test.want)
		}
	}
	d.wantNothing(t)
	var cycle *stint.CycleError
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/a", "2/b"), task("2/b", "1/a")})
	if !errors.As(err, &cycle) || !slices.Contains(cycle.Path, "2/b") {
		t.Errorf("InsertTasks = %v, want a path with 2/b", err)
	}
	tasks := []shards.Task{{Shard: "1", Task: stint.Task{Action: "act"}}}
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
	if tasks[0].Task.ID == "" {
		t.Error("a task without an ID was given none")
	}
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), nil), nil)
}

// An insert over several shards that fails takes no stored task with it.
//
// Proves G139.
func TestInsertTasks_LeavesStoredTasksAlone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/stored")})
	wantErr(t, "InsertTasks", err, nil)
	err = c.InsertTasks(t.Context(), []shards.Task{task("2/taken")})
	wantErr(t, "InsertTasks", err, nil)
	signals := task("1/a")
	signals.Task.ToSignalAfter = []stint.TaskID{"stored"}
	err = c.InsertTasks(t.Context(), []shards.Task{signals, task("2/taken"), task("2/b")})
	wantErr(t, "InsertTasks", err, stint.ErrInvalidArgument)
	if got := d.state(t, "1/stored"); got != "ready" {
		t.Errorf("the stored task is %s", got)
	}
}

// faulty is a store whose inserts of some tasks fail for now; failed gets each of them.
type faulty struct {
	shards.Store
	fails  *atomic.Bool
	failed chan<- stint.TaskID
}

func (f *faulty) InsertTasks(ctx context.Context, tasks []stint.Task) error {
	if f.fails.Load() && strings.HasSuffix(string(tasks[0].ID), "/again") {
		select {
		case f.failed <- tasks[0].ID:
		default:
		}
		return errAway
	}
	return f.Store.InsertTasks(ctx, tasks)
}

// late is a store that inserts decisions only after somebody else has decided.
type late struct{ shards.Store }

func (l late) InsertTasks(ctx context.Context, tasks []stint.Task) error {
	for _, task := range tasks {
		for strings.HasPrefix(string(task.ID), "stint.decision/") && ctx.Err() == nil {
			_, err := l.GetTasks(ctx, []stint.TaskID{task.ID})
			if !errors.Is(err, stint.ErrTaskNotFound) {
				break
			}
			time.Sleep(time.Millisecond) // until it is there
		}
	}
	return l.Store.InsertTasks(ctx, tasks)
}

// An insert that is too late has not taken place, and its error does not say that it has.
//
// Proves G139, G147.
func TestInsertTasks_TooLateIsNotTaken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{DecideWithin: time.Nanosecond})
	c := d.cluster(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := shards.Connect(ctx, shard, url)
		return late{store}, err
	}})
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/a"), task("2/b"), task("2/c")})
	wantErr(t, "InsertTasks", err, shards.ErrTooLate)
	if errors.Is(err, stint.ErrTaskExists) {
		t.Errorf("InsertTasks = %v, which is also ErrTaskExists", err)
	}
	d.awaitState(t, "1/a", "none")
}

// A retry is not overlooked, whatever fails while the abort before is reported: that is not told
// before a retry would be noticed.
func TestAborts_ARetryWhileTheyAreReportedIsNotLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	fails, failed := &atomic.Bool{}, make(chan stint.TaskID, 1)
	fails.Store(true)
	d.relay(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := shards.Connect(ctx, shard, url)
		return &faulty{store, fails, failed}, err
	}})
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/a"), task("2/b", "1/a")})
	wantErr(t, "InsertTasks", err, nil)
	d.perform(t, "1/a", stint.Return{Code: stint.StatusAborted})
	<-failed
	d.awaitState(t, "2/b", "blocked")
	_, err = c.RetryTasks(t.Context(), []shards.ID{idOf("1/a")})
	wantErr(t, "RetryTasks", err, nil)
	fails.Store(false)
	d.perform(t, "1/a", stint.Return{})
	d.perform(t, "2/b", stint.Return{})
}

// An error about a task says where that is in the list of the caller, whatever its shard.
func TestInsertTasks_SaysWhichTaskIsBad(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	bad := func(shard string) shards.Task {
		return shards.Task{Shard: shard, Task: stint.Task{ID: "bad"}}
	}
	behind := task("2/z")
	behind.After = []shards.ID{{Shard: "1", Task: "a\xff"}}
	for name, tasks := range map[string][]shards.Task{
		"in the part that decides": {
			task("2/a"), task("1/b", "2/a"), task("1/c"), task("1/d"), bad("1"),
		},
		"in another part": {
			task("1/a"), task("1/b"), task("2/c", "1/a"), task("1/d"), bad("2"),
		},
		"in the only part": {task("1/a"), task("1/b"), task("1/c"), task("1/d"), bad("1")},
		"by what it waits for": {
			task("1/a"), task("1/b"), task("2/c", "1/a"), task("1/d"), behind,
		},
	} {
		err := c.InsertTasks(t.Context(), tasks)
		var argument *stint.ArgumentError
		if !errors.As(err, &argument) || argument.Index != 4 ||
			argument.ID != tasks[4].Task.ID || !strings.Contains(err.Error(), "at index 4") {
			t.Errorf("%s: InsertTasks = %v", name, err)
		}
	}
	d.wantNothing(t)
}

// holding is a store that fails to answer placeholders until it is let go. asked gets a value when
// it is to answer the first of them.
type holding struct {
	shards.Store
	asked chan<- bool
	goOn  <-chan bool
}

func (h *holding) AnswerTasks(
	ctx context.Context, actor stint.ActorID, answers []stint.Answer,
) ([]error, error) {
	if !strings.HasPrefix(string(answers[0].ID), "stint.remote/") {
		return h.Store.AnswerTasks(ctx, actor, answers)
	}
	select {
	case h.asked <- true:
		<-h.goOn
		return nil, errAway
	case <-h.goOn:
		return h.Store.AnswerTasks(ctx, actor, answers)
	}
}

// A task that is retried and completed while its abort cannot be told has completed for its
// dependents, even if nothing is kept of it.
//
// Proves G140, G141.
func TestAborts_ARetryWhileTheShardIsAwayIsNotLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	asked, goOn := make(chan bool), make(chan bool)
	d.relay(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := shards.Connect(ctx, shard, url)
		return &holding{store, asked, goOn}, err
	}})
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/a"), task("2/b", "1/a")})
	wantErr(t, "InsertTasks", err, nil)
	d.awaitDecided(t)
	brief, err := stint.New(d.pools["1"], stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepNone},
	})
	wantErr(t, "New", err, nil)
	t.Cleanup(func() {
		wantErr(t, "Close", brief.Close(context.WithoutCancel(t.Context())), nil)
	})
	d.stores["1"] = brief
	d.perform(t, "1/a", stint.Return{Code: stint.StatusAborted})
	<-asked
	_, err = c.RetryTasks(t.Context(), []shards.ID{idOf("1/a")})
	wantErr(t, "RetryTasks", err, nil)
	d.perform(t, "1/a", stint.Return{})
	wantErr(t, "Maintain", d.stores["1"].Maintain(t.Context()), nil)
	close(goOn)
	d.awaitState(t, "2/b", "ready")
}
