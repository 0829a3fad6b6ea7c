package stint_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A waitEnding is a way in which the task "w" ends.
type waitEnding struct {
	name string
	opts stint.Options
	// given inserts w and others, and brings them to where end goes on.
	given []stint.Task
	// prepared, unless nil, is done between; it has what it owns.
	prepared func(*testing.T, *stint.Store, *pgxpool.Pool)
	end      func(*testing.T, *stint.Store)
	// want is what the waiter is told, or wantErr.
	want    string
	wantErr error
}

func waited(predecessors ...stint.TaskID) stint.Task {
	return stint.Task{ID: "w", Action: "act", PostResult: true, After: predecessors}
}

// toldOf describes a task that has ended.
func toldOf(info stint.TaskInfo) string {
	return fmt.Sprintf("%s, by %q, %q", describe(info), info.Actor, info.Result)
}

func returnFirst(r stint.Return) func(*testing.T, *stint.Store) {
	return func(t *testing.T, store *stint.Store) {
		t.Helper()
		returnWith(t, store, ownOne(t, store), r)
	}
}

func owns(t *testing.T, store *stint.Store, _ *pgxpool.Pool) {
	t.Helper()
	ownOne(t, store)
}

func ownsUntilExpiry(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
	t.Helper()
	ownOne(t, store)
	expireLeases(t, pool)
}

func passesDeadlines(t *testing.T, _ *stint.Store, pool *pgxpool.Pool) {
	t.Helper()
	passDeadlines(t, pool)
}

func maintains(t *testing.T, store *stint.Store) { t.Helper(); maintain(t, store) }

func replaces(t *testing.T, store *stint.Store) {
	t.Helper()
	successor := waited()
	successor.Body = []byte("another")
	wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), []stint.Task{successor}), nil)
}

func deletes(id stint.TaskID) func(*testing.T, *stint.Store) {
	return func(t *testing.T, store *stint.Store) {
		t.Helper()
		wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), []stint.TaskID{id})), nil)
	}
}

var keepsNone = stint.Options{
	Retention: stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepNone},
}

func waitEndings() []waitEnding { return append(endingsByOwners(), endingsByOthers()...) }

// endingsByOwners are those that the return of a task brings about, w or one ahead of it.
func endingsByOwners() []waitEnding {
	once := waited()
	once.MaxTries = 1
	chord := join("w", "a", "b")
	chord.PostResult = true
	milestone := join("w", "j")
	milestone.PostResult = true
	fine := stint.Return{Code: stint.StatusCompleted, Status: "fine", Result: []byte("r")}
	return []waitEnding{{
		name: "returned completed", given: []stint.Task{waited()}, end: returnFirst(fine),
		want: `w completed try 1 "fine", by "actor", "r"`,
	}, {
		name: "returned completed, kept not at all", given: []stint.Task{waited()},
		opts: keepsNone, end: returnFirst(fine),
		want: `w completed try 1 "fine", by "actor", "r"`,
	}, {
		name: "returned completed at the second try", given: []stint.Task{waited()},
		prepared: func(t *testing.T, store *stint.Store, _ *pgxpool.Pool) {
			t.Helper()
			returnWith(t, store, ownOne(t, store), stint.Return{Code: stint.StatusPending})
		},
		end: returnFirst(fine), want: `w completed try 2 "fine", by "actor", "r"`,
	}, {
		name: "returned aborted", given: []stint.Task{waited()},
		end: returnFirst(stint.Return{
			Code: stint.StatusAborted, Status: "bad", Result: []byte("half"),
		}),
		want: `w aborted/returned try 1 "bad", by "actor", "half"`,
	}, {
		name: "tries exhausted by a return", given: []stint.Task{once},
		end:  returnFirst(stint.Return{Code: stint.StatusPending, Status: "again"}),
		want: `w aborted/tries try 1 "again", by "actor", ""`,
	}, {
		name: "predecessor returned aborted", given: []stint.Task{after("a"), waited("a")},
		end:  returnFirst(stint.Return{Code: stint.StatusAborted}),
		want: `w aborted/dependency, by "", ""`,
	}, {
		name: "end of a chord", given: []stint.Task{after("a"), after("b"), chord},
		prepared: func(t *testing.T, store *stint.Store, _ *pgxpool.Pool) {
			t.Helper()
			finish(t, store, "a", stint.StatusCompleted)
		},
		end:  returnFirst(stint.Return{Code: stint.StatusCompleted}),
		want: `w completed as stint.Spontaneous, by "", ""`,
	}, {
		name:  "end of a cascade",
		given: []stint.Task{after("a"), join("i", "a"), join("j", "i", "a"), milestone},
		end:   returnFirst(stint.Return{Code: stint.StatusCompleted}),
		want:  `w completed as stint.Spontaneous, by "", ""`,
	}}
}

