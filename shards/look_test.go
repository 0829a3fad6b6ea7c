package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// list returns the tasks of a page, and the shards that are away.
func list(t *testing.T, c *shards.Cluster, filter stint.Filter) (string, shards.TaskPage) {
	t.Helper()
	page, err := c.ListTasks(t.Context(), filter)
	wantErr(t, "ListTasks", err, nil)
	var words []string
	for _, task := range page.Tasks {
		words = append(words, task.Name().String())
	}
	for _, away := range page.Away {
		wantErr(t, "the shard that is away", away, errAway)
		words = append(words, "without "+away.Shard)
	}
	return strings.Join(words, " "), page
}

// Proves G336.
func TestListTasks_GoesThroughAllShardsPageByPage(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	c := d.cluster(t, shards.Options{})
	for _, id := range []string{"1/a", "1/b", "1/c", "2/a", "3/a", "3/b/c"} {
		inserted := task(id)
		if id == "1/c" || id == "3/a" {
			inserted.Task.Key, inserted.Task.Body = "k", []byte(`{"n": 7}`)
		}
		wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{inserted}), nil)
	}
	const all = "1/a 1/b 1/c 2/a 3/a 3/b/c"
	for limit := 1; limit <= 7; limit++ {
		if got := pagesOf(t, c, stint.Filter{}, limit); got != all {
			t.Errorf("pages of %d have %q, want %q", limit, got, all)
		}
	}
	d.perform(t, "3/a", stint.Return{Status: "All done"})
	d.perform(t, "1/a", stint.Return{Status: "done so far", Code: stint.StatusPending})
	ended := []stint.State{stint.StateCompleted}
	for _, test := range []struct {
		filter stint.Filter
		want   string
	}{
		{stint.Filter{}, all},
		{stint.Filter{After: "1/b"}, "1/c 2/a 3/a 3/b/c"},
		{stint.Filter{After: "1/c", Limit: 1}, "2/a"},
		{stint.Filter{IDPrefix: "3/b"}, "3/b/c"},
		{stint.Filter{IDPrefix: "2"}, "2/a"},
		{stint.Filter{IDPrefix: "4"}, ""},
		{stint.Filter{States: ended}, "3/a"},
		{stint.Filter{Key: "k"}, "1/c 3/a"},
		{stint.Filter{Body: "$.n == 7"}, "1/c 3/a"},
		{stint.Filter{Body: "$.n == 7", NewestFirst: true}, "3/a 1/c"},
		{stint.Filter{Body: "$.n == 7", IDPrefix: "1/"}, "1/c"},
		{stint.Filter{Status: "DONE"}, "1/a 3/a"},
		{stint.Filter{Status: "DONE", NewestFirst: true}, "3/a 1/a"},
		{stint.Filter{Status: "all done", States: ended}, "3/a"},
	} {
		if got, _ := list(t, c, test.filter); got != test.want {
			t.Errorf("ListTasks(%+v) = %q, want %q", test.filter, got, test.want)
		}
	}
	for _, test := range []struct {
		filter stint.Filter
		want   error
	}{
		{stint.Filter{After: "1"}, stint.ErrInvalidArgument},
		{stint.Filter{Limit: -1}, stint.ErrInvalidArgument},
		{stint.Filter{Body: "n == 7"}, stint.ErrInvalidArgument},
		{stint.Filter{Status: strings.Repeat("x", 513)}, stint.ErrTooLarge},
		{stint.Filter{IDPrefix: "4/a"}, shards.ErrUnknownShard},
	} {
		_, err := c.ListTasks(t.Context(), test.filter)
		wantErr(t, fmt.Sprintf("ListTasks(%+v)", test.filter), err, test.want)
	}
}

// pagesOf returns the tasks of all pages of a list, each page of which has some at most.
func pagesOf(t *testing.T, c *shards.Cluster, filter stint.Filter, limit int) string {
	t.Helper()
	filter.Limit = limit
	var pages []string
	for {
		got, page := list(t, c, filter)
		if len(page.Tasks) > limit {
			t.Errorf("a page of %d has %d tasks", limit, len(page.Tasks))
		}
		if got != "" {
			pages = append(pages, got)
		}
		if filter.After = page.Next; page.Next == "" {
			return strings.Join(pages, " ")
		}
	}
}

