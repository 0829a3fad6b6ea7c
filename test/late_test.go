package stint_test

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// The tests of this file were failures of the model and of histories, made small.

// lateTask returns a task whose lease expired, and which nobody was given since.
func lateTask(t *testing.T) (*stint.Store, stint.OwnedTask) {
	t.Helper()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, store)
	expireLeases(t, pool)
	maintain(t, store)
	return store, task
}

// The extension waits for an expiry that hands the task on, and must not speak of the time before.
func TestExtendTasksOwnership_SeesWhatWasHandedOnWhileItWaited(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 2)...)
	owned := own(t, store, 2)
	expireLeases(t, pool)
	returning, err := pool.Begin(t.Context()) // keeps the lease in being
	if err != nil {
		t.Fatal(err)
	}
	err = store.WithTx(returning).ReturnTask(
		t.Context(), owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
	if err != nil {
		t.Fatal(err)
	}
	expiring, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	maintain(t, store.WithTx(expiring))
	next := own(t, store.WithTx(expiring), 1)
	if len(next) != 1 || next[0].ID != owned[1].ID {
		t.Fatalf("the next owner was given %v", idsOf(next))
	}
	var kept []bool
	done := make(chan error)
	go func() {
		var err error
		kept, err = store.ExtendTasksOwnership(t.Context(), "actor", owned[1:], time.Hour)
		done <- err
	}()
	waitForLocks(t, pool, 1)
	if err := expiring.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || kept[0] {
		t.Errorf("ExtendTasksOwnership of what another owns = %v, %v", kept, err)
	}
	if err := returning.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestExtendTasksOwnership_TakesALateTaskTwice(t *testing.T) {
	t.Parallel()
	store, task := lateTask(t)
	kept, err := store.ExtendTasksOwnership(
		t.Context(), "actor", []stint.OwnedTask{task, task}, time.Hour)
	if err != nil || !slices.Equal(kept, []bool{true, true}) {
		t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
	}
}

// An actor that does not own a task must not get it out of the queue.
func TestExtendTasksOwnership_ByAnotherActorLeavesALateTaskReady(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, task := lateTask(t)
	kept, err := store.ExtendTasksOwnership(
		t.Context(), "another", []stint.OwnedTask{task}, time.Hour)
	if err != nil || kept[0] {
		t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	if got := info(t, store, "a").State; got != stint.StateReady {
		t.Errorf("the task is %s, want ready", got)
	}
}

// Others may have the capacity of an action with limits that a lease left, so its late owner may
// only return the task: it does not become its owner again by another verb, and then extends the
// lease.
// Proves R9.
func TestExtendTasksOwnership_NeverBringsBackWhatHasLimits(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	limits := stint.Limits{Concurrency: 1}
	wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, store)
	insert(t, store, stint.Task{ID: "b", Action: "act", Priority: 1})
	expireLeases(t, pool)
	maintain(t, store)
	if other := ownOne(t, store); other.ID != "b" {
		t.Fatalf("%q was handed on", other.ID)
	}
	tx := begin(t, pool)
	for verb, err := range map[string]error{
		"SetStatus":     store.SetStatus(t.Context(), task, "", 0),
		"Fence":         errOf(store.Fence(t.Context(), task)),
		"Inputs":        errOf(store.Inputs(t.Context(), task)),
		"RecordStep":    errOf(store.RecordStep(t.Context(), task, "step", nil)),
		"HoldOwnership": store.WithTx(tx).HoldOwnership(t.Context(), []stint.OwnedTask{task}),
	} {
		wantTasks(t, verb, err, stint.ErrInvalidToken, task.ID)
	}
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	kept, err := store.ExtendTasksOwnership(
		t.Context(), "actor", []stint.OwnedTask{task}, time.Hour)
	if err != nil || kept[0] {
		t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	wantErr(t, "ReturnTask", store.ReturnTask(
		t.Context(), task.ID, task.Token, "", stint.StatusCompleted), nil)
}

// A transaction that holds a task does not keep its owner from extending the lease. Proves R9.
func TestExtendTasksOwnership_OfWhatATransactionHolds(t *testing.T) {
	t.Parallel()
	for verb, hold := range map[string]func(*stint.Store, stint.OwnedTask) error{
		"HoldOwnership": func(s *stint.Store, task stint.OwnedTask) error {
			return s.HoldOwnership(t.Context(), []stint.OwnedTask{task})
		},
		"Fence": func(s *stint.Store, task stint.OwnedTask) error {
			return errOf(s.Fence(t.Context(), task))
		},
		"RecordStep": func(s *stint.Store, task stint.OwnedTask) error {
			return errOf(s.RecordStep(t.Context(), task, "step", nil))
		},
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, numbered("t", 3)...)
			owned := own(t, store, 3)
			for _, task := range owned { // each has a row of its own then
				wantErr(t, "SetStatus", store.SetStatus(t.Context(), task, "", 0), nil)
			}
			tx := begin(t, pool)
			wantErr(t, verb, hold(store.WithTx(tx), owned[1]), nil)
			kept, err := store.ExtendTasksOwnership(t.Context(), "actor", owned[1:2], 5*time.Hour)
			if err != nil || !kept[0] {
				t.Fatalf("ExtendTasksOwnership = %v, %v", kept, err)
			}
			if left := time.Until(info(t, store, owned[1].ID).LeaseUntil); left < 4*time.Hour {
				t.Errorf("the lease ends in %s", left)
			}
			wantErr(t, "ReturnTask", store.WithTx(tx).ReturnTask(
				t.Context(), owned[1].ID, owned[1].Token, "", stint.StatusCompleted), nil)
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			wantState(t, store, stint.StateCompleted, owned[1].ID)
		})
	}
}

