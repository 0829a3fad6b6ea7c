package stint_test

import (
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

// debounced is a task with the ID a, told from others by its body.
func debounced(body string) stint.Task {
	return stint.Task{ID: "a", Action: "act", Body: []byte(body)}
}

// debounce calls for a task that starts an hour after the last call and three after the first.
func debounce(t *testing.T, store *stint.Store, body string) {
	t.Helper()
	err := store.Debounce(t.Context(), debounced(body), time.Hour, 3*time.Hour)
	wantErr(t, "Debounce", err, nil)
}

// age lets time pass for the tasks that have not started.
func age(t *testing.T, pool *pgxpool.Pool, by string) {
	t.Helper()
	exec(t, pool, "UPDATE stint.tasks SET inserted_at = inserted_at - $1::interval", by)
	exec(t, pool, "UPDATE stint.scheduled SET not_before = not_before - $1::interval", by)
	exec(t, pool, "UPDATE stint.blocked SET not_before = not_before - $1::interval", by)
}

// wantBodies checks which tasks there are, in the order of their IDs.
func wantBodies(t *testing.T, store *stint.Store, pool *pgxpool.Pool, want string) {
	t.Helper()
	infos, err := listTasks(t.Context(), store, stint.Filter{})
	wantErr(t, "ListTasks", err, nil)
	var got []string
	for _, info := range infos {
		body := yields[string](t, pool,
			"SELECT convert_from(body, 'UTF8') FROM stint.tasks WHERE id = $1", info.ID)
		got = append(got, fmt.Sprintf("%s %s", describe(info), body))
	}
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("the tasks are %s, want %s", text, want)
	}
	checkStore(t, pool)
}

// ownBodies owns what is ready, in order.
func ownBodies(t *testing.T, store *stint.Store) []string {
	t.Helper()
	owned, err := store.OwnTasks(t.Context(), "actor", 100, []string{"act"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	bodies := make([]string, len(owned))
	for i, task := range owned {
		bodies[i] = string(task.Body)
	}
	return bodies
}

// Proves G9.
func TestDebounce_StartsQuietAfterTheLastCall(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	debounce(t, store, "1")
	first := info(t, store, "a")
	wantTime(t, "InsertedAt", first.InsertedAt, 0)
	if got := first.NotBefore.Sub(first.InsertedAt); got != time.Hour {
		t.Errorf("it starts %s after the call", got)
	}
	age(t, pool, "45 min")
	debounce(t, store, "2")
	second := info(t, store, "a")
	wantTime(t, "NotBefore", second.NotBefore, time.Hour)
	if got := second.InsertedAt.Sub(first.InsertedAt); got != -45*time.Minute {
		t.Errorf("its first call was %s after the first", got)
	}
	wantBodies(t, store, pool, "a scheduled 2")
}

// Proves G9.
func TestDebounce_StartsAtMostThatLongAfterTheFirstCall(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	debounce(t, store, "0")
	for call := range 6 { // one each 29 minutes
		age(t, pool, "29 min")
		debounce(t, store, fmt.Sprint(call+1))
	}
	got := info(t, store, "a")
	if start := got.NotBefore.Sub(got.InsertedAt); start != 3*time.Hour {
		t.Errorf("it starts %s after the first call", start)
	}
	age(t, pool, "29 min")
	debounce(t, store, "at last")
	wantBodies(t, store, pool, "a ready at last")
}

func TestDebounce_LeavesAReadyTaskItsPlaceInTheQueue(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	tasks := numbered("t", 98) // one span
	tasks[50].ID = "a"
	insert(t, store, tasks...)
	insert(t, store, stint.Task{ID: "y", Action: "act", Body: []byte("y")})
	insert(t, store, stint.Task{ID: "z", Action: "act", Body: []byte("z")})
	for _, body := range []string{"older", "newest"} {
		debounce(t, store, body)
	}
	ahead := own(t, store, 98)
	if !slices.ContainsFunc(ahead, func(task stint.OwnedTask) bool {
		return task.ID == "a" && string(task.Body) == "newest"
	}) {
		t.Errorf("the first 98 are %v", idsOf(ahead))
	}
	if got := ownBodies(t, store); !slices.Equal(got, []string{"y", "z"}) {
		t.Errorf("the others are %v", got)
	}
}

func TestDebounce_ReplacesATaskThatIsParked(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"below a limit": {ConcurrencyPerKey: 1}, "in turns": {Fair: true, ConcurrencyPerKey: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
			insert(t, store, stint.Task{ID: "x", Action: "act", Key: "k"},
				stint.Task{ID: "a", Action: "act", Key: "k"})
			running := own(t, store, 2)
			if len(running) != 1 || running[0].ID != "x" {
				t.Fatalf("OwnTasks = %v", idsOf(running))
			}
			task := debounced("new")
			task.Key = "k"
			err := store.Debounce(t.Context(), task, time.Hour, time.Hour)
			wantErr(t, "Debounce", err, nil)
			if got := ownBodies(t, store); len(got) != 0 {
				t.Errorf("OwnTasks above the limit = %v", got)
			}
			complete(t, store, running[0])
			if got := ownBodies(t, store); len(got) != 1 || got[0] != "new" {
				t.Errorf("OwnTasks = %v", got)
			}
		})
	}
}

