package stint_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// keyed gives keys to tasks, in turn; the empty one is none.
func keyed(tasks []stint.Task, keys ...string) []stint.Task {
	for i := range tasks {
		tasks[i].Key = keys[i%len(keys)]
	}
	return tasks
}

// wantKeys checks that each task has its key, in whichever way one looks.
func wantKeys(t *testing.T, store *stint.Store, tasks []stint.Task) {
	t.Helper()
	want := map[stint.TaskID]string{}
	for _, task := range tasks {
		want[task.ID] = task.Key
	}
	infos, err := store.GetTasks(t.Context(), named(tasks))
	wantErr(t, "GetTasks", err, nil)
	page, err := store.ListTasks(t.Context(), stint.Filter{Limit: 10_000})
	wantErr(t, "ListTasks", err, nil)
	if len(infos) != len(tasks) || len(page.Tasks) < len(tasks) {
		t.Errorf("%d and %d tasks are found, want %d", len(infos), len(page.Tasks), len(tasks))
	}
	for _, info := range slices.Concat(infos, page.Tasks) {
		if key, ok := want[info.ID]; ok && info.Key != key {
			t.Errorf("%q has the key %q, want %q", info.ID, info.Key, key)
		}
	}
}

func TestTaskKey_IsKeptHoweverTheTaskIsInserted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	linked := func(prefix string, n int) []stint.Task {
		tasks := numbered(prefix, n)
		for i := 1; i < n; i++ {
			tasks[i].After = []stint.TaskID{tasks[i/2].ID}
		}
		return tasks
	}
	later := numbered("later", 4)
	later[0].NotBefore, later[1].NotBefore = time.Now().Add(time.Hour), time.Now().Add(time.Hour)
	for _, tasks := range [][]stint.Task{
		numbered("alone", 1), // in one statement with those of others
		numbered("few", 5), numbered("many", 200), later,
		linked("network", 10), linked("large network", 200),
		{after("behind", "few000000"), after("too", "few000000")},
		append(numbered("stored", 100), after("last", "few000000")),
	} {
		insert(t, store, keyed(tasks, "a", "b", "")...)
		wantKeys(t, store, tasks)
	}
	streamed := keyed(numbered("streamed", 100), "a", "b", "")
	_, err := store.InsertTasksFrom(t.Context(), stream(streamed, nil))
	wantErr(t, "InsertTasksFrom", err, nil)
	wantKeys(t, store, streamed)
	for _, n := range []int{1, 5, 200} {
		replacing := keyed(numbered("many", n), "new", "")
		wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), replacing), nil)
		wantKeys(t, store, replacing)
	}
	tx := begin(t, pool)
	inside := keyed(numbered("inside", 1), "a")
	insert(t, store.WithTx(tx), inside...)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantKeys(t, store, inside)
}

func TestTaskKey_IsToldByEveryLook(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	first, second := after("first"), after("second", "first")
	first.Key, second.Key = "a", "b"
	insert(t, store, first, second)
	why, err := store.Explain(t.Context(), "second")
	if err != nil || why.Task.Key != "b" || len(why.WaitsFor) != 1 || why.WaitsFor[0].Key != "a" {
		t.Errorf("Explain = %+v, %v", why, err)
	}
	graph, err := store.Graph(t.Context(), "first")
	if err != nil || len(graph.Tasks) != 2 || graph.Tasks[0].Key != "a" ||
		graph.Tasks[1].Key != "b" {
		t.Errorf("Graph = %+v, %v", graph, err)
	}
	finish(t, store, "first", stint.StatusAborted)
	retry(t, store, "first")
	ownOne(t, store)
	problems, err := store.Problems(t.Context(), 10)
	if err != nil || len(problems.Slow) != 1 || problems.Slow[0].Key != "a" {
		t.Errorf("Problems = %+v, %v", problems, err)
	}
	got := yields[string](t, pool, "SELECT string_agg(limit_key, ' ' ORDER BY id) FROM stint.tasks")
	if got != "a b" {
		t.Errorf("the table has the keys %s", got)
	}
}

// readySpans returns the sizes of the spans that are ready, and their keys if these are known.
func readySpans(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return yields[string](t, pool, `SELECT coalesce(string_agg(
			(hi - lo + 1)::text || coalesce(limit_key, '?'), ' ' ORDER BY lo), '')
		FROM stint.ready`)
}

// Spans of mixed keys stay whole, in the order of the call, and a span of one key knows it.
func TestTaskKey_DividesNoSpan(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const size = 10
	blocks := func(keys ...string) iter.Seq[string] { // of a span each
		return func(yield func(string) bool) {
			for _, key := range keys {
				for range size {
					if !yield(key) {
						return
					}
				}
			}
		}
	}
	for name, test := range map[string]struct {
		keys []string
		want string
	}{
		"none":           {[]string{""}, strings.Repeat("10? ", 16)},
		"one":            {[]string{"k"}, strings.Repeat("10k ", 16)},
		"two in turn":    {[]string{"k", "l"}, strings.Repeat("10? ", 16)},
		"one in ten":     {append(make([]string, 9), "k"), strings.Repeat("10? ", 16)},
		"nine in ten":    {append(slices.Repeat([]string{"k"}, 9), ""), strings.Repeat("10? ", 16)},
		"one at the end": {append(make([]string, 159), "k"), strings.Repeat("10? ", 16)},
		"two and none": {
			slices.Collect(blocks("k", "l", "")), strings.Repeat("10k 10l 10? ", 5) + "10k ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			tasks := keyed(numbered("t", 16*size), test.keys...)
			insert(t, store, tasks...)
			if got := readySpans(t, pool) + " "; got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			var got []stint.TaskID
			for _, task := range own(t, store, len(tasks)) {
				got = append(got, task.ID)
			}
			if !slices.Equal(got, named(tasks)) {
				t.Errorf("the tasks are fetched in the order %q", got)
			}
		})
	}
}