func endingsByOthers() []waitEnding {
	once := waited()
	once.MaxTries = 1
	dated := waited()
	dated.Deadline = time.Now().Add(time.Hour)
	return []waitEnding{{
		name: "tries exhausted by an expiry", given: []stint.Task{once}, prepared: ownsUntilExpiry,
		end: maintains, want: `w aborted/tries try 1 "lease expired on try 1 of 1\n` +
			`its owner actor did not extend it", by "actor", ""`,
	}, {
		name: "cancelled", given: []stint.Task{waited()}, end: aborts("w"),
		want: `w aborted/cancelled "no more", by "", ""`,
	}, {
		name: "cancelled in progress", given: []stint.Task{waited()}, prepared: owns,
		end: aborts("w"), want: `w aborted/cancelled try 1 "no more", by "actor", ""`,
	}, {
		name:  "predecessor cancelled",
		given: []stint.Task{after("a"), after("b", "a"), waited("b")},
		end:   aborts("a"), want: `w aborted/dependency, by "", ""`,
	}, {
		name: "deadline", given: []stint.Task{dated}, prepared: passesDeadlines, end: maintains,
		want: `w aborted/expired, by "", ""`,
	}, {
		name: "replaced", given: []stint.Task{waited()}, end: replaces,
		want: `w aborted/replaced, by "", ""`,
	}, {
		name: "replaced, kept not at all", given: []stint.Task{waited()}, opts: keepsNone,
		end: func(t *testing.T, store *stint.Store) {
			t.Helper()
			replaces(t, store)
			maintain(t, store) // prunes
		},
		want: `w aborted/replaced, by "", ""`,
	}, {
		name: "deleted", given: []stint.Task{waited()}, end: deletes("w"),
		wantErr: stint.ErrTaskNotFound,
	}, {
		name:  "deleted with its predecessor",
		given: []stint.Task{after("a"), after("b", "a"), waited("b")},
		end:   deletes("a"), wantErr: stint.ErrTaskNotFound,
	}}
}

func (e *waitEnding) check(t *testing.T, waiting <-chan outcome[stint.TaskInfo]) {
	t.Helper()
	got, err := ends(t, "WaitForTask", waiting)
	if e.wantErr != nil {
		wantTasks(t, "WaitForTask", err, e.wantErr, "w")
		return
	}
	wantErr(t, "WaitForTask", err, nil)
	if toldOf(got) != e.want {
		t.Errorf("WaitForTask = %s, want %s", toldOf(got), e.want)
	}
	if got.FinishedAt.IsZero() || got.InsertedAt.IsZero() || !got.PostResult {
		t.Errorf("WaitForTask = %+v", got)
	}
}

// forEachEnding runs claim on every way in which a task can end whose turn it is.
func forEachEnding(
	t *testing.T, turn int, opts stint.Options, claim func(*testing.T, waitEnding, *heardStore),
) {
	t.Helper()
	for _, ending := range testrun.Third(waitEndings(), turn) {
		t.Run(ending.name, func(t *testing.T) {
			t.Parallel()
			opts := opts
			opts.Retention = ending.opts.Retention
			h := newHeardStore(t, opts)
			insert(t, h.Store, ending.given...)
			if ending.prepared != nil {
				ending.prepared(t, h.Store, h.pool)
			}
			claim(t, ending, h)
		})
	}
}

// With a poll interval of an hour, only a notification can wake the waiter.
// Proves R19.
func TestWaitForTask_IsNotifiedHoweverTheTaskEnds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	forEachEnding(t, 0, stint.Options{}, func(t *testing.T, e waitEnding, h *heardStore) {
		t.Helper()
		waiting := h.waitFor(t, "w")
		e.end(t, h.Store)
		e.check(t, waiting)
	})
}

