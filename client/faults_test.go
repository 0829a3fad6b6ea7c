package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
)

// A faulty client has one fault in the first attempt of each verb.
type faulty struct {
	*remote

	faults *testservice.Faults
	fault  testservice.Fault
}

func newFaulty(t *testing.T, fault testservice.Fault) *faulty {
	t.Helper()
	f := &faulty{
		remote: newRemote(t, stint.Options{}), faults: testservice.NewFaults(), fault: fault,
	}
	f.Client = testservice.Client(t, f.address, client.Options{
		HTTPClient: &http.Client{Transport: f.faults},
	})
	return f
}

// once makes a call, whose first attempt has the fault, and waits until nothing of it is under way.
func (f *faulty) once(t *testing.T, verb string, want error, call func() error) {
	t.Helper()
	var made atomic.Bool
	f.faults.Choose(func(path string) testservice.Fault {
		if !strings.HasSuffix(path, "/"+verb) || made.Swap(true) {
			return testservice.NoFault
		}
		return f.fault
	})
	err := call()
	f.faults.Choose(nil)
	if (err == nil) != (want == nil) || !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", verb, err, want)
	}
	if !made.Load() {
		t.Errorf("%s: nothing went wrong", verb)
	}
	f.faults.Wait()
}

// unrepeated is the error of a verb that is not repeated.
func (f *faulty) unrepeated() error {
	if f.fault == testservice.Delayed {
		return nil
	}
	return client.ErrUnavailable
}

// takesPlace reports whether a call takes place that is not repeated.
func (f *faulty) takesPlace() bool {
	return f.fault != testservice.RequestLost && f.fault != testservice.RequestCut
}

func (f *faulty) wantState(t *testing.T, id stint.TaskID, state stint.State, tries int) {
	t.Helper()
	infos, err := f.store.GetTasks(t.Context(), []stint.TaskID{id})
	if err != nil || infos[0].State != state || infos[0].Tries != tries {
		t.Errorf("%s is %+v, %v, want %s after %d tries", id, infos, err, state, tries)
	}
}

// wantNothingOwned checks that nobody owns a task without knowing.
func (f *faulty) wantNothingOwned(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	wantErr(t, "Close", f.Close(ctx), nil) // claims are released
	page, err := f.store.ListTasks(ctx,
		stint.Filter{States: []stint.State{stint.StateInProgress}})
	if err != nil || len(page.Tasks) > 0 {
		t.Errorf("in progress are %+v, %v", page.Tasks, err)
	}
}

// Whatever happens to the first attempt of a call, the call takes effect once, or fails as its
// comment says.
func TestClient_TakesEffectOnceWhateverIsLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, fault := range testrun.Some(testservice.AllFaults()) {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, fault)
			f.prepareOnce(t)
			owned := f.ownOnce(t)
			f.tellOnce(t, owned)
			f.returnOnce(t, owned)
			f.controlOnce(t)
			f.limitOnce(t)
			f.scheduleOnce(t)
			f.transactOnce(t)
			f.wantNothingOwned(t)
		})
	}
}

// prepareOnce inserts a to d, of which e waits for a, and replaces b.
func (f *faulty) prepareOnce(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	f.once(t, "InsertTasks", nil, func() error {
		return f.InsertTasks(ctx, []stint.Task{
			{ID: "a", Action: "act", PostResult: true},
			{ID: "b", Action: "act"},
			{ID: "c", Action: "act"},
			{ID: "d", Action: "wait"},
			{ID: "e", Action: "next"},
		})
	})
	f.once(t, "InsertTasks", nil, func() error { // an ID is chosen for each
		return f.InsertTasks(ctx, []stint.Task{{Action: "unnamed"}, {Action: "unnamed"}})
	})
	page, err := f.store.ListTasks(ctx, stint.Filter{Actions: []string{"unnamed"}})
	if err != nil || len(page.Tasks) != 2 {
		t.Errorf("of tasks without an ID there are %d, %v, want 2", len(page.Tasks), err)
	}
	f.once(t, "EnsureTasks", nil, func() error {
		existing, err := f.EnsureTasks(ctx, []stint.Task{
			{ID: "a", Action: "other"}, {ID: "ensured", Action: "ensured"},
		})
		if !slices.Equal(existing, []stint.TaskID{"a"}) {
			t.Errorf("EnsureTasks = %q", existing)
		}
		return err
	})
	f.wantState(t, "ensured", stint.StateReady, 0)
	f.once(t, "AddDependencies", nil, func() error {
		return f.AddDependencies(ctx, []stint.Dependency{{Predecessor: "a", Dependent: "e"}})
	})
	f.wantState(t, "e", stint.StateBlocked, 0)
	f.once(t, "ReplaceTasks", f.unrepeated(), func() error {
		return f.ReplaceTasks(ctx, []stint.Task{{ID: "b", Action: "act", Body: []byte("new")}})
	})
	f.once(t, "Debounce", nil, func() error {
		task := stint.Task{ID: "quiet", Action: "index"}
		return f.Debounce(ctx, task, time.Hour, 2*time.Hour)
	})
	f.wantState(t, "quiet", stint.StateScheduled, 0)
	infos, err := f.store.GetTasks(ctx, []stint.TaskID{"b"})
	if err != nil || (infos[0].Body != nil) != f.takesPlace() {
		t.Errorf("ReplaceTasks made b %+v, %v", infos, err)
	}
}

