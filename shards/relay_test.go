package shards_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// Ends that are more than one batch are all reported, also if the other shard is away at first.
func TestRelay_ReportsManyEndsOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const pairs, batch = 3500, 1000
	d := newDatabases(t, "1", "2")
	var tasks []shards.Task
	for i := range pairs {
		before := fmt.Sprintf("1/a%d", i)
		tasks = append(tasks, task(before), task(fmt.Sprintf("2/b%d", i), before))
	}
	d.relay(t, shards.Options{})
	err := d.cluster(t, shards.Options{}).InsertTasks(t.Context(), tasks)
	wantErr(t, "InsertTasks", err, nil)
	d.awaitDecided(t)
	d.away.Store("2", true)
	d.complete(t, "1", pairs, batch)
	d.relay(t, shards.Options{})
	d.away.Clear()
	d.complete(t, "2", pairs, batch)
}

// complete performs so many tasks of a shard, none of them twice.
func (d *databases) complete(t *testing.T, shard string, all, batch int) {
	t.Helper()
	done := map[stint.TaskID]bool{}
	for len(done) < all {
		owned, err := d.stores[shard].WaitToOwnTasks(
			t.Context(), "worker", batch, []string{"act"}, time.Hour)
		wantErr(t, "WaitToOwnTasks", err, nil)
		returns := make([]stint.Return, len(owned))
		for i, task := range owned {
			if done[task.ID] {
				t.Errorf("shard %s gave %s twice", shard, task.ID)
			}
			done[task.ID] = true
			returns[i] = stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			}
		}
		verdicts, err := d.stores[shard].ReturnTasks(t.Context(), returns)
		for _, verdict := range verdicts {
			wantErr(t, "ReturnTasks", verdict, nil)
		}
		wantErr(t, "ReturnTasks", err, nil)
	}
}

// A measured store notes how many bytes of results it gives at once.
type measured struct {
	shards.Store
	most *atomic.Int64
}

func (m *measured) Remote() *stint.Remote {
	return m.Store.(interface{ Remote() *stint.Remote }).Remote()
}

func (m *measured) GetTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error) {
	infos, err := m.Store.GetTasks(ctx, ids)
	bytes := int64(0)
	for _, info := range infos {
		bytes += int64(len(info.Result))
	}
	for before := m.most.Load(); bytes > before && !m.most.CompareAndSwap(before, bytes); {
		before = m.most.Load()
	}
	return infos, err
}

// A relay does not hold all results that are to be reported at once.
func TestRelay_HoldsFewResultsAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	const many, each = 12, 4 << 20
	var tasks []shards.Task
	for i := range many {
		before := fmt.Sprintf("1/%d", i)
		tasks = append(tasks, task(before), task(fmt.Sprintf("2/%d", i), before))
	}
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
	for range many {
		owned := d.own(t, "1")
		verdicts, err := d.stores["1"].ReturnTasks(t.Context(), []stint.Return{{
			ID: owned.ID, Token: owned.Token, Code: stint.StatusCompleted,
			Result: make([]byte, each),
		}})
		wantErr(t, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
	}
	most := &atomic.Int64{}
	d.relay(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := shards.Connect(ctx, shard, url)
		return &measured{store, most}, err
	}})
	for i := range many {
		d.awaitState(t, fmt.Sprintf("2/%d", i), "ready")
	}
	if got := most.Load(); got > 4*each {
		t.Errorf("the relay held %d bytes of results at once", got)
	}
}

// A task that takes the ID of one that has ended is not that one.
// Proves G140.
func TestRelay_ReportsTheTaskThatWasWaitedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, again := range map[string]func(t *testing.T, d *databases){
		"is ready": func(*testing.T, *databases) {},
		"was aborted": func(t *testing.T, d *databases) {
			t.Helper()
			d.perform(t, "1/a", stint.Return{Code: stint.StatusAborted})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t, "1", "2")
			c := d.cluster(t, shards.Options{})
			// The one that waits comes first in the call, and so would what reports to it.
			err := c.InsertTasks(t.Context(), []shards.Task{task("2/b", "1/a"), task("1/a")})
			wantErr(t, "InsertTasks", err, nil)
			d.perform(t, "1/a", stint.Return{})
			_, err = c.DeleteTasks(t.Context(), []shards.ID{idOf("1/a")})
			wantErr(t, "DeleteTasks", err, nil)
			insertAll(t, c, "1/a")
			again(t, d)
			d.relay(t, shards.Options{})
			d.perform(t, "2/b", stint.Return{})
		})
	}
}

// What relays obey is inserted by clusters alone.
func TestInsertTasks_RefusesWhatIsTheClustersOwn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	for id, action := range map[stint.TaskID]string{
		"stint.report/mine": "act", "stint.guard/mine": "act", "a": "stint.Guard",
		"b": "stint.Report/2",
	} {
		err := c.InsertTasks(t.Context(), []shards.Task{task("1/fine"), {
			Shard: "2", Task: stint.Task{ID: id, Action: action},
		}})
		var bad *stint.ArgumentError
		if !errors.As(err, &bad) || bad.Index != 1 || !errors.Is(err, stint.ErrInvalidArgument) {
			t.Errorf("InsertTasks of %q with action %q = %v", id, action, err)
		}
	}
	if _, err := c.GetTasks(t.Context(), []shards.ID{idOf("1/fine")}); err == nil {
		t.Error("the other task was inserted")
	}
}

