package stint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A part of a fetch is extended at a cost that grows with the part.
// Proves G52.
func TestExtendTasksOwnership_CostsWhatIsExtended(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const few, many = 400, 4000
	var each [2]float64
	for i, n := range []int{few, many} {
		store, pool := newStoreAndPool(t, stint.Options{})
		insert(t, store, withDeadlines(n)...)
		owned := own(t, store, n)
		if n == many { // with new statistics, and without
			exec(t, pool, "ANALYZE")
		}
		for _, task := range owned[:3] {
			returnWith(t, store, task, stint.Return{Code: stint.StatusCompleted})
		}
		for part, rest := range [][]stint.OwnedTask{owned[3:], owned[n/2:]} {
			read := pages(t, pool, func(store *stint.Store) {
				kept, err := store.ExtendTasksOwnership(t.Context(), "actor", rest, time.Hour)
				if err != nil || slices.Contains(kept, false) {
					t.Errorf("ExtendTasksOwnership = %v", err)
				}
			})
			each[i] += float64(read) / float64(len(rest)*(part+1))
		}
	}
	t.Logf("%.1f pages for each of %d, %.1f for each of %d", each[0], few, each[1], many)
	if each[1] > 1.5*each[0]+1 {
		t.Errorf("%.1f pages for each of %d, %.1f for each of %d", each[0], few, each[1], many)
	}
}

// A fetch of many actions costs a look at each queue, and what is fetched.
func TestOwnTasks_CostsWhatIsHandedOutOfManyQueues(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const queues, each, wanted, pagesMost = 200, 50, 500, 25
	store, pool := newStoreAndPool(t, stint.Options{})
	var tasks []stint.Task
	var actions []string
	for queue := range queues {
		actions = append(actions, fmt.Sprintf("act%d", queue))
		for i := range each {
			tasks = append(tasks, stint.Task{
				ID: stint.TaskID(fmt.Sprintf("%d-%d", queue, i)), Action: actions[queue],
				Deadline: time.Now().Add(time.Hour),
			})
		}
	}
	insert(t, store, tasks...)
	read := pages(t, pool, func(store *stint.Store) {
		owned, err := store.OwnTasks(t.Context(), "actor", wanted, actions, time.Hour)
		if err != nil || len(owned) != wanted {
			t.Errorf("OwnTasks = %d tasks, %v, want %d", len(owned), err, wanted)
		}
	})
	t.Logf("%d pages", read)
	if read > (queues+wanted)*pagesMost {
		t.Errorf("%d pages, want at most %d for each queue and each task", read, pagesMost)
	}
}

// Statements that are given many rows at once look at each a few times, not at all for each.
// Proves G52.
func TestStatements_LookAtEachOfManyRows(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	few := min(testrun.Rounds(2000), 500)
	many := 5 * few
	byOne := func(t *testing.T, store *stint.Store, n int) {
		t.Helper()
		insert(t, store, numbered("t", n)...)
		for range n {
			ownOne(t, store)
		}
	}
	for name, test := range map[string]struct {
		prepare func(*testing.T, *stint.Store, int)
		change  string // of the rows
		args    string // with the keys of all tasks for $keys
	}{
		"split_ready": {func(t *testing.T, store *stint.Store, n int) {
			t.Helper()
			insert(t, store, numbered("t", n)...)
		}, "SELECT", "'$keys'"},
		"split_changing": {func(t *testing.T, store *stint.Store, n int) {
			t.Helper()
			insert(t, store, numbered("t", n)...)
		}, "SELECT", "'$keys', false, NULL, NULL, 1, false, NULL, 0"},
		"change_tasks": {func(t *testing.T, store *stint.Store, n int) {
			t.Helper()
			insert(t, store, later("act", n)...)
		}, "SELECT", "'$keys', true, NULL, NULL, 1, true, 'k', 7"},
		"expire_session_leases": {byOne, `WITH session AS (
			INSERT INTO stint.sessions (id, grace, watches, topics) VALUES (7, '0', false, '{}'))
			UPDATE stint.leases SET session = 7`, "7, 'actor'"},
		"reclaim_leases": {
			byOne, "UPDATE stint.leases SET deadline = statement_timestamp()",
			"100000, '-infinity', 1000000, true, 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var each [2]float64
			for i, n := range []int{few, many} {
				store, pool := newUncheckedStore(t, stint.Options{})
				test.prepare(t, store, n)
				exec(t, pool, test.change)
				keys := yields[string](t, pool,
					"SELECT array_agg(key ORDER BY key)::text FROM stint.tasks")
				rows := rowsLookedAt(t, pool, name, strings.ReplaceAll(test.args, "$keys", keys))
				each[i] = rows / float64(n)
			}
			t.Logf("%.1f rows for each of %d, %.1f for each of %d", each[0], few, each[1], many)
			if each[0] < 1 || each[1] > 1.5*each[0] {
				t.Errorf("%.1f rows for each of %d, %.1f for each of %d",
					each[0], few, each[1], many)
			}
		})
	}
}

