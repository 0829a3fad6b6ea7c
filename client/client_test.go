package client_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/internal/testing/testverbs"
	"github.com/stint-tasks/stint/service"
)

func TestMain(m *testing.M) {
	if database := os.Getenv(replicaDatabase); database != "" {
		os.Exit(serveReplica(database))
	}
	if address := os.Getenv(farAddress); address != "" {
		os.Exit(ownFar(address))
	}
	testdb.Main(m)
}

const patience = 2 * time.Minute

// A remote is a client of a service, with the store of the service.
type remote struct {
	*client.Client
	store   *stint.Store
	pool    *pgxpool.Pool
	address string
	cuts    *cutter
}

func newRemote(t *testing.T, options stint.Options) *remote {
	t.Helper()
	pool := testdb.New(t)
	if options.PollInterval == 0 {
		options.PollInterval = 20 * time.Millisecond
	}
	store, err := stint.New(pool, options)
	wantErr(t, "New", err, nil)
	t.Cleanup(func() {
		wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
		found, err := checked(t, pool)
		if err != nil || len(found) > 0 {
			t.Errorf("Check = %v, %v", found, err)
		}
	})
	address, _ := testservice.Start(t, pool, store, service.Options{})
	cuts := &cutter{next: newTransport()}
	return &remote{
		Client: testservice.Client(t, address, client.Options{
			HTTPClient: &http.Client{Transport: cuts},
		}),
		store: store, pool: pool, address: address, cuts: cuts,
	}
}

func checked(t *testing.T, pool *pgxpool.Pool) ([]stint.Inconsistency, error) {
	t.Helper()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "New", err, nil)
	ctx := context.WithoutCancel(t.Context())
	defer func() { wantErr(t, "Close", store.Close(ctx), nil) }()
	return store.Check(ctx)
}

func newTransport() *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols}
}

var errCut = errors.New("the connection was cut")

// A cutter loses requests on their way, or the answers to them.
type cutter struct {
	next     http.RoundTripper
	requests atomic.Int32 // to lose
	answers  atomic.Int32
	lost     chan struct{} // an answer was lost; nil if nobody wants to know
}

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.requests.Add(-1) >= 0 {
		return nil, errCut
	}
	response, err := c.next.RoundTrip(r)
	if err != nil || c.answers.Add(-1) < 0 {
		return response, err
	}
	// The service has answered when the body is at its end.
	for buffer := make([]byte, 1<<10); err == nil; {
		_, err = response.Body.Read(buffer)
	}
	err = errors.Join(errCut, response.Body.Close())
	if c.lost != nil {
		c.requests.Store(1)
		c.lost <- struct{}{}
	}
	return nil, err
}

func wantErr(t *testing.T, call string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s = %v, want %v", call, got, want)
	}
}

