package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// An awaitCase is a way in which tasks with action "act" become ready. What others own there has
// the action "other".
type awaitCase struct {
	name string
	// given brings about what is before the call that waits, which must find nothing.
	given func(*testing.T, *stint.Store)
	// ready makes the tasks ready.
	ready func(*testing.T, *stint.Store)
	want  []stint.TaskID
}

func other(id stint.TaskID, predecessors ...stint.TaskID) stint.Task {
	return stint.Task{ID: id, Action: "other", After: predecessors}
}

func ownOther(
	t *testing.T, store *stint.Store, lease time.Duration, action string,
) stint.OwnedTask {
	t.Helper()
	owned, err := store.OwnTasks(t.Context(), "another", 1, []string{action}, lease)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	return owned[0]
}

func inserts(tasks ...stint.Task) func(*testing.T, *stint.Store) {
	return func(t *testing.T, store *stint.Store) { t.Helper(); insert(t, store, tasks...) }
}

// returnsOther owns a task with action "other" and returns it.
func returnsOther(r stint.Return) func(*testing.T, *stint.Store) {
	return func(t *testing.T, store *stint.Store) {
		t.Helper()
		returnWith(t, store, ownOther(t, store, time.Hour, "other"), r)
	}
}

// returnsNew inserts task a, owns it unless those who wait are faster, and gives it back.
func returnsNew(r stint.Return) func(*testing.T, *stint.Store) {
	return func(t *testing.T, store *stint.Store) {
		t.Helper()
		insert(t, store, after("a"))
		owned, err := store.OwnTasks(t.Context(), "another", 1, []string{"act"}, time.Hour)
		if err == nil && len(owned) == 1 {
			returnWith(t, store, owned[0], r)
		}
	}
}

// awaitCases are those of which a store tells the others at once.
func awaitCases() []awaitCase {
	done := stint.Return{Code: stint.StatusCompleted}
	return []awaitCase{
		{name: "few are inserted", ready: inserts(after("a")), want: []stint.TaskID{"a"}},
		{
			name: "many are inserted", ready: inserts(numbered("t", 1000)...),
			want: []stint.TaskID{"t000000"},
		},
		{
			name: "a stream is inserted",
			ready: func(t *testing.T, store *stint.Store) {
				t.Helper()
				_, err := store.InsertTasksFrom(t.Context(), stream(numbered("t", 3000), nil))
				wantErr(t, "InsertTasksFrom", err, nil)
			},
			want: []stint.TaskID{"t000000"},
		},
		{
			name: "a predecessor completes", given: inserts(other("x"), after("a", "x")),
			ready: returnsOther(done), want: []stint.TaskID{"a"},
		},
		{
			name:  "a predecessor completes behind joins",
			given: inserts(other("x"), join("i", "x"), join("j", "i"), after("a", "j")),
			ready: returnsOther(done), want: []stint.TaskID{"a"},
		},
		{
			name: "a predecessor aborts",
			given: inserts(other("x"), stint.Task{
				ID: "a", Action: "act", After: []stint.TaskID{"x"}, OnAbort: stint.RunAnyway,
			}),
			ready: returnsOther(stint.Return{Code: stint.StatusAborted}), want: []stint.TaskID{"a"},
		},
		{
			name: "a predecessor is cancelled",
			given: inserts(other("x"), stint.Task{
				ID: "a", Action: "act", After: []stint.TaskID{"x"}, OnAbort: stint.RunAnyway,
			}),
			ready: aborts("x"), want: []stint.TaskID{"a"},
		},
		{
			name: "it is returned pending", want: []stint.TaskID{"a"},
			ready: returnsNew(stint.Return{Code: stint.StatusPending}),
		},
		{
			name: "it is released", want: []stint.TaskID{"a"},
			ready: returnsNew(stint.Return{Code: stint.StatusPending, Release: true}),
		},
		{
			name: "it is replaced", given: inserts(other("x"), after("a", "x")),
			ready: func(t *testing.T, store *stint.Store) {
				t.Helper()
				err := store.ReplaceTasks(t.Context(), []stint.Task{after("a")})
				wantErr(t, "ReplaceTasks", err, nil)
			},
			want: []stint.TaskID{"a"},
		},
	}
}