func TestDebounce_RunsOneTaskMoreAfterOneInProgress(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, code := range []stint.StatusCode{stint.StatusCompleted, stint.StatusAborted} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, debounced("0"))
			running := ownOne(t, store)
			debounce(t, store, "1")
			first := info(t, store, "a+")
			debounce(t, store, "2")
			wantBodies(t, store, pool, "a in-progress try 1 0, a+ blocked 2")
			if got := info(t, store, "a+").InsertedAt; !got.Equal(first.InsertedAt) {
				t.Errorf("the first call was at %s, now at %s", first.InsertedAt, got)
			}
			returnWith(t, store, running, stint.Return{Code: code})
			wantState(t, store, stint.StateScheduled, "a+")
			age(t, pool, "2 h 30 min")
			debounce(t, store, "3") // under the ID again
			got := info(t, store, "a")
			if start := got.NotBefore.Sub(got.InsertedAt); start != 3*time.Hour {
				t.Errorf("it starts %s after the first call", start)
			}
			wantBodies(t, store, pool, "a scheduled 3")
		})
	}
}

// A flood of calls must not keep the owner from returning the task.
// Proves G11.
func TestDebounce_LeavesTheEdgeOfAFollowUpAsItIs(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, debounced("0"))
	running := ownOne(t, store)
	debounce(t, store, "1")
	const rows = "SELECT (SELECT string_agg(ctid::text, ',') FROM stint.leased) || " +
		"(SELECT string_agg(ctid::text, ',') FROM stint.edges)"
	before := yields[string](t, pool, rows)
	task := debounced("2")
	task.Deadline = time.Now().Add(100 * time.Hour)
	for range 2 {
		err := store.Debounce(t.Context(), task, time.Hour, 3*time.Hour)
		wantErr(t, "Debounce", err, nil)
	}
	if after := yields[string](t, pool, rows); after != before {
		t.Errorf("the rows were at %s, now at %s", before, after)
	}
	complete(t, store, running)
	wantBodies(t, store, pool, "a completed try 1 0, a+ scheduled 2")
}

func TestDebounce_RunsAfterAFollowUpInProgress(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, debounced("0"))
	running := ownOne(t, store)
	debounce(t, store, "1")
	complete(t, store, running)
	makeDue(t, pool)
	running = ownOne(t, store)
	for _, body := range []string{"2", "3"} {
		debounce(t, store, body)
		wantBodies(t, store, pool, "a blocked "+body+", a+ in-progress try 1 1")
	}
	complete(t, store, running)
	makeDue(t, pool)
	running = ownOne(t, store)
	debounce(t, store, "4")
	wantBodies(t, store, pool, "a in-progress try 1 3, a+ blocked 4")
	complete(t, store, running)
	makeDue(t, pool)
	if got := ownBodies(t, store); len(got) != 1 || got[0] != "4" {
		t.Errorf("OwnTasks = %v", got)
	}
}

func TestDebounce_RefusesWhenTasksOfBothIDsAreInProgress(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "a+", Action: "act"})
	own(t, store, 2)
	err := store.Debounce(t.Context(), debounced("1"), time.Hour, time.Hour)
	wantTasks(t, "Debounce", err, stint.ErrTaskInProgress, "a", "a+")
}

func TestDebounce_ReplacesAFinishedTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newStoreAndPool(t, stint.Options{})
	spied, spy := spyOn(t, pool, 4)
	store := openStore(t, spied, stint.Options{})
	insert(t, store, debounced("0"))
	complete(t, store, ownOne(t, store))
	age(t, pool, "10 h")
	task := debounced("1")
	task.PostResult = true
	wantErr(t, "Debounce",
		store.Debounce(t.Context(), task, time.Hour, 3*time.Hour), nil)
	wantBodies(t, store, pool, "a scheduled 1")
	wantTime(t, "NotBefore", info(t, store, "a").NotBefore, time.Hour)
	waiting := start(func() (stint.TaskInfo, error) {
		return store.WaitForTask(t.Context(), "a")
	})
	spy.sees(t, "waited_tasks", 1)
	debounce(t, store, "2")
	got, err := ends(t, "WaitForTask", waiting)
	if err != nil || got.AbortCause != stint.CauseReplaced {
		t.Errorf("WaitForTask = %+v, %v", got, err)
	}
}