// A retry that another shard refuses, since it would close a cycle there, holds up no other one. It
// takes place when the cycle is gone.
//
// Proves G141.
func TestRelay_GoesOnBehindARefusedRetry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	after := task("2/after", "2/stuck", "2/hold")
	after.Task.OnAbort = stint.RunAnyway
	hold := task("2/hold")
	hold.Task.Action = stint.External
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("1/b"), task("2/before"), task("2/stuck", "1/a", "2/before"), hold, after,
		task("2/free", "1/b"),
	}), nil)
	d.awaitDecided(t)
	for _, pair := range [][2]string{{"1/a", "2/stuck"}, {"1/b", "2/free"}} {
		d.end(t, pair[0], stint.StatusAborted)
		d.awaitState(t, pair[1], "aborted")
	}
	err := c.AddDependencies(t.Context(), []shards.Dependency{on("2/after", "2/before")})
	wantErr(t, "AddDependencies", err, nil)
	_, err = c.RetryTasks(t.Context(), []shards.ID{idOf("1/a"), idOf("1/b")})
	wantErr(t, "RetryTasks", err, nil)
	d.complete(t, "1", 2, 2) // both are reported at once
	d.awaitState(t, "2/free", "ready")
	if got := d.state(t, "2/stuck"); got != "aborted" {
		t.Errorf("2/stuck is %s", got)
	}
	wantErr(t, "AnswerTasks", d.answer(t, "2/hold", stint.StatusCompleted), nil)
	d.end(t, "2/after", stint.StatusCompleted)
	d.end(t, "2/before", stint.StatusCompleted)
	for d.state(t, "2/stuck") == "aborted" { // half a minute passes
		page, err := d.stores["1"].ListTasks(t.Context(), stint.Filter{
			IDPrefix: "stint.report/", States: []stint.State{stint.StateScheduled},
		})
		wantErr(t, "ListTasks", err, nil)
		for _, info := range page.Tasks {
			_, err := d.stores["1"].ChangeTasks(
				t.Context(), []stint.TaskID{info.ID}, stint.TaskChanges{StartNow: true})
			wantErr(t, "ChangeTasks", err, nil)
		}
		<-time.After(10 * time.Millisecond)
	}
	d.awaitState(t, "2/stuck", "ready")
}

// answer answers an external task.
func (d *databases) answer(t *testing.T, id string, code stint.StatusCode) error {
	t.Helper()
	named := idOf(id)
	verdicts, err := d.stores[named.Shard].AnswerTasks(t.Context(), "ann", []stint.Answer{
		{ID: named.Task, Code: code},
	})
	return errors.Join(append(verdicts, err)...)
}

// What is told of a task that has ended is its own end, also if it has left the store, with another
// task of its ID or without, and if the report waited for an insert to be decided, too.
//
// Proves G140, G148.
func TestRelay_TellsTheEndOfATaskThatIsGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	completes := func(t *testing.T, d *databases, id string) {
		t.Helper()
		insertAll(t, d.cluster(t, shards.Options{}), id)
		d.perform(t, id, stint.Return{Result: []byte("new")})
	}
	nothing := func(*testing.T, *databases, string) {}
	for name, test := range map[string]struct {
		code      stint.StatusCode
		isGated   bool
		afterward func(t *testing.T, d *databases, id string)
		want      string
	}{
		"aborted":               {stint.StatusAborted, false, nothing, "aborted"},
		"aborted, gated":        {stint.StatusAborted, true, nothing, "aborted"},
		"aborted, gated, anew":  {stint.StatusAborted, true, completes, "aborted"},
		"skipped":               {stint.StatusSkipped, false, nothing, "skipped"},
		"skipped, gated":        {stint.StatusSkipped, true, nothing, "skipped"},
		"completed, anew":       {stint.StatusCompleted, false, completes, "ready"},
		"completed, gated, too": {stint.StatusCompleted, true, completes, "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t, "1", "2")
			c := d.cluster(t, shards.Options{})
			ask := task("1/a")
			ask.Task.Action = stint.External
			tasks := []shards.Task{task("2/b", "1/a"), task("2/c"), task("2/d")}
			if test.isGated {
				insert(t, c, ask)
			} else {
				tasks = append(tasks, ask)
			}
			insert(t, c, tasks...)
			stop := d.relay(t, shards.Options{})
			d.awaitDecided(t)
			stop()
			wantErr(t, "AnswerTasks", d.answer(t, "1/a", test.code), nil)
			_, err := c.DeleteTasks(t.Context(), []shards.ID{idOf("1/a")})
			wantErr(t, "DeleteTasks", err, nil)
			test.afterward(t, d, "1/a")
			d.relay(t, shards.Options{})
			d.awaitEnded(t, "1", "stint.report/")
			if got := d.state(t, "2/b"); got != test.want {
				t.Errorf("2/b is %s, want %s", got, test.want)
			}
			page, err := d.stores["2"].ListTasks(t.Context(), stint.Filter{
				IDPrefix: "stint.remote/",
			})
			wantErr(t, "ListTasks", err, nil)
			stands, err := d.stores["2"].GetTasks(t.Context(), []stint.TaskID{page.Tasks[0].ID})
			wantErr(t, "GetTasks", err, nil)
			if got := string(stands[0].Result); got != "" {
				t.Errorf("the result is %q, want none", got)
			}
		})
	}
}

func insert(t *testing.T, c *shards.Cluster, tasks ...shards.Task) {
	t.Helper()
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
}

// awaitEnded waits until the tasks of a shard whose IDs begin like this have ended.
func (d *databases) awaitEnded(t *testing.T, shard string, prefix string) {
	t.Helper()
	for open := 1; open > 0; <-time.After(10 * time.Millisecond) {
		page, err := d.stores[shard].ListTasks(t.Context(), stint.Filter{IDPrefix: prefix})
		wantErr(t, "ListTasks", err, nil)
		open = 0
		for _, info := range page.Tasks {
			if info.FinishedAt.IsZero() {
				open++
			}
		}
	}
}