func TestTaskKey_IsKnownOfTasksThatAreAloneInTheirSpans(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, keyed(numbered("alone", 1), "k")...)
	insert(t, store, keyed(numbered("few", 3), "k", "", "l")...)
	tasks := keyed(numbered("many", 100), "m")
	for i := range tasks {
		tasks[i].Deadline = time.Now().Add(time.Hour)
	}
	insert(t, store, tasks...)
	want := "1k 1k 1? 1l " + strings.TrimSpace(strings.Repeat("1m ", 100))
	if got := readySpans(t, pool); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Tasks of several callers become spans as those of one do.
func TestTaskKey_DividesNoSpanOfSeveralCallers(t *testing.T) {
	t.Parallel()
	_, pool := newStoreAndPool(t, stint.Options{})
	k, l := "k", "l"
	for block, limitKeys := range [][]*string{
		nil, {&k, &k, &k, &k}, {&k, &k, &l, &k}, {&k, &k, nil, &k},
	} {
		const n = 4
		ids, numbers := make([]string, n), make([]int64, n)
		for i := range n {
			numbers[i] = int64((block+1)<<10 + i)
			ids[i] = fmt.Sprint("task ", numbers[i])
		}
		exec(t, pool, statements(t)["insert_separately"], ids, slices.Repeat([]string{"act"}, n),
			make([][]byte, n), make([]int16, n), make([]int32, n), make([]*time.Time, n),
			make([]int16, n), make([]bool, n), numbers, limitKeys, nil,
			nil)
	}
	if got, want := readySpans(t, pool), "4? 4k 4? 4?"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got := yields[string](t, pool, "SELECT string_agg(coalesce(limit_key, '-'), '' ORDER BY key) "+
		"FROM stint.tasks")
	if want := "----kkkkkklkkk-k"; got != want {
		t.Errorf("the tasks have the keys %s, want %s", got, want)
	}
}

func TestTaskKey_NamesTheFieldIfItIsRefused(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for text, want := range map[string]error{
		strings.Repeat("k", 256): stint.ErrTooLarge,
		"\xff":                   stint.ErrInvalidArgument,
		"a\x00":                  stint.ErrInvalidArgument,
	} {
		err := store.InsertTasks(t.Context(), []stint.Task{{Action: "act", Key: text}})
		var refused *stint.ArgumentError
		if !errors.Is(err, want) || !errors.As(err, &refused) || refused.Index != 0 ||
			!strings.HasPrefix(refused.Argument, "Task.Key") {
			t.Errorf("InsertTasks with the key %q = %v", text, err)
		}
	}
}

func TestListTasks_PicksAKeyPageByPage(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, keyed(numbered("t", 300), "a", "", "b")...)
	insert(t, store, stint.Task{ID: "other", Action: "other", Key: "a"})
	complete(t, store, own(t, store, 30)...)
	completed := []stint.State{stint.StateCompleted}
	for name, test := range map[string]struct {
		filter stint.Filter
		want   int
	}{
		"alone":        {stint.Filter{Key: "a"}, 101},
		"unknown":      {stint.Filter{Key: "A"}, 0},
		"a beginning":  {stint.Filter{IDPrefix: "t00000", Key: "b"}, 3},
		"an action":    {stint.Filter{Actions: []string{"other"}, Key: "a"}, 1},
		"another":      {stint.Filter{Actions: []string{"other"}, Key: "b"}, 0},
		"a state":      {stint.Filter{States: completed, Key: "b"}, 10},
		"an actor":     {stint.Filter{Actor: "actor", Key: "a"}, 10},
		"newest first": {stint.Filter{NewestFirst: true, Key: "a"}, 101},
		"young":        {stint.Filter{MaxAge: time.Hour, Key: "a"}, 101},
		"old":          {stint.Filter{MinAge: time.Hour, Key: "a"}, 0},
	} {
		filter := test.filter
		filter.Limit = 7
		seen := map[stint.TaskID]bool{}
		for more := true; more; {
			page, err := store.ListTasks(t.Context(), filter)
			wantErr(t, name, err, nil)
			for _, task := range page.Tasks {
				if seen[task.ID] || task.Key != filter.Key {
					t.Errorf("%s: %q with the key %q", name, task.ID, task.Key)
				}
				seen[task.ID] = true
			}
			filter.After, more = page.Next, page.Next != ""
		}
		if len(seen) != test.want {
			t.Errorf("%s: %d tasks, want %d", name, len(seen), test.want)
		}
	}
}
