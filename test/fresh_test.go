package stint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// notCompared are what differs between two tasks that are alike: keys, IDs, places and times.
const notCompared = `'{key,lo,hi,id,position,rank,after,run,inserted_at,not_before,body}'`

// everythingOf is all that the tables have of a task, but for what differs in any case.
func everythingOf(t *testing.T, pool *pgxpool.Pool, id stint.TaskID) []string {
	t.Helper()
	key := yields[int64](t, pool, "SELECT key FROM stint.tasks WHERE id = $1", id)
	return everythingUnder(t, pool, key)
}

func everythingUnder(t *testing.T, pool *pgxpool.Pool, key int64) []string {
	t.Helper()
	conditions := map[string]string{
		"key": "$1 = t.key", "lo": "$1 BETWEEN t.lo AND t.hi", "after": "$1 IN (t.after, t.run)",
	}
	var all []string
	for column, condition := range conditions {
		names, err := pool.Query(t.Context(), `SELECT c.table_name::text
			FROM information_schema.columns AS c
			JOIN information_schema.tables AS b USING (table_schema, table_name)
			WHERE c.table_schema = 'stint' AND c.column_name = $1 AND b.table_type = 'BASE TABLE'`,
			column)
		wantErr(t, "Query", err, nil)
		tables, err := pgx.CollectRows(names, pgx.RowTo[string])
		wantErr(t, "CollectRows", err, nil)
		for _, table := range tables {
			rows, err := pool.Query(t.Context(), fmt.Sprintf(
				"SELECT (to_jsonb(t) - %s::text[])::text FROM stint.%s AS t WHERE %s",
				notCompared, table, condition), key)
			wantErr(t, "Query", err, nil)
			found, err := pgx.CollectRows(rows, pgx.RowTo[string])
			wantErr(t, "CollectRows", err, nil)
			for _, row := range found {
				all = append(all, table+" "+row)
			}
		}
	}
	slices.Sort(all)
	return all
}

// worn inserts a task and has it tried twice, with all that tries leave: steps, a status, a log, a
// history, a deadline. It is then ready for its last try.
func worn(t *testing.T, store *stint.Store, id stint.TaskID) {
	t.Helper()
	insert(t, store, stint.Task{
		ID: id, Action: "act", MaxTries: 4, Priority: 9, FailFast: true, PostResult: true,
		Key: "key", Deadline: time.Now().Add(time.Hour),
	})
	for range 2 {
		owned := ownOne(t, store)
		wantErr(t, "RecordStep", errOf(store.RecordStep(t.Context(), owned, "s", nil)), nil)
		wantErr(t, "SetStatus", store.SetStatus(t.Context(), owned, "half", 0.5), nil)
		returnWith(t, store, owned, stint.Return{
			Code: stint.StatusPending, Status: "no", Log: "a line",
		})
	}
}

func newKeepingStore(t *testing.T) (*stint.Store, *pgxpool.Pool) {
	t.Helper()
	return newStoreAndPool(t, stint.Options{
		Maintenance: stint.MaintainNever, History: stint.HistoryOptions{Tries: 10},
	})
}

// newTask is what takes the place of a worn one.
func newTask(id stint.TaskID) stint.Task {
	return stint.Task{
		ID: id, Action: "act", Body: []byte("new"),
		Deadline: time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC),
	}
}

func debounceNew(t *testing.T, store *stint.Store, id stint.TaskID) {
	t.Helper()
	err := store.Debounce(t.Context(), newTask(id), time.Hour, 3*time.Hour)
	wantErr(t, "Debounce", err, nil)
}

func replaceByNew(t *testing.T, store *stint.Store, id stint.TaskID) {
	t.Helper()
	wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), []stint.Task{newTask(id)}), nil)
}

// isFollowed makes a worn task one that waits for another one, which is in progress.
func isFollowed(t *testing.T, store *stint.Store) {
	t.Helper()
	insert(t, store, stint.Task{ID: "a", Action: "act", Priority: 99})
	insert(t, store, stint.Task{ID: "b", Action: "act", Priority: 99})
	own(t, store, 2)
	wantErr(t, "AddDependencies", addDependency(t, store, "a", "a+"), nil)
}