// The store that ends the task is another one, as in another process, and inserts nothing else.
// Proves R19.
func TestWaitForTask_IsNotifiedHoweverAnotherStoreEndsTheTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	forEachEnding(t, 1, stint.Options{}, func(t *testing.T, e waitEnding, h *heardStore) {
		t.Helper()
		another := openStore(t, h.pool, stint.Options{
			Maintenance: stint.MaintainNever, Retention: e.opts.Retention,
		})
		waiting := h.waitFor(t, "w")
		e.end(t, another)
		e.check(t, waiting)
	})
}

// Without a session, polling does it.
// Proves R19, R20.
func TestWaitForTask_PollsHoweverTheTaskEnds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	opts := stint.Options{PollOnly: true, PollInterval: 20 * time.Millisecond}
	forEachEnding(t, 2, opts, func(t *testing.T, e waitEnding, h *heardStore) {
		t.Helper()
		waiting := h.waitFor(t, "w")
		e.end(t, h.Store)
		e.check(t, waiting)
	})
}

// A task that ends before the call is told of just as one that ends during it.
func TestWaitForTask_ReturnsAtOnceIfTheTaskHasEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	opts := stint.Options{PollOnly: true, PollInterval: pollNever}
	forEachEnding(t, 0, opts, func(t *testing.T, e waitEnding, h *heardStore) {
		t.Helper()
		if e.want == `w aborted/replaced, by "", ""` {
			return // the ID means the successor by now
		}
		e.end(t, h.Store)
		e.check(t, start(func() (stint.TaskInfo, error) { return h.WaitForTask(t.Context(), "w") }))
	})
}

// What happens in the caller's transaction wakes nobody before its commit, and nobody if it is
// rolled back.
// Proves R21.
func TestWaitForTask_IsNotifiedOfTransactionsWhenTheyCommit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	forEachEnding(t, 2, stint.Options{}, func(t *testing.T, e waitEnding, h *heardStore) {
		t.Helper()
		waiting := h.waitFor(t, "w")
		for _, commit := range []bool{false, true} {
			tx := begin(t, h.pool)
			e.end(t, h.WithTx(tx))
			h.notified(t)
			wantGoingOn(t, "WaitForTask before the commit", waiting)
			if commit {
				wantErr(t, "Commit", tx.Commit(t.Context()), nil)
				break
			}
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
			h.notified(t)
			wantGoingOn(t, "WaitForTask after the rollback", waiting)
		}
		e.check(t, waiting)
	})
}

// notified returns when the store has seen to all notifications sent before: another waiter's goes
// the same way.
func (h *heardStore) notified(t *testing.T) {
	t.Helper()
	n := h.spy.count("waited_tasks")
	id := stint.TaskID(fmt.Sprintf("notified %d", n))
	insert(t, h.Store, stint.Task{ID: id, Action: "none", PostResult: true})
	waiting := h.waitFor(t, id)
	wantErr(t, "AbortTasks", errOf(h.AbortTasks(t.Context(), []stint.TaskID{id}, "")), nil)
	_, err := ends(t, "WaitForTask", waiting)
	wantErr(t, "WaitForTask", err, nil)
	awaitNotifier(h.Store) // others are told later than who waits here
}

func TestWaitForTasks_WaitsForAllAndAnswersInTheOrderAsked(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{})
	tasks := numbered("t", 4)
	for i := range tasks {
		tasks[i].PostResult = true
	}
	insert(t, h.Store, tasks...)
	finish(t, h.Store, tasks[0].ID, stint.StatusCompleted)
	ids := []stint.TaskID{
		tasks[3].ID, tasks[0].ID, tasks[3].ID, tasks[2].ID, tasks[1].ID, tasks[0].ID,
	}
	looked := h.spy.count("waited_tasks")
	waiting := start(func() ([]stint.TaskInfo, error) { return h.WaitForTasks(t.Context(), ids) })
	h.spy.sees(t, "waited_tasks", looked+1)
	for _, task := range tasks[1:] {
		wantGoingOn(t, "WaitForTasks", waiting)
		finish(t, h.Store, task.ID, stint.StatusAborted)
		if task.ID != tasks[3].ID {
			h.notified(t)
		}
	}
	infos, err := ends(t, "WaitForTasks", waiting)
	wantErr(t, "WaitForTasks", err, nil)
	for i, id := range ids {
		want := map[bool]stint.State{true: stint.StateCompleted, false: stint.StateAborted}
		if infos[i].ID != id || infos[i].State != want[id == tasks[0].ID] {
			t.Errorf("WaitForTasks gave %s at %d, want %s", describe(infos[i]), i, id)
		}
	}
	infos, err = h.WaitForTasks(t.Context(), nil)
	if err != nil || len(infos) != 0 {
		t.Errorf("WaitForTasks of nothing = %v, %v", infos, err)
	}
}