func TestWaitToOwnTasks_IsNotifiedOfWhatBecomesReady(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	sources := []string{"this store", "another store", "a transaction"}
	for _, pair := range testrun.Third(testrun.Pairs(awaitCases(), sources), 0) {
		c, from := pair.A, pair.B
		t.Run(c.name+" by "+from, func(t *testing.T) {
			t.Parallel()
			h := newHeardStore(t, stint.Options{})
			if c.given != nil {
				c.given(t, h.Store)
			}
			awaiting := h.await(t.Context(), t, 1)
			switch from {
			case "this store":
				c.ready(t, h.Store)
			case "another store":
				c.ready(t, openStore(t, h.pool, stint.Options{
					Maintenance: stint.MaintainNever,
				}))
			case "a transaction":
				tx := begin(t, h.pool)
				c.ready(t, h.WithTx(tx))
				h.notified(t)
				wantGoingOn(t, "WaitToOwnTasks before the commit", awaiting)
				wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			}
			wantOwned(t, awaiting, c.want...)
		})
	}
}

// An action is any text, and travels in a notification of text.
func TestWaitToOwnTasks_IsNotifiedWhateverTheActionIsCalled(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{})
	for i, action := range []string{
		"a b", " ", " act", "act ", "ready act", "line\nline", "\t",
		`it's "a" \ %s`, "\u00e9\u4e16\U0001f600",
		"finished 1 2 3", strings.Repeat("\u4e16", 85), "\x01\x7f", "ACT",
	} {
		topics := len(sessionPIDs(t, h.pool)) // the session stands
		awaiting := start(func() ([]stint.OwnedTask, error) {
			return h.WaitToOwnTasks(t.Context(), "actor", 1, []string{action}, time.Hour)
		})
		eventually(t, soon, "the session listens", func() bool {
			return listeners(t, h.pool, "ready "+action) == topics
		})
		h.notified(t)
		id := stint.TaskID(fmt.Sprint(i))
		insert(t, h.Store, stint.Task{ID: id, Action: action})
		wantOwned(t, awaiting, id)
	}
}

// What is due at a known time is owned at that time, though nobody maintains the schema; what
// becomes known of only during the wait is left to those who do.
func TestWaitToOwnTasks_WakesWhenSomethingIsDue(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const ahead = 400 * time.Millisecond
	cases := map[string]func(*testing.T, *stint.Store){
		"NotBefore": func(t *testing.T, store *stint.Store) {
			t.Helper()
			insert(t, store, stint.Task{
				ID: "a", Action: "act", NotBefore: time.Now().Add(ahead),
			})
		},
		"RetryAfter": func(t *testing.T, store *stint.Store) {
			t.Helper()
			insert(t, store, after("a"))
			returnWith(t, store, ownOther(t, store, time.Hour, "act"), stint.Return{
				Code: stint.StatusPending, RetryAfter: ahead,
			})
		},
		"expiry of a lease": func(t *testing.T, store *stint.Store) {
			t.Helper()
			insert(t, store, after("a"))
			ownOther(t, store, ahead, "act")
		},
	}
	for name, given := range cases {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s known %t", name, known), func(t *testing.T) {
				t.Parallel()
				opts := stint.Options{Maintenance: stint.MaintainNever}
				pool := testdb.New(t)
				h := newHeardStoreOn(t, pool, opts)
				another := openStore(t, pool, opts)
				began := time.Now()
				if known {
					given(t, another)
				}
				awaiting := start(func() ([]stint.OwnedTask, error) {
					return h.WaitToOwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
				})
				if !known {
					tx := begin(t, pool) // the owner in between is nobody's competitor
					given(t, another.WithTx(tx))
					wantErr(t, "Commit", tx.Commit(t.Context()), nil)
					openStore(t, pool, stint.Options{Maintenance: stint.MaintainAlways})
				}
				// A machine that takes long for a whole look makes few of them, and so does this
				// store; but it does not wait for the hour that it polls after.
				wantOwned(t, awaiting, "a")
				if took := time.Since(began); took < ahead-10*time.Millisecond {
					t.Errorf("the task was owned after %v, want %v or little more", took, ahead)
				}
			})
		}
	}
}