func ids(tasks []stint.OwnedTask) []stint.TaskID {
	var ids []stint.TaskID
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

func (r *remote) insert(t *testing.T, tasks ...stint.Task) {
	t.Helper()
	wantErr(t, "InsertTasks", r.InsertTasks(t.Context(), tasks), nil)
}

func (r *remote) own(t *testing.T, n int) []stint.OwnedTask {
	t.Helper()
	owned, err := r.OwnTasks(t.Context(), "actor", n, []string{"act"}, time.Hour)
	if err != nil || len(owned) != n {
		t.Fatalf("OwnTasks = %q, %v, want %d tasks", ids(owned), err, n)
	}
	return owned
}

// What goes through the service comes out as the store has it.
func TestClient_TellsWhatTheStoreTells(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	r.insertOdd(t, at)
	all := []stint.TaskID{"a", "b", "c"}
	owned := r.own(t, 1)
	wantErr(t, "SetStatus", r.SetStatus(ctx, owned[0], "half", 0.5), nil)
	fence, err := r.Fence(ctx, owned[0])
	if err != nil || fence <= 1<<50 {
		t.Errorf("Fence = %d, %v", fence, err)
	}
	remote, err := r.GetTasks(ctx, all)
	direct, err2 := r.store.GetTasks(ctx, all)
	same(t, "GetTasks", utc(remote), utc(direct), err, err2)
	for _, filter := range []stint.Filter{
		{States: []stint.State{stint.StateBlocked}},
		{Key: "\u00fc"},
		{Body: "$.n == 7"},
		{Status: "HAL"},
	} {
		page, err := r.ListTasks(ctx, filter)
		want, err2 := r.store.ListTasks(ctx, filter)
		page.Tasks, want.Tasks = utc(page.Tasks), utc(want.Tasks)
		same(t, "ListTasks", page, want, err, err2)
		if len(page.Tasks) != 1 {
			t.Errorf("ListTasks of %+v has %d tasks, want 1", filter, len(page.Tasks))
		}
	}
	graph, err := r.Graph(ctx, "a")
	wantGraph, err2 := r.store.Graph(ctx, "a")
	graph.Tasks, wantGraph.Tasks = utc(graph.Tasks), utc(wantGraph.Tasks)
	same(t, "Graph", graph, wantGraph, err, err2)
	why, err := r.Explain(ctx, "b")
	if err != nil || why.Missing != 1 || len(why.WaitsFor) != 1 || why.TriesLeft != -1 {
		t.Errorf("Explain = %+v, %v", why, err)
	}
	wantStats, err2 := r.store.Stats(ctx)
	for err2 == nil && wantStats.Actions[0].Tries == 0 { // it is counted once a second
		<-time.After(10 * time.Millisecond)
		wantStats, err2 = r.store.Stats(ctx)
	}
	stats, err := r.Stats(ctx)
	stats.PruningBehind, wantStats.PruningBehind = 0, 0
	for i := range stats.Actions {
		stats.Actions[i].OldestReady, wantStats.Actions[i].OldestReady = 0, 0
	}
	same(t, "Stats", stats, wantStats, err, err2)
	problems, err := r.Problems(ctx, 10)
	if err != nil || len(problems.Slow) != 1 {
		t.Errorf("Problems = %+v, %v", problems, err)
	}
}

// What is done through the service is done as the store does it.
func TestClient_DoesWhatTheStoreDoes(t *testing.T) {
	t.Parallel()
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	r.insertOdd(t, time.Now().Add(time.Hour))
	first := r.own(t, 1)[0]
	if first.ID != "a" || string(first.Body) != "\x00\xff" || first.MaxTries != 3 {
		t.Errorf("OwnTasks gave %+v", first)
	}
	verdicts, err := r.ReturnTasks(ctx, []stint.Return{{
		ID: "a", Token: first.Token, Code: stint.StatusCompleted, Result: []byte{},
	}})
	if err != nil || verdicts[0] != nil {
		t.Fatalf("ReturnTasks = %v, %v", verdicts, err)
	}
	info, err := r.WaitForTask(ctx, "a")
	if err != nil || info.StatusCode != stint.StatusCompleted || info.Result == nil {
		t.Errorf("WaitForTask = %+v, %v", info, err)
	}
	next := r.own(t, 1)[0]
	if next.ID != "b" || next.Body == nil || next.MaxTries != stint.UnlimitedTries ||
		next.Completed != 1 || next.LeaseUntil.IsZero() {
		t.Errorf("OwnTasks gave %+v", next)
	}
	inputs, err := r.Inputs(ctx, next)
	wantInputs, err2 := r.store.Inputs(ctx, next)
	same(t, "Inputs", inputs, wantInputs, err, err2)
	c := []stint.TaskID{"c"}
	told, err := r.DryRun().AbortTasks(ctx, c, "why not")
	same(t, "DryRun.AbortTasks", told, stint.Affected{Tasks: c}, err)
	aborted, err := r.AbortTasks(ctx, c, "why not")
	same(t, "AbortTasks", aborted, stint.Affected{Tasks: c}, err)
	told, err = r.DryRun().RetryTasks(ctx, c)
	same(t, "DryRun.RetryTasks", told, stint.Affected{Tasks: c}, err)
	told, err = r.DryRun().DeleteTasks(ctx, c)
	same(t, "DryRun.DeleteTasks", told, stint.Affected{Tasks: c}, err)
	told, err = r.DryRun().AbortTasks(ctx, []stint.TaskID{next.ID}, "")
	same(t, "DryRun.AbortTasks", told, stint.Affected{
		Tasks: []stint.TaskID{next.ID}, InProgress: 1,
	}, err)
	retried, err := r.RetryTasks(ctx, c)
	same(t, "RetryTasks", retried, stint.Affected{Tasks: c}, err)
	deleted, err := r.DeleteTasks(ctx, c)
	same(t, "DeleteTasks", deleted, stint.Affected{Tasks: c}, err)
	r.insert(t, stint.Task{ID: "ask", Action: stint.External}, stint.Task{
		ID: "then", Action: stint.External, After: []stint.TaskID{"ask"},
	})
	answers, err := r.AnswerTasks(ctx, "ann", []stint.Answer{
		{ID: "then", Code: stint.StatusCompleted},
		{ID: "ask", Code: stint.StatusCompleted, Status: "fine", Result: []byte{}},
	})
	wantErr(t, "AnswerTasks", err, nil)
	wantErr(t, "an answer", answers[1], nil)
	wantErr(t, "an answer to a blocked task", answers[0], stint.ErrTaskBlocked)
	asked, err := r.store.GetTasks(ctx, []stint.TaskID{"ask"})
	if err != nil || asked[0].Actor != "ann" || asked[0].Status != "fine" ||
		asked[0].Result == nil {
		t.Errorf("GetTasks = %+v, %v", asked, err)
	}
}

// Tasks that wait are changed once, and a dry run says so before.
func TestClient_ChangesTasksAsTheStoreDoes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	r.insertOdd(t, time.Now().Add(time.Hour))
	c := []stint.TaskID{"c"}
	to := stint.TaskChanges{
		NotBefore: time.Now().Add(time.Hour).Truncate(time.Microsecond),
		Priority:  new(int16(0)), Key: new(""), MaxTries: stint.UnlimitedTries,
	}
	direct := testverbs.Changes(ctx, r.store.DryRun())
	for name, verb := range testverbs.Changes(ctx, r.DryRun()) {
		told, err := verb(c)
		want, directErr := direct[name](c)
		same(t, "DryRun."+name, told, want, err, directErr)
	}
	told, err := r.DryRun().ChangeTasks(ctx, c, to)
	same(t, "DryRun.ChangeTasks", told, stint.Affected{Tasks: c}, err)
	for _, want := range []stint.Affected{{Tasks: c}, {}} {
		changed, err := r.ChangeTasks(ctx, c, to)
		same(t, "ChangeTasks", changed, want, err)
	}
	changed, err := r.ChangeTasks(ctx, c, stint.TaskChanges{StartNow: true})
	same(t, "ChangeTasks", changed, stint.Affected{Tasks: c}, err)
}