// ownOnce owns a, b and c in the order of their insertion, and then d.
func (f *faulty) ownOnce(t *testing.T) []stint.OwnedTask {
	t.Helper()
	ctx := t.Context()
	var owned []stint.OwnedTask
	f.once(t, "OwnTasks", nil, func() (err error) {
		owned, err = f.OwnTasks(ctx, "actor", 3, []string{"act"}, time.Hour)
		return err
	})
	got := ids(owned)
	slices.Sort(got)
	if !slices.Equal(got, []stint.TaskID{"a", "b", "c"}) {
		t.Fatalf("OwnTasks gave %q", got)
	}
	f.once(t, "OwnTasks", nil, func() error {
		waited, err := f.WaitToOwnTasks(ctx, "actor", 3, []string{"wait"}, time.Hour)
		if err == nil && !slices.Equal(ids(waited), []stint.TaskID{"d"}) {
			t.Errorf("WaitToOwnTasks gave %q", ids(waited))
		}
		owned = append(owned, waited...)
		return err
	})
	f.once(t, "OwnTasks", nil, func() error { // of which there are none
		none, err := f.OwnTasks(ctx, "actor", 3, []string{"act", "wait"}, time.Hour)
		if len(none) > 0 {
			t.Errorf("OwnTasks gave %q twice", ids(none))
		}
		return err
	})
	for _, task := range owned {
		f.wantState(t, task.ID, stint.StateInProgress, 1)
	}
	slices.SortFunc(owned, func(a, b stint.OwnedTask) int {
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return owned
}

// tellOnce asks and says what changes no state.
func (f *faulty) tellOnce(t *testing.T, owned []stint.OwnedTask) {
	t.Helper()
	ctx := t.Context()
	f.once(t, "ExtendTasksOwnership", nil, func() error {
		kept, err := f.ExtendTasksOwnership(ctx, "actor", owned, 2*time.Hour)
		if err == nil && !slices.Equal(kept, []bool{true, true, true, true}) {
			t.Errorf("ExtendTasksOwnership = %t", kept)
		}
		return err
	})
	f.once(t, "SetStatus", nil, func() error { return f.SetStatus(ctx, owned[0], "half", 0.5) })
	f.once(t, "DrawFence", nil, func() error { return errOf(f.Fence(ctx, owned[0])) })
	f.once(t, "RecordStep", nil, func() error {
		return errOf(f.RecordStep(ctx, owned[0], "step", []byte("value")))
	})
	f.once(t, "ListSteps", nil, func() error { return errOf(f.Steps(ctx, owned[0])) })
	f.once(t, "GetInputs", nil, func() error { return errOf(f.Inputs(ctx, owned[0])) })
	f.once(t, "GetTasks", nil, func() error {
		infos, err := f.GetTasks(ctx, ids(owned))
		if err == nil && (len(infos) != 4 || infos[0].Status != "half") {
			t.Errorf("GetTasks = %+v", infos)
		}
		return err
	})
	f.once(t, "GetTasks", stint.ErrTaskNotFound, func() error {
		return errOf(f.GetTasks(ctx, []stint.TaskID{"nobody"}))
	})
	f.once(t, "ListTasks", nil, func() error {
		page, err := f.ListTasks(ctx, stint.Filter{Actions: []string{"act"}})
		if err == nil && len(page.Tasks) != 3 {
			t.Errorf("ListTasks = %+v", page)
		}
		return err
	})
	f.once(t, "ExplainTask", nil, func() error { return errOf(f.Explain(ctx, "e")) })
	f.once(t, "GetHistory", nil, func() error { return errOf(f.History(ctx, "e")) })
	f.once(t, "ListChanges", nil, func() error {
		return errOf(f.ListChanges(ctx, stint.ChangeFilter{ID: "e"}))
	})
	f.once(t, "GetEnds", nil, func() error { return errOf(f.Ends(ctx, nil, "", 0)) })
	f.once(t, "GetGraph", nil, func() error { return errOf(f.Graph(ctx, "e")) })
	f.once(t, "GetStats", nil, func() error { return errOf(f.Stats(ctx)) })
	f.once(t, "GetMinutes", nil, func() error { return errOf(f.Minutes(ctx, "")) })
	f.once(t, "ListProblems", nil, func() error { return errOf(f.Problems(ctx, 3)) })
	f.once(t, "ListActors", nil, func() error { return errOf(f.ListActors(ctx)) })
}

// limitOnce limits and pauses an action that no task has.
func (f *faulty) limitOnce(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	limits := stint.Limits{Concurrency: 3, Rate: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 2}}
	f.once(t, "SetLimits", nil, func() error { return f.SetLimits(ctx, "limited", limits) })
	f.once(t, "Pause", nil, func() error { return f.Pause(ctx, "limited") })
	f.once(t, "PauseKeys", nil, func() error { return f.PauseKeys(ctx, "limited", "a", "b") })
	f.once(t, "SetWeights", nil, func() error {
		return f.SetWeights(ctx, "limited", map[string]int{"a": 3})
	})
	f.once(t, "ListLimits", nil, func() error {
		list, err := f.ListLimits(ctx, "limited")
		if err == nil && (len(list) != 1 || list[0].Limits != limits ||
			len(list[0].PausedKeys) != 2 || list[0].Weights["a"] != 3) {
			t.Errorf("ListLimits = %+v", list)
		}
		return err
	})
	f.once(t, "ResumeKeys", nil, func() error { return f.ResumeKeys(ctx, "limited", "a", "b") })
	f.once(t, "Resume", nil, func() error { return f.Resume(ctx, "limited") })
	f.once(t, "SetLimits", nil, func() error {
		return f.SetLimits(ctx, "limited", stint.Limits{})
	})
	f.once(t, "SetWeights", nil, func() error {
		return f.SetWeights(ctx, "limited", map[string]int{"a": 1})
	})
	if list, err := f.store.ListLimits(ctx); err != nil || len(list) > 0 {
		t.Errorf("ListLimits = %+v, %v", list, err)
	}
}

// scheduleOnce puts, changes and deletes a schedule.
func (f *faulty) scheduleOnce(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	schedules := []stint.Schedule{{
		Name: "s", Spec: "@yearly", Tasks: []stint.Task{{Action: "scheduled"}},
	}}
	f.once(t, "PutSchedules", nil, func() error { return f.PutSchedules(ctx, schedules) })
	f.once(t, "EnsureSchedules", nil, func() error { return f.EnsureSchedules(ctx, schedules) })
	f.once(t, "PauseSchedules", nil, func() error { return f.PauseSchedules(ctx, "s") })
	f.once(t, "ListSchedules", nil, func() error {
		list, err := f.ListSchedules(ctx, "s")
		if err == nil && (len(list) != 1 || list[0].PausedSince.IsZero()) {
			t.Errorf("ListSchedules = %+v", list)
		}
		return err
	})
	f.once(t, "ResumeSchedules", nil, func() error { return f.ResumeSchedules(ctx, "s") })
	f.once(t, "TriggerSchedule", f.unrepeated(), func() error {
		return errOf(f.TriggerSchedule(ctx, "s"))
	})
	f.once(t, "DeleteSchedules", nil, func() error { return f.DeleteSchedules(ctx, "s") })
	if list, err := f.store.ListSchedules(ctx); err != nil || len(list) > 0 {
		t.Errorf("ListSchedules = %+v, %v", list, err)
	}
}

// returnOnce returns what is owned: a completed, b aborted, c for another try, d released.
func (f *faulty) returnOnce(t *testing.T, owned []stint.OwnedTask) {
	t.Helper()
	ctx := t.Context()
	f.once(t, "ReturnTasks", nil, func() error {
		return f.ReturnTask(ctx, "a", owned[0].Token, "", stint.StatusCompleted)
	})
	giveBack := func(r stint.Return) error {
		verdicts, _, err := f.ReturnAndOwnTasks(ctx, []stint.Return{r}, stint.Want{})
		return errors.Join(verdicts[0], err)
	}
	f.once(t, "ReturnTasks", nil, func() error {
		return giveBack(stint.Return{
			ID: "b", Token: owned[1].Token, Code: stint.StatusAborted,
		})
	})
	f.once(t, "ReturnTasks", nil, func() error {
		return giveBack(stint.Return{
			ID: "c", Token: owned[2].Token, Code: stint.StatusPending, RetryAfter: time.Hour,
		})
	})
	f.once(t, "ReturnTasks", nil, func() error {
		return giveBack(stint.Return{
			ID: "d", Token: owned[3].Token, Code: stint.StatusPending, Release: true,
		})
	})
	f.once(t, "ReturnTasks", stint.ErrInvalidToken, func() error {
		return f.ReturnTask(ctx, "a", stint.Token{1}, "", stint.StatusCompleted)
	})
	f.exchangeOnce(t)
	f.wantState(t, "a", stint.StateCompleted, 1)
	f.wantState(t, "b", stint.StateAborted, 1)
	f.wantState(t, "c", stint.StateScheduled, 1)
	f.wantState(t, "d", stint.StateReady, 0)
	f.once(t, "WaitForTasks", nil, func() error { return errOf(f.WaitForTask(ctx, "a")) })
}

// exchangeOnce returns x, and owns y in its place.
func (f *faulty) exchangeOnce(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	wantErr(t, "InsertTasks", f.store.InsertTasks(ctx, []stint.Task{
		{ID: "x", Action: "exchange"}, {ID: "y", Action: "exchange"},
	}), nil)
	actions := []string{"exchange"}
	owned, err := f.store.OwnTasks(ctx, "e", 1, actions, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	var next []stint.OwnedTask
	f.once(t, "OwnTasks", nil, func() error {
		verdicts, got, err := f.ReturnAndOwnTasks(ctx, []stint.Return{
			{ID: "x", Token: owned[0].Token, Code: stint.StatusCompleted},
		}, stint.Want{Actor: "e", MaxTasks: 5, Actions: actions, Lease: time.Hour})
		next = got
		return errors.Join(append(verdicts, err)...)
	})
	if len(next) != 1 || next[0].ID != "y" {
		t.Fatalf("it fetched %v", next)
	}
	err = f.store.ReturnTask(ctx, "y", next[0].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, nil)
	f.wantState(t, "x", stint.StateCompleted, 1)
}

// controlOnce aborts, retries and deletes c.
func (f *faulty) controlOnce(t *testing.T) {
	t.Helper()
	ctx, c := t.Context(), []stint.TaskID{"c"}
	f.once(t, "AbortTasks", nil, func() error { return errOf(f.AbortTasks(ctx, c, "why not")) })
	f.wantState(t, "c", stint.StateAborted, 1)
	f.once(t, "RetryTasks", nil, func() error { return errOf(f.RetryTasks(ctx, c)) })
	f.wantState(t, "c", stint.StateReady, 0)
	later := stint.TaskChanges{NotBefore: time.Now().Add(time.Hour)}
	f.once(t, "ChangeTasks", nil, func() error { return errOf(f.ChangeTasks(ctx, c, later)) })
	f.wantState(t, "c", stint.StateScheduled, 0)
	f.once(t, "DeleteTasks", nil, func() error { return errOf(f.DeleteTasks(ctx, c)) })
	_, err := f.store.GetTasks(ctx, c)
	wantErr(t, "GetTasks of a deleted task", err, stint.ErrTaskNotFound)
	err = f.store.InsertTasks(ctx, []stint.Task{{ID: "ask", Action: stint.External}})
	wantErr(t, "InsertTasks", err, nil)
	f.once(t, "AnswerTasks", nil, func() error {
		verdicts, err := f.AnswerTasks(ctx, "ann", []stint.Answer{
			{ID: "ask", Code: stint.StatusCompleted},
		})
		return errors.Join(append(verdicts, err)...)
	})
	f.wantState(t, "ask", stint.StateCompleted, 0)
}

// transactOnce completes d together with the insert of its successor.
func (f *faulty) transactOnce(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	owned, err := f.OwnTasks(ctx, "actor", 1, []string{"wait"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %q, %v", ids(owned), err)
	}
	both := client.Transaction{
		Insert: []stint.Task{{ID: "b", Action: "act"}}, // which is there
		Return: []stint.Return{{ID: "d", Token: owned[0].Token, Code: stint.StatusCompleted}},
	}
	f.once(t, "Transact", stint.ErrTaskExists, func() error { return transact(ctx, f, both) })
	f.wantState(t, "d", stint.StateInProgress, 1)
	both.Insert[0].ID = "successor"
	f.once(t, "Transact", nil, func() error { return transact(ctx, f, both) })
	f.wantState(t, "d", stint.StateCompleted, 1)
	f.wantState(t, "successor", stint.StateReady, 0)
	f.once(t, "Transact", f.unrepeated(), func() error {
		return transact(ctx, f, client.Transaction{Delete: []stint.TaskID{"successor"}})
	})
	_, err = f.store.GetTasks(ctx, []stint.TaskID{"successor"})
	if errors.Is(err, stint.ErrTaskNotFound) != f.takesPlace() {
		t.Errorf("GetTasks of a task that may have been deleted = %v", err)
	}
}

// A network that keeps everything back for a while, and delivers it when the client has given up,
// does no harm either.
func TestClient_TakesEffectOnceWhenTheNetworkFreezes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.insert(t, stint.Task{ID: "a", Action: "a"}, stint.Task{ID: "b", Action: "b"},
		stint.Task{ID: "c", Action: "c"})
	ctx := t.Context()
	own := func(action string) stint.OwnedTask {
		owned, err := r.OwnTasks(ctx, "actor", 1, []string{action}, time.Hour)
		if err != nil || len(owned) != 1 {
			t.Fatalf("OwnTasks = %q, %v", ids(owned), err)
		}
		return owned[0]
	}
	a, b := own("a"), own("b")
	for name, call := range map[string]func(c *client.Client) error{
		"insert": func(c *client.Client) error {
			return c.InsertTasks(ctx, []stint.Task{{ID: "d", Action: "d"}})
		},
		"return": func(c *client.Client) error {
			return c.ReturnTask(ctx, "a", a.Token, "", stint.StatusCompleted)
		},
		"transact": func(c *client.Client) error {
			return transact(ctx, c, client.Transaction{
				Insert: []stint.Task{{ID: "e", Action: "e"}},
				Return: []stint.Return{{ID: "b", Token: b.Token, Code: stint.StatusCompleted}},
			})
		},
		"own": func(c *client.Client) error {
			owned, err := c.OwnTasks(ctx, "actor", 1, []string{"c"}, time.Hour)
			if err == nil && (len(owned) != 1 || owned[0].Try != 1) {
				t.Errorf("OwnTasks = %+v", owned)
			}
			for _, task := range owned {
				err = c.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := testservice.NewProxy(t, strings.TrimPrefix(r.address, "http://"))
			c := testservice.Client(t, proxy.Address(), client.Options{})
			wantErr(t, "GetTasks", errOf(c.GetTasks(ctx, []stint.TaskID{"a"})), nil)
			const longerThanPings = 2500 * time.Millisecond
			proxy.Freeze(true)
			thaw := time.AfterFunc(longerThanPings, func() { proxy.Freeze(false) })
			defer thaw.Stop()
			wantErr(t, name, call(c), nil)
		})
	}
}

// transact leaves out what the transaction did.
func transact(
	ctx context.Context, c interface {
		Transact(context.Context, client.Transaction) (client.Transacted, error)
	}, t client.Transaction,
) error {
	_, err := c.Transact(ctx, t)
	return err
}