// A page of a few tasks does not unpack all that are in the spans of as many.
func TestListTasks_UnpacksWhatAPageHolds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const spans, each = 10, 1000
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 3*spans*each)...)
	for i := range 2 * spans {
		owned := own(t, store, each)
		if i%2 == 0 {
			verdicts, err := store.ReturnTasks(t.Context(), completed(owned))
			wantErr(t, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
		}
	}
	for name, args := range map[string]string{
		"list_ready":    "0, 10",
		"list_leased":   "0, 10",
		"list_queue":    "'act', -9223372036854775808, 0, 10",
		"list_finished": "'completed', 'infinity', 0, 10",
	} {
		if rows := rowsLookedAt(t, pool, name, args); rows < 10 || rows > 5*each {
			t.Errorf("%s looks at %.0f rows for 10 tasks", name, rows)
		}
	}
}

// rowsLookedAt is how many rows all parts of a statement look at. What it does is undone.
func rowsLookedAt(t *testing.T, pool *pgxpool.Pool, name, args string) float64 {
	t.Helper()
	plan := explained(t, pool, name, args)
	return plan.rows()
}

// explained is what EXPLAIN ANALYZE tells of a statement. What it does is undone.
func explained(t *testing.T, pool *pgxpool.Pool, name, args string) planNode {
	t.Helper()
	tx := begin(t, pool)
	settings := []string{"set_planner"}
	if slices.Contains(freePlans, name) {
		settings = []string{"set_path", "plan_for_all"}
	}
	for _, setting := range settings {
		_, err := tx.Exec(t.Context(), statements(t)[setting])
		wantErr(t, setting, err, nil)
	}
	_, err := tx.Exec(t.Context(), "PREPARE measured AS "+statements(t)[name])
	wantErr(t, name, err, nil)
	if args != "" {
		args = "(" + args + ")"
	}
	var plans []struct{ Plan planNode }
	err = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+
		"EXECUTE measured"+args, pgx.QueryExecModeSimpleProtocol).Scan(&plans)
	wantErr(t, "EXPLAIN", err, nil)
	_, err = tx.Exec(t.Context(), "DEALLOCATE measured")
	wantErr(t, "DEALLOCATE", err, nil)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	return plans[0].Plan
}

// A planNode is a part of what EXPLAIN ANALYZE tells.
type planNode struct {
	Rows  float64 `json:"Actual Rows"`
	Loops float64 `json:"Actual Loops"`
	Plans []planNode
	Table string `json:"Relation Name"`

	// These are means of the loops, as the rows are.
	Filtered float64 `json:"Rows Removed by Filter"`
	Unjoined float64 `json:"Rows Removed by Join Filter"`

	Batches float64 `json:"Hash Batches"`
	// TempWritten is how many pages of temporary files the node and those below it have written.
	TempWritten float64 `json:"Temp Written Blocks"`
}

// rows is how many rows all parts of a plan have looked at.
func (n *planNode) rows() float64 {
	rows := (n.Rows + n.Filtered + n.Unjoined) * n.Loops
	for i := range n.Plans {
		rows += n.Plans[i].rows()
	}
	return rows
}

// looks is how often a plan looks into a table.
func (n *planNode) looks(table string) (looks float64) {
	if n.Table == table {
		looks = n.Loops
	}
	for i := range n.Plans {
		looks += n.Plans[i].looks(table)
	}
	return looks
}

// batches is into how many files the hash join of a plan is cut that is cut into the most.
func (n *planNode) batches() float64 {
	batches := n.Batches
	for i := range n.Plans {
		batches = max(batches, n.Plans[i].batches())
	}
	return batches
}

