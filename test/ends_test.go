package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// endsTold returns what Ends tells from a cursor on, until there is nothing more, and the next
// cursor.
func endsTold(
	t *testing.T, store *stint.Store, from stint.Cursor, actions ...string,
) (all []stint.TaskInfo, next stint.Cursor) {
	t.Helper()
	for {
		page, err := store.Ends(t.Context(), actions, from, 0)
		wantErr(t, "Ends", err, nil)
		from = page.Next
		if len(page.Tasks) == 0 {
			return all, from
		}
		all = append(all, page.Tasks...)
	}
}

func endedIDs(
	t *testing.T, store *stint.Store, from stint.Cursor, actions ...string,
) (ids []stint.TaskID, next stint.Cursor) {
	t.Helper()
	all, next := endsTold(t, store, from, actions...)
	for _, info := range all {
		ids = append(ids, info.ID)
	}
	return ids, next
}

// returnThem returns tasks, and an error if one of them is refused.
func returnThem(ctx context.Context, store *stint.Store, returns ...stint.Return) error {
	verdicts, err := store.ReturnTasks(ctx, returns)
	return errors.Join(append(verdicts, err)...)
}

// Proves G332.
func TestEnds_TellsWhatEndedInOrderWithResultAndCause(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, stint.Options{})
	ctx := t.Context()
	insert(t, store,
		stint.Task{ID: "a", Action: "act", PostResult: true, Body: []byte("body"), Key: "k"},
		stint.Task{ID: "b", Action: "act"},
		stint.Task{ID: "c", Action: "other", After: []stint.TaskID{"b"}},
		stint.Task{ID: "d", Action: "act"})
	for _, task := range own(t, store, 3) {
		r := stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
		switch task.ID {
		case "a":
			r.Result, r.Status = []byte("result"), "fine"
		case "b":
			r.Code, r.Status = stint.StatusAborted, "broken"
		}
		wantErr(t, "ReturnTasks", returnThem(ctx, store, r), nil)
	}
	all, next := endsTold(t, store, "")
	var told []string
	for _, info := range all {
		told = append(told, fmt.Sprintf("%s %s %q %q %q %q %s", info.ID, info.State,
			info.AbortCause, info.Status, info.Result, info.Body, info.Key))
	}
	want := []string{
		`a completed "" "fine" "result" "" k`, `b aborted "returned" "broken" "" "" `,
		`c aborted "dependency" "" "" "" `, `d completed "" "" "" "" `,
	}
	if !slices.Equal(told, want) {
		t.Errorf("Ends told\n%q, want\n%q", told, want)
	}
	if !slices.IsSortedFunc(all, func(a, b stint.TaskInfo) int {
		return a.FinishedAt.Compare(b.FinishedAt)
	}) {
		t.Errorf("Ends are not in order: %v", told)
	}
	if ids, _ := endedIDs(t, store, "", "other"); !slices.Equal(ids, []stint.TaskID{"c"}) {
		t.Errorf("of one action, Ends told %q", ids)
	}
	if ids, _ := endedIDs(t, store, next); len(ids) > 0 {
		t.Errorf("Ends told %q twice", ids)
	}
	_, err := store.RetryTasks(ctx, []stint.TaskID{"d"})
	wantErr(t, "RetryTasks", err, nil)
	complete(t, store, own(t, store, 1)...)
	if ids, _ := endedIDs(t, store, next); !slices.Equal(ids, []stint.TaskID{"d"}) {
		t.Errorf("after a second end, Ends told %q", ids)
	}
}