// Proves R20.
func TestWaitToOwnTasks_Polls(t *testing.T) {
	t.Parallel()
	h := newHeardStore(t, stint.Options{PollOnly: true, PollInterval: 20 * time.Millisecond})
	awaiting := h.await(t.Context(), t, 1)
	insert(t, h.Store, after("a"))
	wantOwned(t, awaiting, "a")
	if n := yields[int](t, h.pool, "SELECT count(*) FROM stint.sessions"); n > 0 {
		t.Errorf("%d sessions, want none", n)
	}
}

// Waiters share what comes: nobody is given more than asked, one task wakes one of them for good.
func TestWaitToOwnTasks_SharesWhatComesAmongThoseWhoWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{})
	const waiters = 50
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type given struct {
		asked int
		owned []stint.OwnedTask
		err   error
	}
	results := make(chan given, waiters)
	asked := 0
	for i := range waiters {
		n := i%4 + 1
		asked += n
		go func() {
			owned, err := h.WaitToOwnTasks(ctx, "actor", n, []string{"act"}, time.Hour)
			results <- given{n, owned, err}
		}()
	}
	receive := func() given {
		t.Helper()
		select {
		case got := <-results:
			if got.err != nil || len(got.owned) == 0 || len(got.owned) > got.asked {
				t.Fatalf("WaitToOwnTasks(%d) = %d tasks, %v", got.asked, len(got.owned), got.err)
			}
			return got
		case <-time.After(soon):
			t.Fatal("nobody wakes")
			panic("unreachable")
		}
	}
	seen := map[stint.TaskID]bool{}
	for i := range waiters / 2 { // one by one
		id := stint.TaskID(fmt.Sprintf("single %d", i))
		insert(t, h.Store, after(id))
		if got := receive(); len(got.owned) != 1 || got.owned[0].ID != id {
			t.Fatalf("WaitToOwnTasks = %v, want %s", idsOf(got.owned), id)
		}
	}
	insert(t, h.Store, numbered("t", asked)...) // more than the rest can take
	for range waiters - waiters/2 {
		for _, task := range receive().owned {
			if seen[task.ID] {
				t.Errorf("%s was given twice", task.ID)
			}
			seen[task.ID] = true
		}
	}
	if left := own(t, h.Store, 2*asked); len(left)+len(seen) != asked {
		t.Errorf("%d tasks were given, %d are left, of %d", len(seen), len(left), asked)
	}
}

// ownedKnowingly is what callers own that know of it.
type ownedKnowingly struct {
	mutex sync.Mutex
	ids   []string
}

func (k *ownedKnowingly) add(owned []stint.OwnedTask) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, task := range owned {
		k.ids = append(k.ids, string(task.ID))
	}
}

const leasedIDs = `SELECT coalesce(array_agg(id ORDER BY id), '{}')
	FROM stint.leased JOIN stint.tasks ON key BETWEEN lo AND hi`

// awaitCancelled calls WaitToOwnTasks and cancels it at a random instant.
func awaitCancelled(
	t *testing.T, store *stint.Store, within time.Duration, known *ownedKnowingly,
) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(rand.N(within), cancel).Stop()
	owned, err := store.WaitToOwnTasks(ctx, "actor", 1+rand.IntN(3), []string{"act"}, time.Hour)
	known.add(owned)
	return err
}