// An edge from a task that waits for nothing closes no cycle, whatever lies ahead of it.
func TestAddDependencies_LooksAheadOnlyWhereACycleMayClose(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const pagesMost = 300
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("before"), after("root"))
	var fan []stint.Task
	for i := range 3000 {
		fan = append(fan, after(stint.TaskID(fmt.Sprintf("f%d", i)), "root"))
	}
	insert(t, store, fan...)
	for name, add := range map[string]func(*stint.Store) error{
		"AddDependencies": func(store *stint.Store) error {
			return addDependency(t, store, "before", "root")
		},
		"InsertTasks": func(store *stint.Store) error {
			return store.InsertTasks(t.Context(), []stint.Task{{
				ID: "new", Action: "act", After: []stint.TaskID{"before"},
				ToSignalAfter: []stint.TaskID{"root"},
			}})
		},
	} {
		read := pages(t, pool, func(store *stint.Store) { wantErr(t, name, add(store), nil) })
		t.Logf("%s: %d pages", name, read)
		if read > pagesMost {
			t.Errorf("%s reads %d pages, want at most %d", name, read, pagesMost)
		}
	}
	// Now root waits, so that something may wait for it that it waits for.
	wantErr(t, "AddDependencies", addDependency(t, store, "before", "root"), nil)
	wantErr(t, "AddDependencies", addDependency(t, store, "f7", "before"), stint.ErrCycle)
	wantErr(t, "AddDependencies", store.AddDependencies(t.Context(), []stint.Dependency{
		{Predecessor: "new", Dependent: "before"}, {Predecessor: "f7", Dependent: "new"},
	}), stint.ErrTaskNotFound)
	insert(t, store, after("new"))
	wantErr(t, "AddDependencies", store.AddDependencies(t.Context(), []stint.Dependency{
		{Predecessor: "new", Dependent: "before"}, {Predecessor: "f7", Dependent: "new"},
	}), stint.ErrCycle)
}