// A task that ended earlier in a transaction that commits later is told later, and nothing that
// ended after it is told before.
// Proves G332.
func TestEnds_WaitsForATransactionThatIsStillOpen(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	ctx := t.Context()
	insert(t, store, after("a"), after("b"))
	owned := own(t, store, 2)
	tx, err := pool.Begin(ctx)
	wantErr(t, "Begin", err, nil)
	defer tx.Rollback(context.WithoutCancel(ctx))
	finish := func(store *stint.Store, task stint.OwnedTask) {
		t.Helper()
		wantErr(t, "ReturnTask", store.ReturnTask(
			ctx, task.ID, task.Token, "", stint.StatusCompleted), nil)
	}
	finish(store.WithTx(tx), owned[0])
	finish(store, owned[1])
	ids, next := endedIDs(t, store, "")
	if len(ids) > 0 {
		t.Fatalf("Ends told %q, though an earlier end was not committed", ids)
	}
	page, err := store.Ends(ctx, nil, next, 0)
	wantErr(t, "Ends", err, nil)
	first := yields[time.Time](t, pool, "SELECT min(finished_at) FROM stint.finished")
	if page.Until.After(first) {
		t.Errorf("Ends has come to %v, though a task that ended at %v is to come", page.Until,
			first)
	}
	wantErr(t, "Commit", tx.Commit(ctx), nil)
	want := []stint.TaskID{owned[0].ID, owned[1].ID}
	if ids, _ := endedIDs(t, store, next); !slices.Equal(ids, want) {
		t.Errorf("Ends told %q, want %q", ids, want)
	}
}

// A transaction that has read the clock for its statement, but written nothing yet, is not waited
// for. So what it ends counts as of when it writes.
// Proves G332.
func TestEnds_MissesNothingOfAReturnThatHadToWait(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	ctx := t.Context()
	insert(t, store, after("a"), after("b"))
	owned := own(t, store, 2)
	// The statement waits for this lock before its transaction has a number.
	tx, err := pool.Begin(ctx)
	wantErr(t, "Begin", err, nil)
	defer tx.Rollback(context.WithoutCancel(ctx))
	_, err = tx.Exec(ctx, "LOCK TABLE stint.leased IN EXCLUSIVE MODE")
	wantErr(t, "LOCK", err, nil)
	returned := make(chan error, 1)
	go func() {
		returned <- store.ReturnTask(
			ctx, owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
	}()
	waitForLocks(t, pool, 1)
	waited := yields[time.Time](t, pool, "SELECT clock_timestamp()")
	var next stint.Cursor
	eventually(t, soon, "Ends comes to the present", func() bool {
		page, err := store.Ends(ctx, nil, next, 0)
		wantErr(t, "Ends", err, nil)
		next = page.Next
		return page.Until.After(waited)
	})
	wantErr(t, "Rollback", tx.Rollback(ctx), nil)
	wantErr(t, "ReturnTask", <-returned, nil)
	if ids, _ := endedIDs(t, store, next); !slices.Equal(ids, []stint.TaskID{owned[0].ID}) {
		t.Errorf("Ends told %q, want the task that was returned", ids)
	}
}

// Proves G332.
func TestEnds_RefusesACursorBehindWhichTasksWerePruned(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	ctx := t.Context()
	insert(t, store, after("a"), after("b"))
	complete(t, store, own(t, store, 1)...)
	_, next := endedIDs(t, store, "")
	complete(t, store, own(t, store, 1)...)
	_, last := endedIDs(t, store, next)
	pruner, err := stint.New(pool, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone}, Maintenance: stint.MaintainNever,
	})
	wantErr(t, "New", err, nil)
	pruned, err := pruner.Prune(ctx)
	if wantErr(t, "Prune", err, nil); pruned != 2 {
		t.Fatalf("Prune = %d, want 2", pruned)
	}
	_, err = store.Ends(ctx, nil, next, 0)
	wantErr(t, "Ends", err, stint.ErrEndsPruned)
	for _, from := range []stint.Cursor{last, "", stint.EndsNow} {
		_, err = store.Ends(ctx, nil, from, 0)
		wantErr(t, "Ends", err, nil)
	}
}