func TestDebounce_LeavesATaskTheTimeOfItsNextTry(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, debounced("0"))
	running := ownOne(t, store)
	debounce(t, store, "1")
	returnWith(t, store, running,
		stint.Return{Code: stint.StatusPending, RetryAfter: 10 * time.Hour})
	retryAt := info(t, store, "a").NotBefore
	debounce(t, store, "2")
	if got := info(t, store, "a").NotBefore; !got.Equal(retryAt) {
		t.Errorf("it starts at %s, want %s", got, retryAt)
	}
	wantBodies(t, store, pool, "a scheduled 2")
}

func TestDebounce_TakesATaskFromALateOwner(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, debounced("0"))
	running := ownOne(t, store)
	debounce(t, store, "1")
	expireLeases(t, pool)
	maintain(t, store)
	debounce(t, store, "2")
	err := store.ReturnTask(t.Context(), "a", running.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask of a late owner", err, stint.ErrInvalidToken)
	wantBodies(t, store, pool, "a ready 2")
}

func TestDebounce_IsUndoneWithTheCallersTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, debounced("0"))
	for _, state := range []string{"a ready 0", "a in-progress try 1 0"} {
		tx := begin(t, pool)
		debounce(t, store.WithTx(tx), "1")
		debounce(t, store.WithTx(tx), "2")
		wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
		wantBodies(t, store, pool, state)
		if state == "a ready 0" {
			ownOne(t, store)
		}
	}
	tx := begin(t, pool)
	debounce(t, store.WithTx(tx), "1")
	debounce(t, store.WithTx(tx), "2")
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantBodies(t, store, pool, "a in-progress try 1 0, a+ blocked 2")
}

func TestDebounce_TakesItsTimesFromTheCallAndNotFromTheTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	tx := begin(t, pool)
	exec(t, pool, "SELECT 1") // the database's clock has gone on
	before := yields[time.Time](t, pool, "SELECT clock_timestamp()")
	debounce(t, store.WithTx(tx), "1")
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	if got := info(t, store, "a").InsertedAt; got.Before(before) {
		t.Errorf("the call at %s is taken to be at %s", before, got)
	}
}

// A snapshot that is older than what others did must not decide.
func TestDebounce_FailsInAStrictTransactionThatCannotSeeWhatOthersDid(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, before := range map[string]func(*testing.T, *stint.Store){
		"new": func(*testing.T, *stint.Store) {},
		"scheduled": func(t *testing.T, store *stint.Store) {
			t.Helper()
			debounce(t, store, "0")
		},
		"in progress": startA,
		"follow-up": func(t *testing.T, store *stint.Store) {
			t.Helper()
			startA(t, store)
			debounce(t, store, "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			before(t, store)
			tx := beginStrict(t, pool, pgx.RepeatableRead)
			debounce(t, store, "2")
			err := store.WithTx(tx).Debounce(
				t.Context(), debounced("3"), time.Hour, time.Hour)
			if !isSerializationFailure(err) {
				t.Errorf("Debounce = %v, want a serialization failure", err)
			}
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
			debounce(t, store, "4")
		})
	}
}

func startA(t *testing.T, store *stint.Store) {
	t.Helper()
	insert(t, store, debounced("0"))
	ownOne(t, store)
}

func TestDebounce_RefusesBadInput(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for argument, change := range map[string]func(*stint.Task) (quiet, atMost time.Duration){
		"Task.ID": func(task *stint.Task) (time.Duration, time.Duration) {
			task.ID = ""
			return 1, 1
		},
		"Task.ID bytes": func(task *stint.Task) (time.Duration, time.Duration) {
			task.ID = stint.TaskID(strings.Repeat("a", 512))
			return 1, 1
		},
		"Task.Action": func(task *stint.Task) (time.Duration, time.Duration) {
			task.Action = stint.Spontaneous
			return 1, 1
		},
		"Task.NotBefore": func(task *stint.Task) (time.Duration, time.Duration) {
			task.NotBefore = time.Now()
			return 1, 1
		},
		"Task.After": func(task *stint.Task) (time.Duration, time.Duration) {
			task.After = []stint.TaskID{"b"}
			return 1, 1
		},
		"Task.ToSignalAfter": func(task *stint.Task) (time.Duration, time.Duration) {
			task.ToSignalAfter = []stint.TaskID{"b"}
			return 1, 1
		},
		"quiet":  func(*stint.Task) (time.Duration, time.Duration) { return 0, 1 },
		"atMost": func(*stint.Task) (time.Duration, time.Duration) { return 2, 1 },
	} {
		task := debounced("1")
		quiet, atMost := change(&task)
		err := store.Debounce(t.Context(), task, quiet, atMost)
		wantArgument(t, "Debounce", err, argument)
	}
	longest := debounced("1")
	longest.ID = stint.TaskID(strings.Repeat("a", 511))
	for range 2 {
		err := store.Debounce(t.Context(), longest, time.Nanosecond, time.Nanosecond)
		wantErr(t, "Debounce", err, nil)
		own(t, store, 1)
	}
	const forever = 1<<63 - 1
	wantErr(t, "Debounce",
		store.Debounce(t.Context(), debounced("1"), forever, forever), nil)
}