// What picks few tasks reads few pages, wherever they are among the others.
// Proves G168.
func TestListTasks_ReadsWhatAFilterPicks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const pagesMost = 300
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("many", 5000)...)
	_, err := store.ReturnTasks(t.Context(), completed(own(t, store, 2000)))
	wantErr(t, "ReturnTasks", err, nil)
	insert(t, store, after("b"), stint.Task{ID: "few", Action: "few"},
		stint.Task{ID: "late", Action: "act", NotBefore: time.Now().Add(time.Hour)},
		after("blocked", "b"))
	owned, err := store.OwnTasks(t.Context(), "somebody", 3, []string{"act"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	wantErr(t, "AbortTasks",
		errOf(store.AbortTasks(t.Context(), []stint.TaskID{"many004999"}, "")), nil)
	one := func(state stint.State) []stint.State { return []stint.State{state} }
	for name, test := range map[string]struct {
		filter stint.Filter
		want   int
	}{
		"a prefix":    {stint.Filter{IDPrefix: "b"}, 2},
		"none ahead":  {stint.Filter{IDPrefix: "a"}, 0},
		"none behind": {stint.Filter{IDPrefix: "z"}, 0},
		"in progress": {stint.Filter{States: one(stint.StateInProgress)}, len(owned)},
		"an owner's":  {stint.Filter{Actor: "somebody", States: one(stint.StateInProgress)}, 3},
		"scheduled":   {stint.Filter{States: one(stint.StateScheduled)}, 1},
		"blocked":     {stint.Filter{States: one(stint.StateBlocked)}, 1},
		"aborted":     {stint.Filter{States: one(stint.StateAborted)}, 1},
		"ready, of one": {
			stint.Filter{Actions: []string{"few"}, States: one(stint.StateReady)}, 1,
		},
		"inserted last":  {stint.Filter{NewestFirst: true, Limit: 5}, 5},
		"newest first":   {stint.Filter{States: one(stint.StateCompleted), Limit: 5}, 5},
		"the last owner": {stint.Filter{Actor: "actor", Limit: 5}, 5},
	} {
		read := pages(t, pool, func(store *stint.Store) {
			page, err := store.ListTasks(t.Context(), test.filter)
			if err != nil || len(page.Tasks) != test.want {
				t.Errorf("%s: ListTasks = %d tasks, %v, want %d", name, len(page.Tasks), err,
					test.want)
			}
		})
		if read > pagesMost {
			t.Errorf("%s: %d pages are read, want at most %d", name, read, pagesMost)
		}
	}
}

func TestListTasks_ListsTheNewestFirst(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	another, err := stint.New(pool, stint.Options{})
	wantErr(t, "New", err, nil)
	defer another.Close(context.WithoutCancel(t.Context()))
	var want []stint.TaskID
	for i := range 4 {
		tasks := numbered(fmt.Sprint("n", i, "/"), 100)
		inserting := []*stint.Store{store, another}[i%2]
		insert(t, inserting, tasks...) // which takes new keys
		insert(t, inserting, after(tasks[99].ID+"/last", "n0/000000"))
		for _, task := range tasks {
			want = append(want, task.ID)
		}
		want = append(want, tasks[99].ID+"/last")
	}
	slices.Reverse(want)
	filter := stint.Filter{NewestFirst: true, Limit: 30}
	var got, blocked []stint.TaskID
	for more := true; more; {
		page, err := store.ListTasks(t.Context(), filter)
		wantErr(t, "ListTasks", err, nil)
		for _, info := range page.Tasks {
			got = append(got, info.ID)
		}
		filter.After, more = page.Next, page.Next != ""
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	page, err := store.ListTasks(t.Context(), stint.Filter{
		NewestFirst: true, IDPrefix: "n1/", States: []stint.State{stint.StateBlocked},
	})
	for _, info := range page.Tasks {
		blocked = append(blocked, info.ID)
	}
	if err != nil || !slices.Equal(blocked, []stint.TaskID{"n1/000099/last"}) {
		t.Errorf("of a prefix and a state: %q, %v", blocked, err)
	}
}

// A look at very many tasks is cut, says so, and goes on where it was.
// Proves G168.
func TestListTasks_CutsALongLook(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const lookedMost = 10_000
	store := newStore(t)
	insert(t, store, numbered("many", lookedMost+1)...)
	insert(t, store, stint.Task{ID: "z", Action: "rare"})
	for _, filter := range []stint.Filter{
		{Actions: []string{"rare"}},
		{MaxAge: time.Hour, Actor: "nobody", IDPrefix: "many"},
	} {
		var found, looked int
		pages := 0
		for more := true; more; pages++ {
			page, err := store.ListTasks(t.Context(), filter)
			wantErr(t, "ListTasks", err, nil)
			if page.Looked > lookedMost {
				t.Errorf("a page is of %d tasks", page.Looked)
			}
			found, looked = found+len(page.Tasks), looked+page.Looked
			filter.After, more = page.Next, page.Next != ""
		}
		if want := len(filter.Actions); found != want || looked <= lookedMost || pages > 3 {
			t.Errorf("%d tasks of %d are found on %d pages, want %d", found, looked, pages, want)
		}
	}
}

// A page of tasks with long texts ends before it is too large for a message, and the next one goes
// on where it ended, also where tasks go state by state.
func TestListTasks_EndsAPageOfLongTexts(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const textBytes, pageBytes, aborted, all = 64 << 10, 8 << 20, 300, 320
	store := newStore(t)
	tasks := numbered("long", all)
	insert(t, store, tasks...)
	var ids []stint.TaskID
	for _, task := range tasks[:aborted] {
		ids = append(ids, task.ID)
	}
	_, err := store.AbortTasks(t.Context(), ids, strings.Repeat("s", textBytes))
	wantErr(t, "AbortTasks", err, nil)
	for _, filter := range []stint.Filter{
		{Limit: 10_000},
		{Limit: 150, IDPrefix: "long"},
		{Limit: 10_000, NewestFirst: true},
		{Limit: 10_000, States: []stint.State{stint.StateReady, stint.StateAborted}},
	} {
		name := fmt.Sprintf("%+v", filter)
		seen := map[stint.TaskID]int{}
		for more := true; more; {
			page, err := store.ListTasks(t.Context(), filter)
			wantErr(t, "ListTasks", err, nil)
			size := 0
			for _, info := range page.Tasks {
				size += len(info.Status)
				seen[info.ID]++
			}
			if size > pageBytes || len(page.Tasks) > filter.Limit || len(page.Tasks) == 0 {
				t.Fatalf("%s: a page has %d tasks with %d bytes", name, len(page.Tasks), size)
			}
			filter.After, more = page.Next, page.Next != ""
		}
		for _, task := range tasks {
			if seen[task.ID] != 1 {
				t.Errorf("%s: %s is on %d pages", name, task.ID, seen[task.ID])
			}
		}
	}
}

// Proves G44.
func TestListTasks_ListsParkedTasksAsReady(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	setLimits(t, store, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, keyTask("a", "k"), keyTask("b", "k"), keyTask("c", "k"))
	own(t, store, 3)
	if got := parked(t, store); got != 2 {
		t.Fatalf("%d tasks are parked, want 2", got)
	}
	list, err := listTasks(t.Context(), store, stint.Filter{
		States: []stint.State{stint.StateReady}, Actions: []string{"act"},
	})
	wantErr(t, "ListTasks", err, nil)
	if len(list) != 2 || list[0].State != stint.StateReady {
		t.Errorf("ListTasks = %+v, want two ready tasks", list)
	}
}