// Proves G332.
func TestEnds_CutsPagesAtAThousandTasksAndSomeMegabytes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t, stint.Options{})
	// So that pages end amid spans: inserts, fetches and returns end elsewhere.
	insert(t, store, benchTasks("some", 300)...)
	insert(t, store, benchTasks("many", 2200)...)
	for _, n := range []int{600, 1000, 900} {
		returnAll(t, store, n)
	}
	seen := map[stint.TaskID]int{}
	var from stint.Cursor
	pages := 0
	for ; len(seen) < 2500; pages++ {
		page, err := store.Ends(t.Context(), nil, from, time.Minute)
		wantErr(t, "Ends", err, nil)
		if len(page.Tasks) > 1000 {
			t.Errorf("a page has %d tasks", len(page.Tasks))
		}
		for _, info := range page.Tasks {
			seen[info.ID]++
		}
		from = page.Next
	}
	for id, n := range seen {
		if n > 1 {
			t.Errorf("%s was told %d times", id, n)
		}
	}
	sizes := map[stint.TaskID]int{
		"small": 10, "l": 900 << 10, "m": 900 << 10, "n": 900 << 10,
		"o": 900 << 10, "p": 900 << 10, "large": 1<<20 + 1,
	}
	for id, size := range sizes {
		insert(t, store, stint.Task{ID: id, Action: "act", PostResult: true})
		task := ownOne(t, store)
		wantErr(t, "ReturnTasks", returnThem(t.Context(), store, stint.Return{
			ID: id, Token: task.Token, Code: stint.StatusCompleted, Result: make([]byte, size),
		}), nil)
	}
	for told := 0; told < len(sizes); {
		page, err := store.Ends(t.Context(), nil, from, time.Minute)
		wantErr(t, "Ends", err, nil)
		from = page.Next
		bytes := 0
		for _, info := range page.Tasks {
			told++
			bytes += len(info.Result)
			isLarge := slices.Contains(page.Large, info.ID)
			if want := sizes[info.ID]; isLarge != (want > 1<<20) ||
				!isLarge && len(info.Result) != want {
				t.Errorf("the result of %s has %d bytes, want %d; large: %t",
					info.ID, len(info.Result), want, isLarge)
			}
		}
		if bytes > 5<<20 {
			t.Errorf("a page has %d bytes", bytes)
		}
	}
}

// Proves G332.
func TestEnds_GoesBackWithAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	complete(t, store, own(t, store, 1)...)
	ahead := stint.Cursor(fmt.Sprintf("1/%d/5", time.Now().Add(time.Hour).UnixMicro()))
	if ids, _ := endedIDs(t, store, ahead); !slices.Equal(ids, []stint.TaskID{"a"}) {
		t.Errorf("Ends told %q from a cursor that is ahead of the clock", ids)
	}
}

func TestEnds_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	ctx := t.Context()
	for _, from := range []stint.Cursor{"x", "2/1/1", "1/1", "1/1/x", "1/ 1/1"} {
		_, err := store.Ends(ctx, nil, from, 0)
		wantErr(t, "Ends from "+string(from), err, stint.ErrInvalidArgument)
	}
	_, err := store.Ends(ctx, []string{""}, "", 0)
	wantErr(t, "Ends", err, stint.ErrInvalidArgument)
	_, err = store.Ends(ctx, nil, "", -1)
	wantErr(t, "Ends", err, stint.ErrInvalidArgument)
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := store.WithTx(tx).Ends(ctx, nil, "", 0)
		return err
	})
	wantErr(t, "Ends", err, stint.ErrInvalidArgument)
}

// A call that waits is woken by the end of a task that posts its result, and ends with its context
// or the store.
// Proves G332.
func TestEnds_IsWokenByAnEnd(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{PollInterval: time.Hour})
	ctx := t.Context()
	insert(t, store, stint.Task{ID: "a", Action: "act", PostResult: true})
	page, err := store.Ends(ctx, nil, stint.EndsNow, time.Hour)
	wantErr(t, "Ends", err, nil)
	told := make(chan error, 1)
	go func() {
		page, err := store.Ends(ctx, nil, page.Next, time.Hour)
		if err == nil && (len(page.Tasks) != 1 || page.Tasks[0].ID != "a") {
			err = fmt.Errorf("Ends told %+v", page.Tasks)
		}
		told <- err
	}()
	eventually(t, soon, "the session listens", func() bool {
		return listeners(t, pool, "finished") > 0
	})
	other := openStore(t, pool, stint.Options{})
	complete(t, other, own(t, other, 1)...)
	wantErr(t, "Ends", <-told, nil)

	waiting, cancel := context.WithCancel(ctx)
	go func() {
		_, err := store.Ends(waiting, []string{"other"}, "", time.Hour)
		told <- err
	}()
	cancel()
	wantErr(t, "Ends", <-told, context.Canceled)
	go func() {
		_, err := store.Ends(ctx, []string{"other"}, "", time.Hour)
		told <- err
	}()
	wantErr(t, "Close", store.Close(ctx), nil)
	wantErr(t, "Ends", <-told, stint.ErrClosed)
}