// One that is deleted ends the call, though the others still go on.
// Proves R19.
func TestWaitForTasks_EndsWhenOneIsDeleted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{})
	other := waited()
	other.ID = "other"
	insert(t, h.Store, waited(), other)
	looked := h.spy.count("waited_tasks")
	waiting := start(func() ([]stint.TaskInfo, error) {
		return h.WaitForTasks(t.Context(), []stint.TaskID{"other", "w"})
	})
	h.spy.sees(t, "waited_tasks", looked+1)
	wantErr(t, "DeleteTasks", errOf(h.DeleteTasks(t.Context(), []stint.TaskID{"w"})), nil)
	_, err := ends(t, "WaitForTasks", waiting)
	wantTasks(t, "WaitForTasks", err, stint.ErrTaskNotFound, "w")
}

func TestWaitForTasks_NamesAllThatCannotBeWaitedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, waited(), after("silent"), after("quiet"))
	_, err := store.WaitForTasks(t.Context(), []stint.TaskID{"y", "w", "silent", "x", "y"})
	wantTasks(t, "WaitForTasks", err, stint.ErrTaskNotFound, "x", "y")
	_, err = store.WaitForTasks(t.Context(), []stint.TaskID{"silent", "w", "quiet", "silent"})
	wantTasks(t, "WaitForTasks", err, stint.ErrNoPostResult, "quiet", "silent")
	_, err = store.WaitForTask(t.Context(), "x")
	wantTasks(t, "WaitForTask", err, stint.ErrTaskNotFound, "x")
	finish(t, store, "w", stint.StatusCompleted)
	finish(t, store, "silent", stint.StatusCompleted)
	_, err = store.WaitForTask(t.Context(), "silent")
	wantTasks(t, "WaitForTask of a finished one", err, stint.ErrNoPostResult, "silent")
	for _, id := range []stint.TaskID{"", "a\x00b", "\xff"} {
		_, err = store.WaitForTask(t.Context(), id)
		wantErr(t, fmt.Sprintf("WaitForTask(%q)", id), err, stint.ErrInvalidArgument)
	}
}

func TestWaitForTask_IsRefusedInATransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, waited())
	tx := begin(t, pool)
	inside := store.WithTx(tx)
	_, waitErr := inside.WaitForTask(t.Context(), "w")
	_, manyErr := inside.WaitForTasks(t.Context(), []stint.TaskID{"w"})
	_, awaitErr := inside.WaitToOwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
	for call, err := range map[string]error{
		"WaitForTask": waitErr, "WaitForTasks": manyErr, "WaitToOwnTasks": awaitErr,
		"RegisterActor":   inside.RegisterActor(t.Context(), "actor", []string{"act"}),
		"UnregisterActor": inside.UnregisterActor(t.Context(), "actor"),
	} {
		var argument *stint.ArgumentError
		if !errors.As(err, &argument) {
			t.Errorf("%s in a transaction = %v, want an ArgumentError", call, err)
		}
	}
	wantErr(t, "the transaction afterwards", inside.ReturnTask(t.Context(), "w",
		ownOne(t, inside).Token, "", stint.StatusCompleted), nil)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
}