// A call that is cancelled leaves no task owned by nobody: within a second or two each is ready
// again, or its owner knows.
// Proves G101.
func TestWaitToOwnTasks_CancelledLeavesNoTaskOwnedByNobody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const callers = 8
	rounds := testrun.Rounds(300)
	h := newHeardStore(t, stint.Options{})
	var known ownedKnowingly
	cancelled, within := 0, 4*time.Millisecond
	for round := range rounds {
		results, before := make(chan error, callers), cancelled
		for range callers {
			go func() { results <- awaitCancelled(t, h.Store, within, &known) }()
		}
		insert(t, h.Store, numbered(fmt.Sprintf("r%d ", round), 1+rand.IntN(2*callers))...)
		for range callers {
			switch err := <-results; {
			case errors.Is(err, context.Canceled):
				cancelled++
			case err != nil:
				t.Fatalf("WaitToOwnTasks = %v", err)
			}
		}
		if cancelled == before+callers { // calls take longer on this machine
			within *= 2
		}
	}
	t.Logf("of %d calls %d were cancelled", rounds*callers, cancelled)
	if cancelled == 0 || cancelled == rounds*callers {
		t.Error("the test proves nothing")
	}
	slices.Sort(known.ids)
	eventually(t, soon, "only those are owned whose owners know", func() bool {
		return slices.Equal(yields[[]string](t, h.pool, leasedIDs), known.ids)
	})
	tried := yields[int](t, h.pool, "SELECT count(*) FROM stint.ready WHERE tries > 0")
	if tried > 0 {
		t.Errorf("%d tasks lost a try to a call that was cancelled", tried)
	}
}

// The same where a process shuts down: it cancels its calls and closes the store.
func TestWaitToOwnTasks_CancelledBeforeCloseLeavesNoTaskOwnedByNobody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const callers = 8
	store, pool := newStoreAndPool(t, stint.Options{})
	var known ownedKnowingly
	for round := range testrun.Rounds(200) {
		closing := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, callers)
		for range callers {
			go func() {
				owned, err := closing.WaitToOwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
				known.add(owned)
				results <- err
			}()
		}
		defer time.AfterFunc(time.Duration(rand.IntN(8000))*time.Microsecond, cancel).Stop()
		insert(t, store, numbered(fmt.Sprintf("r%d ", round), callers/2)...)
		<-ctx.Done()
		wantErr(t, "Close", closing.Close(t.Context()), nil)
		for range callers {
			<-results
		}
	}
	slices.Sort(known.ids)
	got := yields[[]string](t, pool, leasedIDs)
	if !slices.Equal(got, known.ids) {
		t.Errorf("%d tasks are owned, the owners know of %d", len(got), len(known.ids))
	}
}

// An observer hears what is sent on the channel, without being one for whom it is sent.
func observe(t *testing.T, h *heardStore, during func()) (payloads []string) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), h.pool.Config().ConnConfig)
	wantErr(t, "connect", err, nil)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "LISTEN stint")
	wantErr(t, "LISTEN", err, nil)
	during()
	exec(t, h.pool, "SELECT pg_notify('stint', 'the end')")
	for {
		notification, err := conn.WaitForNotification(t.Context())
		wantErr(t, "WaitForNotification", err, nil)
		if notification.Payload == "the end" {
			return payloads
		}
		if notification.Payload != "ping" {
			payloads = append(payloads, notification.Payload)
		}
	}
}