// The tasks of all shards come in one order, wherever a page ends.
func TestListTasks_OrdersTheTasksOfAllShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	c := d.cluster(t, shards.Options{})
	for _, id := range []string{"2/a", "1/a", "1/b", "3/a", "2/b", "1/c", "3/b", "3/c"} {
		insertAll(t, c, id)
	}
	for _, id := range []string{"3/a", "1/c", "2/b", "1/a"} {
		_, err := c.AbortTasks(t.Context(), []shards.ID{idOf(id)}, "")
		wantErr(t, "AbortTasks", err, nil)
	}
	aborted, ready := []stint.State{stint.StateAborted}, []stint.State{stint.StateReady}
	for _, test := range []struct {
		filter stint.Filter
		want   string
	}{
		{stint.Filter{NewestFirst: true}, "3/c 3/b 1/c 2/b 3/a 1/b 1/a 2/a"},
		{stint.Filter{NewestFirst: true, States: ready}, "3/c 3/b 1/b 2/a"},
		{stint.Filter{States: aborted}, "1/a 2/b 1/c 3/a"},
		{stint.Filter{States: append(aborted, ready...)}, "2/a 1/b 3/b 3/c 1/a 2/b 1/c 3/a"},
		{stint.Filter{NewestFirst: true, IDPrefix: "3/"}, "3/c 3/b 3/a"},
	} {
		for limit := 1; limit <= 9; limit++ {
			if got := pagesOf(t, c, test.filter, limit); got != test.want {
				t.Errorf("pages of %d of %+v are %q, want %q", limit, test.filter, got, test.want)
			}
		}
	}
	_, page := list(t, c, stint.Filter{NewestFirst: true, Limit: 2})
	d.away.Store("2", true)
	without, page := list(t, c, stint.Filter{NewestFirst: true, Limit: 2, After: page.Next})
	if want := "1/c 3/a without 2"; without != want {
		t.Errorf("the next page is %q, want %q", without, want)
	}
	d.away.Delete("2")
	if got, _ := list(t, c, stint.Filter{NewestFirst: true, After: page.Next}); got !=
		"2/b 1/b 1/a 2/a" {
		t.Errorf("the page behind it is %q", got)
	}
	for _, after := range []stint.Cursor{"1", "1/x~", "~1/0"} {
		_, err := c.ListTasks(t.Context(), stint.Filter{NewestFirst: true, After: after})
		wantErr(t, fmt.Sprintf("ListTasks after %q", after), err, stint.ErrInvalidArgument)
	}
}

// A network over several shards has other tasks in it, which have no key.
func TestInsertTasks_KeepsKeysOnEveryShard(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	tasks := []shards.Task{task("1/a"), task("2/b", "1/a"), task("2/c")}
	tasks[0].Task.Key, tasks[1].Task.Key = "one", "two"
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
	d.perform(t, "1/a", stint.Return{})
	for _, want := range tasks {
		got, err := d.stores[want.Shard].GetTasks(t.Context(), []stint.TaskID{want.Task.ID})
		if err != nil || got[0].Key != want.Task.Key {
			t.Errorf("GetTasks = %+v, %v, want the key %q", got, err, want.Task.Key)
		}
	}
	for shard, store := range d.stores {
		page, err := store.ListTasks(t.Context(), stint.Filter{})
		wantErr(t, "ListTasks", err, nil)
		for _, info := range page.Tasks {
			if strings.HasPrefix(info.Action, "stint.") && info.Key != "" {
				t.Errorf("on shard %s %q has the key %q", shard, info.ID, info.Key)
			}
		}
	}
}