// A return that is refused for its ID must not get a late task out of the queue.
func TestReturnTask_UnderAWrongIDLeavesALateTaskReady(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, task := lateTask(t)
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{
		{ID: "b", Token: task.Token, Code: stint.StatusCompleted},
	})
	if err != nil || !errors.Is(verdicts[0], stint.ErrInvalidToken) {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
	wrong := task
	wrong.ID = "b"
	wantErr(t, "SetStatus", store.SetStatus(t.Context(), wrong, "", 0), stint.ErrInvalidToken)
	if got := info(t, store, "a").State; got != stint.StateReady {
		t.Errorf("the task is %s, want ready", got)
	}
	verdicts, err = store.ReturnTasks(t.Context(), []stint.Return{
		{ID: "b", Token: task.Token, Code: stint.StatusCompleted},
		{ID: "a", Token: task.Token, Code: stint.StatusCompleted},
	})
	if err != nil || !errors.Is(verdicts[0], stint.ErrInvalidToken) || verdicts[1] != nil {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
}

func TestReturnTask_UnderAWrongIDWasNotReturnedBefore(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "other"})
	task := ownOne(t, store)
	err := store.ReturnTask(t.Context(), "a", task.Token, "", stint.StatusPending)
	if err != nil {
		t.Fatal(err)
	}
	err = store.ReturnTask(t.Context(), "b", task.Token, "", stint.StatusPending)
	wantErr(t, "ReturnTask", err, stint.ErrInvalidToken)
	if errors.Is(err, stint.ErrAlreadyReturned) {
		t.Errorf("ReturnTask under a wrong ID = %v", err)
	}
}

// A release is another outcome than the end of the last try.
func TestReturnTasks_ReleaseAfterTheLastTryIsRefused(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: 1})
	task := ownOne(t, store)
	err := store.ReturnTask(t.Context(), "a", task.Token, "", stint.StatusPending)
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{
		{ID: "a", Token: task.Token, Code: stint.StatusPending, Release: true},
	})
	if err != nil || errors.Is(verdicts[0], stint.ErrAlreadyReturned) ||
		!errors.Is(verdicts[0], stint.ErrInvalidToken) {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
}

func TestMaintain_PromotesInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "zero", Action: "none"})
	exec(t, pool, "ANALYZE stint.tasks")
	for _, task := range []struct {
		id   stint.TaskID
		wait time.Duration
	}{{"third", 3}, {"second", 2}, {"first", 1}} {
		insert(t, store, stint.Task{
			ID: task.id, Action: "act", NotBefore: time.Now().Add(task.wait * time.Hour),
		})
	}
	exec(t, pool, "UPDATE stint.scheduled SET not_before = not_before - interval '1 day'")
	maintain(t, store)
	want := []stint.TaskID{"first", "second", "third"}
	if got := idsOf(own(t, store, 3)); !slices.Equal(got, want) {
		t.Errorf("OwnTasks gave %v, want %v", got, want)
	}
}

// lostLastTry returns a task whose lease expired on its last try, which ended it.
func lostLastTry(t *testing.T) (*stint.Store, *pgxpool.Pool, stint.OwnedTask) {
	t.Helper()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: 1})
	task := ownOne(t, store)
	wantErr(t, "SetStatus", store.SetStatus(t.Context(), task, "half done", 0.5), nil)
	expireLeases(t, pool)
	maintain(t, store)
	got := info(t, store, "a")
	if got.AbortCause != stint.CauseTries || !strings.HasSuffix(got.Status, "\nhalf done") {
		t.Fatalf("after its last try expired the task is %+v", got)
	}
	return store, pool, task
}