// T4: a notification takes a lock that all commits of the server queue for, so none is sent that
// nobody wants to hear, and a burst sends few.
func TestInsertTasks_NotifiesOnlyThoseWhoWaitAndFewTimes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const goroutines, each = 20, 25
	h := newHeardStore(t, stint.Options{})
	burst := func(action string) (took time.Duration) {
		store, err := stint.New(h.pool, stint.Options{Maintenance: stint.MaintainNever})
		wantErr(t, "New", err, nil)
		began := time.Now()
		var group sync.WaitGroup
		for g := range goroutines {
			group.Go(func() {
				for i := range each {
					insert(t, store, stint.Task{
						ID: stint.TaskID(fmt.Sprintf("%s %d %d", action, g, i)), Action: action,
					})
				}
			})
		}
		group.Wait()
		took = time.Since(began)
		wantErr(t, "Close", store.Close(t.Context()), nil) // nothing is sent afterwards
		return took
	}
	if payloads := observe(t, h, func() { burst("unheard") }); len(payloads) > 0 {
		t.Errorf("%d notifications that nobody wants, such as %q", len(payloads), payloads[0])
	}
	var took time.Duration
	payloads := observe(t, h, func() { took = burst("act") })
	const pause = 2 * time.Millisecond // between notifications
	t.Logf("%d inserts in %v: %d notifications", goroutines*each, took, len(payloads))
	if n := len(payloads); n == 0 || n > int(took/pause)+2 || n > goroutines*each/2 {
		t.Errorf("%d notifications of %d inserts in %v", n, goroutines*each, took)
	}
}

// A process that inserts and ends at once is heard all the same.
func TestInsertTasks_IsHeardThoughTheStoreIsClosedAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{})
	for i := range 10 {
		awaiting := h.await(t.Context(), t, 1)
		store, err := stint.New(h.pool, stint.Options{Maintenance: stint.MaintainNever})
		wantErr(t, "New", err, nil)
		id := stint.TaskID(fmt.Sprint(i))
		insert(t, store, other("before "+id)) // is told of, and what follows soon is gathered
		insert(t, store, after(id))
		wantErr(t, "Close", store.Close(t.Context()), nil)
		wantOwned(t, awaiting, id)
	}
}

// A handler of the pool's own for notifications does not keep them from those who wait.
func TestWaitToOwnTasks_IsNotifiedThoughThePoolHandlesNotifications(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := poolOf(t, testdb.New(t), func(config *pgxpool.Config) {
		config.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	})
	h := newHeardStoreOn(t, pool, stint.Options{PollInterval: pollNever})
	session := sessionPIDs(t, pool)
	awaiting := h.await(t.Context(), t, 1)
	insert(t, h.Store, stint.Task{ID: "a", Action: "act"})
	wantOwned(t, awaiting, "a")
	// A session that is deaf is made anew, and then those who wait look, too.
	if got := sessionPIDs(t, pool); !slices.Equal(got, session) {
		t.Errorf("session %v became %v", session, got)
	}
}

// A fetch tells how many ready tasks it has met, those included that somebody else is taking.
func TestOwnTasks_TellsOfTasksThatOthersAreTaking(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, stint.Task{ID: "a", Action: "other"}, after("b"))
	insert(t, store, stint.Task{ID: "c", Action: "other"})
	taking := begin(t, pool)
	_, err := store.WithTx(taking).OwnTasks(ctx, "another", 1, []string{"act"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	tx := begin(t, pool)
	_, err = tx.Exec(ctx, statements(t)["set_planner"])
	wantErr(t, "set_planner", err, nil)
	for _, name := range []string{"own_few", "own_singly", "own_tasks"} {
		_, err := tx.Exec(ctx, "SAVEPOINT before")
		wantErr(t, "SAVEPOINT", err, nil)
		rows, err := tx.Query(ctx, statements(t)[name], 7, "actor", 10, []string{"act", "other"},
			time.Hour, nil, []int64{0, 0}, []int64{1 << 62, 1 << 62}, false, false, 1000, 100, 10)
		wantErr(t, name, err, nil)
		owned, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (met int64, err error) {
			values, err := row.Values()
			if err != nil {
				return 0, err
			}
			return values[len(values)-1].(int64), nil
		})
		if err != nil || len(owned) != 2 || owned[0] != 3 || owned[1] != 3 {
			t.Errorf("%s has met %v, %v, want three tasks, and owns two", name, owned, err)
		}
		_, err = tx.Exec(ctx, "ROLLBACK TO before")
		wantErr(t, "ROLLBACK TO", err, nil)
	}
	wantErr(t, "Rollback", tx.Rollback(ctx), nil)
	wantErr(t, "Rollback", taking.Rollback(ctx), nil)
}