// replacements are ways in which a worn task is replaced by a new one.
var replacements = map[string]struct {
	old, id, fresh stint.TaskID // fresh is the ID of a task that is compared with
	verb           func(*testing.T, *stint.Store, stint.TaskID)
	before         func(*testing.T, *stint.Store)
	keepsKey       bool
}{
	"ReplaceTasks of what is ready": {old: "a", id: "a", fresh: "b", verb: replaceByNew},
	"ReplaceTasks of what is final": {
		old: "a", id: "a", fresh: "b", verb: replaceByNew, before: func(
			t *testing.T, store *stint.Store,
		) {
			t.Helper()
			aborts("a")(t, store)
		},
	},
	"Debounce of what is final": {
		old: "a", id: "a", fresh: "b", verb: debounceNew, before: func(
			t *testing.T, store *stint.Store,
		) {
			t.Helper()
			aborts("a")(t, store)
		},
	},
	"Debounce of what waits for its time": {
		old: "a", id: "a", fresh: "b", verb: debounceNew, before: func(
			t *testing.T, store *stint.Store,
		) {
			t.Helper()
			owned := ownOne(t, store)
			returnWith(t, store, owned, stint.Return{
				Code: stint.StatusPending, RetryAfter: time.Hour,
			})
		},
	},
	"Debounce of a follow-up": {
		old: "a+", id: "a", fresh: "b", verb: debounceNew, before: isFollowed, keepsKey: true,
	},
}

// What takes the ID of a task is a new task. It has nothing of the old one, whatever became of
// that, but for what the verb says; and nothing is left of the old one.
// Proves G10, R5.
func TestReplacement_IsAsNew(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, try := range replacements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newKeepingStore(t)
			worn(t, store, try.old)
			key := yields[int64](t, pool, "SELECT key FROM stint.tasks WHERE id = $1", try.old)
			if try.before != nil {
				try.before(t, store)
			}
			try.verb(t, store, try.id)
			try.verb(t, store, try.fresh)
			fresh := try.fresh + try.old[len(try.id):]
			got, want := everythingOf(t, pool, try.old), everythingOf(t, pool, fresh)
			if !slices.Equal(got, want) {
				t.Errorf("there is\n%q\nof the task, want that of a new one:\n%q", got, want)
			}
			history, err := store.History(t.Context(), try.old)
			if err != nil || len(history.Tries) > 0 {
				t.Errorf("the history is %+v, %v", history, err)
			}
			if try.keepsKey {
				return
			}
			maintain(t, store)
			left := slices.DeleteFunc(everythingUnder(t, pool, key), func(row string) bool {
				return row[:len("finished")] == "finished" // whoever waits for it may ask
			})
			if len(left) > 0 {
				t.Errorf("of the old task there is left %q", left)
			}
		})
	}
}

// A follow-up has all its tries, and its abort takes nothing else with it.
// Proves G10.
func TestDebounce_GivesAFollowUpItsTries(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newKeepingStore(t)
	worn(t, store, "a+")
	insert(t, store, stint.Task{ID: "a", Action: "act", Priority: 99})
	running := ownOne(t, store)
	wantErr(t, "AddDependencies", addDependency(t, store, "a", "a+"), nil)
	task := stint.Task{ID: "a", Action: "act", MaxTries: 3}
	wantErr(t, "Debounce", store.Debounce(t.Context(), task, time.Hour, time.Hour), nil)
	if got := info(t, store, "a+").Tries; got != 0 {
		t.Errorf("the follow-up has had %d tries under another definition", got)
	}
	maintain(t, store)
	aborts("a+")(t, store)
	maintain(t, store)
	wantState(t, store, stint.StateInProgress, "a")
	retry(t, store, "a+")
	wantErr(t, "Debounce", store.Debounce(t.Context(), task, time.Hour, time.Hour), nil)
	complete(t, store, running)
	makeDue(t, pool)
	maintain(t, store)
	for try := 1; try <= 3; try++ {
		owned := ownOne(t, store)
		if owned.ID != "a+" || owned.Try != try {
			t.Errorf("fetched %s, try %d, want try %d", owned.ID, owned.Try, try)
		}
		returnWith(t, store, owned, stint.Return{Code: stint.StatusPending})
	}
	wantState(t, store, stint.StateAborted, "a+")
}

// A retried task begins anew, with what was asked of it, and what its steps returned.
func TestRetryTasks_KeepsWhatWasAskedAndWhatWasDone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newKeepingStore(t)
	worn(t, store, "a")
	insert(t, store, stint.Task{
		ID: "b", Action: "act", MaxTries: 4, Priority: 9, FailFast: true, PostResult: true,
		Key: "key", Deadline: info(t, store, "a").Deadline,
	})
	aborts("a")(t, store)
	aborts("b")(t, store) // never tried
	retry(t, store, "a", "b")
	isOf := func(tables ...string) func(string) bool {
		return func(row string) bool {
			return slices.ContainsFunc(tables, func(table string) bool {
				return len(row) > len(table) && row[:len(table)+1] == table+" "
			})
		}
	}
	got := slices.DeleteFunc(everythingOf(t, pool, "a"), isOf("tries", "steps"))
	if want := everythingOf(t, pool, "b"); !slices.Equal(got, want) {
		t.Errorf("there is\n%q\nof the task, want that of one never tried:\n%q", got, want)
	}
	history, err := store.History(t.Context(), "a")
	if err != nil || len(history.Tries) != 2 {
		t.Errorf("the history is %+v, %v, want two tries", history, err)
	}
}