// insertOdd inserts tasks with values of all kinds: b waits for a, and c until a time.
func (r *remote) insertOdd(t *testing.T, at time.Time) {
	t.Helper()
	r.insert(t,
		stint.Task{
			ID: "a", Action: "act", Body: []byte{0, 0xff}, Priority: -7, MaxTries: 3,
			PostResult: true, Key: "k",
		},
		stint.Task{
			ID: "b", Action: "act", Body: []byte{}, Deadline: at, OnAbort: stint.RunAnyway,
			MaxTries: stint.UnlimitedTries, After: []stint.TaskID{"a"},
		},
		stint.Task{
			ID: "c", Action: "other", Body: []byte(`{"n": 7}`), Key: "\u00fc", NotBefore: at,
		})
}

func same(t *testing.T, what string, remote, direct any, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil || !reflect.DeepEqual(remote, direct) {
		t.Errorf("%s = %+v, %v\nwant %+v", what, remote, err, direct)
	}
}

// utc puts all times into one zone.
func utc(infos []stint.TaskInfo) []stint.TaskInfo {
	for i := range infos {
		info := &infos[i]
		for _, at := range []*time.Time{
			&info.Deadline, &info.InsertedAt, &info.NotBefore, &info.FinishedAt, &info.OwnedAt,
			&info.LeaseUntil,
		} {
			*at = at.UTC()
		}
	}
	return infos
}