func TestWaitForTask_EndsWithItsContextOrItsStore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	for _, pollOnly := range []bool{false, true} {
		h := newHeardStoreOn(t, pool, stint.Options{PollOnly: pollOnly, PollInterval: pollNever})
		id := stint.TaskID(fmt.Sprintf("w %t", pollOnly))
		insert(t, h.Store, stint.Task{ID: id, Action: "none", PostResult: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting := start(func() (stint.TaskInfo, error) { return h.WaitForTask(ctx, id) })
		awaiting := start(func() ([]stint.OwnedTask, error) {
			return h.WaitToOwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
		})
		lasting := h.waitFor(t, id)
		lastingAwait := h.await(t.Context(), t, 1)
		cancel(errors.New("the cause"))
		_, err := ends(t, "WaitForTask", waiting)
		wantErr(t, "WaitForTask", err, context.Canceled)
		_, err = ends(t, "WaitToOwnTasks", awaiting)
		wantErr(t, "WaitToOwnTasks", err, context.Canceled)
		wantGoingOn(t, "WaitForTask", lasting)
		wantErr(t, "Close", h.Close(t.Context()), nil)
		_, err = ends(t, "WaitForTask", lasting)
		wantErr(t, "WaitForTask", err, stint.ErrClosed)
		_, err = ends(t, "WaitToOwnTasks", lastingAwait)
		wantErr(t, "WaitToOwnTasks", err, stint.ErrClosed)
		_, err = h.WaitForTask(t.Context(), id)
		wantErr(t, "WaitForTask of a closed store", err, stint.ErrClosed)
		_, err = h.WaitForTasks(t.Context(), nil)
		wantErr(t, "WaitForTasks of nothing of a closed store", err, stint.ErrClosed)
		_, err = h.WaitToOwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
		wantErr(t, "WaitToOwnTasks of a closed store", err, stint.ErrClosed)
	}
}

// Any number of waiters share one connection, which is not from the pool, and leave nothing.
// Proves R19.
//
//nolint:paralleltest // looks at all goroutines
func TestWaitForTask_ServesThousandsOfWaiters(t *testing.T) {
	testrun.Long(t)
	const bytesEach = 32 << 10
	waiters := testrun.Rounds(10_000)
	testdb.New(t) // starts the server, which stays
	leaks := goleak.IgnoreCurrent()
	//nolint:paralleltest // the leaks are looked for behind the loop
	for name, taskOf := range map[string]func(i int) stint.TaskID{
		"on one task": func(int) stint.TaskID { return "t000000" },
		"on a task for each": func(i int) stint.TaskID {
			return stint.TaskID(fmt.Sprintf("t%06d", i))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeardStore(t, stint.Options{})
			tasks := numbered("t", waiters)
			for i := range tasks {
				tasks[i].PostResult = true
			}
			insert(t, h.Store, tasks...)
			before := memoryInUse()
			began := time.Now()
			done := make(chan error, waiters)
			for i := range waiters {
				go func() {
					got, err := h.WaitForTask(t.Context(), taskOf(i))
					if err == nil && (got.ID != taskOf(i) || string(got.Result) != string(got.ID)) {
						err = fmt.Errorf("waiter %d is told %s, %q", i, describe(got), got.Result)
					}
					done <- err
				}()
			}
			h.spy.sees(t, "get_tasks", waiters) // each has found its task unfinished
			h.notified(t)
			grown := memoryInUse() - before
			all := yields[int](t, h.pool, "SELECT count(*) FROM pg_stat_activity "+
				"WHERE datname = current_database() AND application_name = 'spied'")
			t.Logf("%d waiters wait after %v, in %d KiB, on %d connections", waiters,
				time.Since(began).Round(time.Millisecond), grown>>10, all)
			if all > 3 {
				t.Errorf("%d connections, want the 2 of the pool and one more", all)
			}
			if grown > waiters*bytesEach {
				t.Errorf("%d bytes, want at most %d for each waiter", grown, bytesEach)
			}
			began = time.Now()
			owned := own(t, h.Store, waiters)
			returns := completed(owned)
			for i := range returns {
				returns[i].Result = []byte(returns[i].ID)
			}
			if _, err := h.ReturnTasks(t.Context(), returns); err != nil {
				t.Fatal(err)
			}
			returned := time.Now()
			for range waiters {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("own and return took %v, the last waiter woke %v later",
				returned.Sub(began).Round(time.Millisecond),
				time.Since(returned).Round(time.Millisecond))
		})
	}
	goleak.VerifyNone(t, leaks)
}

func memoryInUse() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapInuse + stats.StackInuse)
}