// The expiry has ended the task as the return would have, but could not say why.
// Proves R8, R11, R13.
func TestReturnTask_AsPendingBehindTheExpiryOfTheLastTrySaysWhy(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	type returning func(*stint.Store, stint.OwnedTask, stint.Return) error
	pick := func(verdicts []error, err error) error {
		return errors.Join(append(slices.Clone(verdicts), err)...)
	}
	for name, giveBack := range map[string]returning{
		"ReturnTask": func(s *stint.Store, task stint.OwnedTask, r stint.Return) error {
			return s.ReturnTask(t.Context(), task.ID, task.Token, r.Status, r.Code)
		},
		"ReturnTasks, for later": func(s *stint.Store, _ stint.OwnedTask, r stint.Return) error {
			r.RetryAfter = time.Hour
			return pick(s.ReturnTasks(t.Context(), []stint.Return{r}))
		},
		"ReturnAndOwnTasks": func(s *stint.Store, task stint.OwnedTask, r stint.Return) error {
			verdicts, _, err := s.ReturnAndOwnTasks(t.Context(), []stint.Return{r}, stint.Want{})
			err = pick(verdicts, err)
			if errors.Is(err, stint.ErrAlreadyReturned) {
				return err
			}
			wantTasks(t, "ReturnAndOwnTasks", err, stint.ErrBusy, task.ID)
			return s.ReturnTask(t.Context(), task.ID, task.Token, r.Status, r.Code)
		},
	} {
		store, _, task := lostLastTry(t)
		want := info(t, store, "a")
		want.Status = "disk full"
		r := stint.Return{
			ID: "a", Token: task.Token, Code: stint.StatusPending, Status: "disk full",
		}
		if err := giveBack(store, task, r); err != nil {
			t.Errorf("%s behind the expiry = %v", name, err)
		}
		if got := info(t, store, "a"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s behind the expiry:\ngot  %+v\nwant %+v", name, got, want)
		}
		r.Status = "something else"
		err := giveBack(store, task, r)
		wantTasks(t, name+" repeated", err, stint.ErrAlreadyReturned, "a")
		if got := info(t, store, "a").Status; got != "disk full" {
			t.Errorf("%s repeated changed the status to %q", name, got)
		}
	}
}

// What is final stays so: another outcome comes too late, and no other token says why.
// Proves R13.
func TestReturnTask_BehindTheExpiryOfTheLastTryIsRefusedUnlessPending(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _, task := lostLastTry(t)
	forged := task.Token
	forged[0] ^= 1
	refused := []stint.Return{
		{Code: stint.StatusCompleted, Result: []byte("result")},
		{Code: stint.StatusAborted, Status: "bad"},
		{Code: stint.StatusPending, Release: true},
		{Code: stint.StatusPending, Status: "forged", Token: forged},
		{Code: stint.StatusPending, Status: "wrong ID", ID: "b"},
	}
	for i := range refused {
		refused[i].ID = cmp.Or(refused[i].ID, "a")
		if refused[i].Token == (stint.Token{}) {
			refused[i].Token = task.Token
		}
	}
	for range 2 { // before the owner has said why, and after
		for _, r := range refused {
			verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{r})
			wantErr(t, "ReturnTasks", err, nil)
			wantTasks(t, "ReturnTasks", verdicts[0], stint.ErrInvalidToken, r.ID)
			if errors.Is(verdicts[0], stint.ErrAlreadyReturned) {
				t.Errorf("a return as %s (%q) = %v", r.Code, r.Status, verdicts[0])
			}
		}
		_ = store.ReturnTask(t.Context(), "a", task.Token, "half done", stint.StatusPending)
	}
	got := info(t, store, "a")
	if got.AbortCause != stint.CauseTries || got.Status != "half done" || got.Result != nil {
		t.Errorf("after refused returns the task is %+v", got)
	}
}

// Two stores make the same return; the second waits for the first, which is in a transaction.
// Proves R13.
func TestReturnTask_BehindTheExpiryOfTheLastTryIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool, task := lostLastTry(t)
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	defer func() { _ = tx.Rollback(t.Context()) }()
	giveBack := func(s *stint.Store, status string) error {
		return s.ReturnTask(t.Context(), "a", task.Token, status, stint.StatusPending)
	}
	wantErr(t, "ReturnTask", giveBack(store.WithTx(tx), "first"), nil)
	second := start(func() (bool, error) { return true, giveBack(store, "second") })
	waitForLocks(t, pool, 1)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err = ends(t, "ReturnTask", second)
	wantErr(t, "ReturnTask at the same time", err, stint.ErrAlreadyReturned)
	if got := info(t, store, "a").Status; got != "first" {
		t.Errorf("the status is %q, want that of the first", got)
	}
}

// A transaction that is rolled back has not said anything; and RetryTasks, which makes the task as
// good as new, leaves nothing of the owner before.
func TestReturnTask_BehindTheExpiryOfTheLastTryIsUndoneAndForgotten(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool, task := lostLastTry(t)
	giveBack := func(s *stint.Store) error {
		return s.ReturnTask(t.Context(), "a", task.Token, "said", stint.StatusPending)
	}
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	defer func() { _ = tx.Rollback(t.Context()) }()
	wantErr(t, "ReturnTask", giveBack(store.WithTx(tx)), nil)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	if got := info(t, store, "a").Status; !strings.HasSuffix(got, "\nhalf done") {
		t.Errorf("the status is %q after the rollback", got)
	}
	wantErr(t, "RetryTasks", errOf(store.RetryTasks(t.Context(), []stint.TaskID{"a"})), nil)
	err = giveBack(store)
	wantErr(t, "ReturnTask of a retried task", err, stint.ErrInvalidToken)
	if errors.Is(err, stint.ErrAlreadyReturned) {
		t.Errorf("ReturnTask of a retried task = %v", err)
	}
}