// Errors match, and name what those of the store name.
func TestClient_FailsAsTheStoreFails(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	r.insert(t, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"},
		stint.Task{ID: "c", Action: "act", After: []stint.TaskID{"b"}})
	owned := r.own(t, 1)[0]
	for name, calls := range map[string][2]error{
		"exists": {
			r.InsertTasks(ctx, []stint.Task{{ID: "a", Action: "x"}, {ID: "new", Action: "x"}}),
			r.store.InsertTasks(ctx,
				[]stint.Task{{ID: "a", Action: "x"}, {ID: "new", Action: "x"}}),
		},
		"argument": {
			r.InsertTasks(ctx, []stint.Task{{ID: "x", Action: "x"}, {ID: "y"}}),
			r.store.InsertTasks(ctx, []stint.Task{{ID: "x", Action: "x"}, {ID: "y"}}),
		},
		"no UTF-8": {
			r.InsertTasks(ctx, []stint.Task{{ID: "x", Action: "x"}, {ID: "y", Action: "\xff"}}),
			r.store.InsertTasks(ctx,
				[]stint.Task{{ID: "x", Action: "x"}, {ID: "y", Action: "\xff"}}),
		},
		"not found": {
			errOf(r.AbortTasks(ctx, []stint.TaskID{"a", "x", "y"}, "")),
			errOf(r.store.AbortTasks(ctx, []stint.TaskID{"a", "x", "y"}, "")),
		},
		"started": {
			errOf(r.ChangeTasks(ctx, []stint.TaskID{"a"}, stint.TaskChanges{StartNow: true})),
			errOf(r.store.ChangeTasks(ctx, []stint.TaskID{"a"}, stint.TaskChanges{StartNow: true})),
		},
		"no changes": {
			errOf(r.ChangeTasks(ctx, []stint.TaskID{"a"}, stint.TaskChanges{})),
			errOf(r.store.ChangeTasks(ctx, []stint.TaskID{"a"}, stint.TaskChanges{})),
		},
		"in progress": {
			errOf(r.DeleteTasks(ctx, []stint.TaskID{"a"})),
			errOf(r.store.DeleteTasks(ctx, []stint.TaskID{"a"})),
		},
		"cycle": {
			r.AddDependencies(ctx, []stint.Dependency{{Predecessor: "c", Dependent: "b"}}),
			r.store.AddDependencies(ctx, []stint.Dependency{{Predecessor: "c", Dependent: "b"}}),
		},
		"refused": {
			r.AddDependencies(ctx, []stint.Dependency{{Predecessor: "c", Dependent: "a"}}),
			r.store.AddDependencies(ctx, []stint.Dependency{{Predecessor: "c", Dependent: "a"}}),
		},
		"no result": {
			errOf(r.WaitForTask(ctx, "a")), errOf(r.store.WaitForTask(ctx, "a")),
		},
		"token": {
			r.ReturnTask(ctx, "a", stint.Token{1}, "", stint.StatusCompleted),
			r.store.ReturnTask(ctx, "a", stint.Token{1}, "", stint.StatusCompleted),
		},
		"status of another": {
			r.SetStatus(ctx, stint.OwnedTask{ID: "b", Token: owned.Token}, "", 0),
			r.store.SetStatus(ctx, stint.OwnedTask{ID: "b", Token: owned.Token}, "", 0),
		},
		"fence of another": {
			errOf(r.Fence(ctx, stint.OwnedTask{ID: "b", Token: owned.Token})),
			errOf(r.store.Fence(ctx, stint.OwnedTask{ID: "b", Token: owned.Token})),
		},
		"lease": {
			errOf(r.OwnTasks(ctx, "actor", 1, []string{"act"}, -1)),
			errOf(r.store.OwnTasks(ctx, "actor", 1, []string{"act"}, -1)),
		},
	} {
		wantSameError(t, name, calls[0], calls[1])
	}
}