// Proves G153.
func TestListTasks_NamesAShardThatIsAway(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	c := d.cluster(t, shards.Options{})
	insertAll(t, c, "1/a")
	insertAll(t, c, "3/a")
	d.away.Store("2", true)
	if got, _ := list(t, c, stint.Filter{}); got != "1/a 3/a without 2" {
		t.Errorf("ListTasks lists %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.ListTasks(ctx, stint.Filter{})
	wantErr(t, "ListTasks", err, context.Canceled)
}

// Proves G153.
func TestStats_CountsOnEachShard(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	c := d.cluster(t, shards.Options{})
	insertAll(t, c, "1/a", "1/b")
	insertAll(t, c, "3/a")
	d.away.Store("2", true)
	all, err := c.Stats(t.Context())
	wantErr(t, "Stats", err, nil)
	var got []string
	for _, one := range all {
		for _, a := range one.Actions {
			got = append(got, fmt.Sprintf("%s: %d of %s", one.Shard, a.Ready, a.Action))
		}
		if one.Err != nil {
			var at *shards.ShardError
			wantErr(t, "Stats", one.Err, errAway)
			if !errors.As(one.Err, &at) || at.Shard != one.Shard {
				t.Errorf("shard %s says %v", one.Shard, one.Err)
			}
			got = append(got, one.Shard+" is away")
		}
	}
	if want := "[1: 2 of act 2 is away 3: 1 of act]"; fmt.Sprint(got) != want {
		t.Errorf("Stats = %v, want %s", got, want)
	}
}

func TestWaitForTasks_OfSeveralShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	d.relay(t, shards.Options{})
	tasks := []shards.Task{task("1/a"), task("2/b", "1/a")}
	for i := range tasks {
		tasks[i].Task.PostResult = true
	}
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
	d.perform(t, "1/a", stint.Return{Result: []byte("one")})
	d.perform(t, "2/b", stint.Return{Result: []byte("two")})
	infos, err := c.WaitForTasks(t.Context(), []shards.ID{idOf("2/b"), idOf("1/a")})
	wantErr(t, "WaitForTasks", err, nil)
	if string(infos[0].Result) != "two" || string(infos[1].Result) != "one" {
		t.Errorf("WaitForTasks = %q, %q", infos[0].Result, infos[1].Result)
	}
	_, err = c.WaitForTasks(t.Context(), []shards.ID{idOf("2/b"), idOf("1/none")})
	wantErr(t, "WaitForTasks", err, stint.ErrTaskNotFound)
	_, err = c.WaitForTasks(t.Context(), []shards.ID{idOf("3/b")})
	wantErr(t, "WaitForTasks", err, shards.ErrUnknownShard)
}

// A change is noted on the shards of the tasks that are named.
// Proves G225.
func TestListChanges_TellsWhoHasChangedTasksOfEachShard(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b"), task("2/c"),
	}), nil)
	ctx := stint.WithAuthor(t.Context(), stint.Author{Name: "ann", Reason: "a test"})
	a, b := shards.ID{Shard: "1", Task: "a"}, shards.ID{Shard: "2", Task: "b"}
	_, err := c.AbortTasks(ctx, []shards.ID{a, b}, "")
	wantErr(t, "AbortTasks", err, nil)
	_, err = c.RetryTasks(ctx, []shards.ID{b})
	wantErr(t, "RetryTasks", err, nil)
	_, err = c.DeleteTasks(ctx, []shards.ID{a, b})
	wantErr(t, "DeleteTasks", err, nil)
	for id, want := range map[shards.ID]string{
		a: "DeleteTasks AbortTasks", b: "DeleteTasks RetryTasks AbortTasks",
		{Shard: "2", Task: "c"}: "",
	} {
		page, err := c.ListChanges(t.Context(), id, stint.ChangeFilter{})
		wantErr(t, "ListChanges", err, nil)
		var verbs []string
		for _, change := range page.Changes {
			verbs = append(verbs, change.Verb)
			if change.By != "ann" || change.Reason != "a test" {
				t.Errorf("a change of %v: %+v", id, change)
			}
		}
		if got := strings.Join(verbs, " "); got != want {
			t.Errorf("changes of %v: %q, want %q", id, got, want)
		}
	}
}