// Many writers end tasks, in short transactions and in long ones, some of which are rolled back; a
// follower is killed again and again and goes on from what it kept. It is told every end at least
// once, and none before it is committed.
// Proves G332.
func TestEnds_TellsEveryEndWhoeverWritesAndWhoeverDies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{PollInterval: 20 * time.Millisecond})
	n := testrun.Rounds(4000)
	var tasks []stint.Task
	for i := range n {
		id := stint.TaskID(fmt.Sprint("t", i))
		tasks = append(tasks, stint.Task{ID: id, Action: "act", PostResult: i%3 == 0})
		if i%5 == 0 {
			tasks = append(tasks, stint.Task{
				ID: id + "/join", Action: stint.Spontaneous, After: []stint.TaskID{id},
			})
		}
	}
	insert(t, store, tasks...)
	writing, written := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() { endTasks(writing, store, pool, stint.ActorID(fmt.Sprint("w", i))) })
	}
	told := map[stint.TaskID]bool{}
	follow(t, store, pool, told, len(tasks))
	written()
	writers.Wait()
	for _, task := range tasks {
		if !told[task.ID] {
			t.Errorf("the end of %s was not told", task.ID)
		}
	}
}

// endTasks owns tasks and ends them, until none is left.
func endTasks(
	ctx context.Context, store *stint.Store, pool *pgxpool.Pool, actor stint.ActorID,
) {
	for ctx.Err() == nil {
		owned, err := store.OwnTasks(ctx, actor, 1+rand.IntN(9), []string{"act"}, time.Hour)
		if err != nil || len(owned) == 0 {
			return
		}
		var returns []stint.Return
		for _, task := range owned {
			r := stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
			if rand.IntN(2) == 0 {
				r.Status = "done"
			}
			returns = append(returns, r)
		}
		for done := false; !done && ctx.Err() == nil; {
			if rand.IntN(2) == 0 {
				done = returnThem(ctx, store, returns...) == nil
				continue
			}
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				err := returnThem(ctx, store.WithTx(tx), returns...)
				_, slept := tx.Exec(ctx, "SELECT pg_sleep($1)", rand.Float64()*rand.Float64()/4)
				if rand.IntN(4) == 0 {
					err = errors.Join(err, pgx.ErrTxClosed)
				}
				return errors.Join(err, slept)
			})
			done = err == nil
		}
	}
}

// follow keeps what Ends tells, and the cursor, until all is told or a minute has told nothing new.
// It dies at random: before it has kept the page, after it has kept only the tasks, and in a call;
// and goes on with another store.
func follow(
	t *testing.T, store *stint.Store, pool *pgxpool.Pool, told map[stint.TaskID]bool, want int,
) {
	t.Helper()
	var cursor stint.Cursor
	for quiet := 0; len(told) < want && quiet < 60; quiet++ {
		ctx, die := context.WithCancel(t.Context())
		if rand.IntN(4) == 0 {
			time.AfterFunc(time.Duration(rand.IntN(30))*time.Millisecond, die)
		}
		if rand.IntN(10) == 0 {
			store = openStore(t, pool, stint.Options{
				PollInterval: 20 * time.Millisecond, Maintenance: stint.MaintainNever,
			})
		}
		page, err := store.Ends(ctx, nil, cursor, time.Second)
		isDead := ctx.Err() != nil
		die()
		if isDead {
			continue
		}
		wantErr(t, "Ends", err, nil)
		if rand.IntN(5) == 0 {
			continue
		}
		for _, info := range page.Tasks {
			if !told[info.ID] {
				quiet = 0
			}
			told[info.ID] = true
		}
		wantCommitted(t, pool, page)
		if rand.IntN(5) > 0 {
			cursor = page.Next
		}
	}
}

// wantCommitted checks that others see that the tasks of a page have ended.
func wantCommitted(t *testing.T, pool *pgxpool.Pool, page stint.EndPage) {
	t.Helper()
	var ids []string
	for _, info := range page.Tasks {
		ids = append(ids, string(info.ID))
	}
	if got := yields[int](t, pool, "SELECT count(*) FROM stint.task_states "+
		"WHERE id = ANY ($1) AND state >= 10", ids); got != len(ids) {
		t.Errorf("%d of %d tasks have ended that Ends told", got, len(ids))
	}
}