// wantSameError checks that both fail, with the same text and the same sentinels.
func wantSameError(t *testing.T, name string, remote, direct error) {
	t.Helper()
	if direct == nil || remote == nil || remote.Error() != direct.Error() {
		t.Errorf("%s: %v, want %v", name, remote, direct)
		return
	}
	for _, sentinel := range []error{
		stint.ErrTaskExists, stint.ErrInvalidArgument, stint.ErrTaskNotFound,
		stint.ErrTaskInProgress, stint.ErrCycle, stint.ErrTaskStarted, stint.ErrNoPostResult,
		stint.ErrInvalidToken, stint.ErrAlreadyReturned,
	} {
		if errors.Is(remote, sentinel) != errors.Is(direct, sentinel) {
			t.Errorf("%s: %v is %v: %t", name, remote, sentinel, errors.Is(remote, sentinel))
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// Whether the requests are lost on their way or the answers, each call takes effect once.
func TestClient_RepeatsWhatWasLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, lose := range map[string]func(*cutter) *atomic.Int32{
		"requests": func(c *cutter) *atomic.Int32 { return &c.requests },
		"answers":  func(c *cutter) *atomic.Int32 { return &c.answers },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, stint.Options{})
			ctx := t.Context()
			lost := func(what string, call func() error) {
				t.Helper()
				lose(r.cuts).Store(2)
				wantErr(t, what, call(), nil)
				if left := lose(r.cuts).Swap(0); left >= 0 && left != 0 {
					t.Errorf("%s: %d calls were not lost", what, left)
				}
			}
			lost("InsertTasks", func() error {
				return r.InsertTasks(ctx, []stint.Task{
					{ID: "a", Action: "act", PostResult: true},
					{ID: "b", Action: "act"},
					{ID: "c", Action: "act"},
				})
			})
			var owned []stint.OwnedTask
			lost("OwnTasks", func() (err error) {
				owned, err = r.OwnTasks(ctx, "actor", 2, []string{"act"}, time.Hour)
				return err
			})
			want := []stint.TaskID{"a", "b"}
			if got := ids(owned); !slices.Equal(got, want) || owned[0].Try != 1 {
				t.Fatalf("OwnTasks gave %q, try %d", got, owned[0].Try)
			}
			lost("SetStatus", func() error { return r.SetStatus(ctx, owned[0], "half", 0.5) })
			lost("ExtendTasksOwnership", func() error {
				kept, err := r.ExtendTasksOwnership(ctx, "actor", owned, 2*time.Hour)
				if err == nil && !slices.Equal(kept, []bool{true, true}) {
					t.Errorf("ExtendTasksOwnership = %t", kept)
				}
				return err
			})
			lost("ReturnTask", func() error {
				return r.ReturnTask(ctx, "a", owned[0].Token, "", stint.StatusCompleted)
			})
			lost("WaitForTask", func() error { return errOf(r.WaitForTask(ctx, "a")) })
			lost("DeleteTasks", func() error {
				return errOf(r.DeleteTasks(ctx, []stint.TaskID{"a"}))
			})
			lost("ChangeTasks", func() error {
				changes := stint.TaskChanges{Priority: new(int16(-1))}
				return errOf(r.ChangeTasks(ctx, []stint.TaskID{"c"}, changes))
			})
			lost("AbortTasks", func() error {
				return errOf(r.AbortTasks(ctx, []stint.TaskID{"b"}, ""))
			})
			rest := r.own(t, 1)
			if rest[0].ID != "c" || rest[0].Try != 1 {
				t.Errorf("OwnTasks gave try %d of %s, want the first of c", rest[0].Try, rest[0].ID)
			}
		})
	}
}

// A caller that leaves when its answer was lost has been given nothing in the end.
func TestOwnTasks_GivesBackWhatWasHandedOutUnseen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.insert(t, stint.Task{ID: "a", Action: "act"})
	r.cuts.answers.Store(1)
	r.cuts.lost = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // the caller leaves, and the first attempt to give back is lost as well
		<-r.cuts.lost
		cancel()
	}()
	_, err := r.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
	if err == nil {
		t.Fatal("OwnTasks succeeds although its answer was lost")
	}
	next, err := r.store.WaitToOwnTasks(t.Context(), "other", 1, []string{"act"}, time.Hour)
	if err != nil || len(next) != 1 || next[0].Try != 1 {
		t.Errorf("WaitToOwnTasks = %+v, %v, want the first try", next, err)
	}
}

// A call that the service does not read for its size is not repeated.
func TestInsertTasks_SaysThatACallIsTooLarge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	body := make([]byte, 33<<20)
	err := r.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act", Body: body}, {ID: "b", Action: "act", Body: body},
	})
	wantErr(t, "InsertTasks", err, stint.ErrTooLarge)
	_, err = r.GetTasks(t.Context(), []stint.TaskID{"a"})
	wantErr(t, "GetTasks", err, stint.ErrTaskNotFound)
}

func TestNew_RefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "localhost:7330", "postgres://localhost", "http://", "\x00",
	} {
		_, err := client.New(address, client.Options{})
		wantErr(t, "New("+address+")", err, stint.ErrInvalidArgument)
	}
}
