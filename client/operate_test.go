package client_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/internal/testing/testverbs"
	"github.com/stint-tasks/stint/service"
)

func TestServiceInfo_TellsTheTimeOfTheDatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.insert(t, stint.Task{ID: "a", Action: "act"})
	info, err := r.ServiceInfo(t.Context())
	wantErr(t, "ServiceInfo", err, nil)
	r.insert(t, stint.Task{ID: "b", Action: "act"})
	tasks, err := r.GetTasks(t.Context(), []stint.TaskID{"a", "b"})
	if err != nil || tasks[0].InsertedAt.After(info.Now) || tasks[1].InsertedAt.Before(info.Now) {
		t.Errorf("ServiceInfo = %+v between %+v, %v", info, tasks, err)
	}
	if info.RequestBytesMax < 64<<20 {
		t.Errorf("ServiceInfo = %+v: a request may not hold the largest body", info)
	}
}

// Nobody waits for a service that is not there.
func TestServiceInfo_FailsAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.cuts.requests.Store(1)
	_, err := r.ServiceInfo(t.Context())
	wantErr(t, "ServiceInfo", err, client.ErrUnavailable)
	_, err = r.ServiceInfo(t.Context())
	wantErr(t, "ServiceInfo after the cut", err, nil)
}

// Whoever notices first that a deadline has passed, the error is that of the context.
func TestCalls_EndWithTheDeadlineOfTheirCallers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.insert(t, stint.Task{ID: "a", Action: "act", PostResult: true})
	for range testrun.Rounds(500) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := r.WaitForTask(ctx, "a")
		wantErr(t, "WaitForTask", err, context.DeadlineExceeded)
		_, err = r.ServiceInfo(ctx)
		wantErr(t, "ServiceInfo", err, context.DeadlineExceeded)
		cancel()
	}
}

// Messages are UTF-8: a call that cannot be sent is not tried again and again.
func TestCalls_ThatAreNoUTF8AreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.cuts.requests.Store(1) // an attempt, if there were one
	_, err := r.ListTasks(t.Context(), stint.Filter{IDPrefix: "\xff"})
	wantErr(t, "ListTasks", err, stint.ErrInvalidArgument)
	err = r.ReplaceTasks(t.Context(), []stint.Task{{ID: "\xff", Action: "act"}})
	wantErr(t, "ReplaceTasks", err, stint.ErrInvalidArgument)
}

// A caller learns the IDs of tasks that it has given none, as from a store.
func TestReplaceTasks_TellsTheIDsItGives(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	tasks := []stint.Task{{Action: "act"}}
	wantErr(t, "ReplaceTasks", r.ReplaceTasks(t.Context(), tasks), nil)
	call := client.Transaction{Replace: []stint.Task{{Action: "act"}}}
	_, err := r.Transact(t.Context(), call)
	wantErr(t, "Transact", err, nil)
	_, err = r.GetTasks(t.Context(), []stint.TaskID{tasks[0].ID, call.Replace[0].ID})
	wantErr(t, "GetTasks", err, nil)
}

// seen returns tasks as they are now.
func (r *remote) seen(t *testing.T) []stint.TaskInfo {
	t.Helper()
	page, err := r.ListTasks(t.Context(), stint.Filter{})
	wantErr(t, "ListTasks", err, nil)
	return page.Tasks
}

func idsOfInfos(infos []stint.TaskInfo) (ids []stint.TaskID) {
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}

// Only tasks that are as they were seen are changed, whatever became of the others.
func TestTransact_LeavesOutWhatHasChangedSinceItWasSeen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	for _, id := range []stint.TaskID{"aborted", "deleted", "new", "owned", "same", "unseen"} {
		r.insert(t, stint.Task{ID: id, Action: string(id)})
	}
	all := r.seen(t)
	seen := slices.DeleteFunc(slices.Clone(all), func(info stint.TaskInfo) bool {
		return info.ID == "unseen"
	})
	ids := idsOfInfos(all)
	_, err := r.AbortTasks(ctx, []stint.TaskID{"aborted"}, "")
	wantErr(t, "AbortTasks", err, nil)
	_, err = r.DeleteTasks(ctx, []stint.TaskID{"deleted", "new"})
	wantErr(t, "DeleteTasks", err, nil)
	r.insert(t, stint.Task{ID: "new", Action: "new"})
	owned, err := r.OwnTasks(ctx, "actor", 1, []string{"owned"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	states := []stint.State{stint.StateReady}
	same1 := []stint.TaskID{"same"}
	changed, err := r.AsSeen(states, seen, false).ChangeTasks(ctx, idsOfInfos(seen),
		stint.TaskChanges{Priority: new(int16(1))})
	same(t, "AsSeen.ChangeTasks", changed, stint.Affected{Tasks: same1}, err)
	rest := slices.DeleteFunc(slices.Clone(seen), func(info stint.TaskInfo) bool {
		return info.ID == "same"
	})
	for name, change := range testverbs.Changes(ctx, r.AsSeen(states, rest, false)) {
		changed, err := change(idsOfInfos(rest))
		same(t, "AsSeen."+name+" of the rest", changed, stint.Affected{}, err)
	}
	done, err := r.Transact(ctx, client.Transaction{Abort: ids, Seen: seen, SeenStates: states})
	same(t, "Transact", done, client.Transacted{Aborted: stint.Affected{Tasks: same1}}, err)
	done, err = r.Transact(ctx, client.Transaction{Delete: ids, Seen: seen, SeenStates: states})
	same(t, "Transact again", done, client.Transacted{}, err)
	states = []stint.State{stint.StateAborted}
	done, err = r.Transact(ctx, client.Transaction{
		Retry: ids, Seen: r.seen(t), SeenStates: states,
	})
	wantErr(t, "Transact", err, nil)
	slices.Sort(done.Retried.Tasks)
	if want := []stint.TaskID{"aborted", "same"}; !slices.Equal(done.Retried.Tasks, want) {
		t.Errorf("Transact retried %q, want %q", done.Retried.Tasks, want)
	}
}

// A repetition after a lost answer finds the tasks changed, and leaves them.
func TestTransact_OfSeenTasksIsRepeated(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.insert(t, stint.Task{ID: "a", Action: "act"})
	_, err := r.AbortTasks(t.Context(), []stint.TaskID{"a"}, "")
	wantErr(t, "AbortTasks", err, nil)
	seen := r.seen(t)
	r.cuts.answers.Store(1)
	_, err = r.Transact(t.Context(), client.Transaction{
		Retry: []stint.TaskID{"a"}, Seen: seen, SeenStates: []stint.State{stint.StateAborted},
	})
	wantErr(t, "Transact", err, nil)
	if now := r.seen(t); now[0].State != stint.StateReady {
		t.Errorf("the task is %+v, want it ready", now[0])
	}
}

func TestPruneTasks_DeletesWhatFinishedLongAgo(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	for _, id := range []stint.TaskID{"a", "b", "c"} {
		r.insert(t, stint.Task{ID: id, Action: "act"})
	}
	_, err := r.AbortTasks(ctx, []stint.TaskID{"a", "b"}, "")
	wantErr(t, "AbortTasks", err, nil)
	for _, test := range []struct {
		keep stint.Retention
		dry  bool
		want int64
		left string
	}{
		{stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepForever}, false, 0, "abc"},
		{stint.Retention{Completed: stint.KeepNone, Aborted: time.Hour}, false, 0, "abc"},
		{stint.Retention{Completed: stint.KeepForever, Aborted: stint.KeepNone}, true, 2, "abc"},
		{stint.Retention{Completed: stint.KeepForever, Aborted: stint.KeepNone}, false, 2, "c"},
	} {
		pruned, err := r.PruneTasks(ctx, test.keep, test.dry)
		var left strings.Builder
		for _, info := range r.seen(t) {
			left.WriteString(string(info.ID))
		}
		if err != nil || pruned != test.want || left.String() != test.left {
			t.Errorf("PruneTasks(%+v, %t) = %d, %v, and %s are left, want %d and %s", test.keep,
				test.dry, pruned, err, left.String(), test.want, test.left)
		}
	}
	_, err = r.PruneTasks(ctx, stint.Retention{Aborted: time.Hour}, false)
	wantErr(t, "PruneTasks without an age", err, stint.ErrInvalidArgument)
}

func TestCheck_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	missing := func(f client.Finding) bool {
		return f.Severity == "error" && f.Topic == "schema" &&
			strings.Contains(f.Text, "index ready_order is missing")
	}
	for _, index := range []struct {
		rename string
		found  bool
	}{
		{"ALTER INDEX stint.ready_order RENAME TO other", true},
		{"ALTER INDEX stint.other RENAME TO ready_order", false},
	} {
		if _, err := r.pool.Exec(t.Context(), index.rename); err != nil {
			t.Fatal(err)
		}
		findings, err := r.Check(t.Context())
		if found := slices.ContainsFunc(findings, missing); err != nil || found != index.found {
			t.Errorf("Check = %+v, %v, found %t, want %t", findings, err, found, index.found)
		}
	}
}

// Calls that may change any number of tasks have the time that this takes: the service is not told
// to give up before.
// Proves G5.
func TestCalls_ThatChangeManyTasksMayTakeLong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{})
	wantErr(t, "New", err, nil)
	t.Cleanup(func() {
		wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
	})
	var told sync.Map // the milliseconds that a method is given, as "60000m"
	at, _ := testservice.StartBehind(t, pool, store, service.Options{},
		func(s http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				told.Store(path.Base(r.URL.Path), r.Header.Get("Grpc-Timeout"))
				s.ServeHTTP(w, r)
			})
		})
	c := testservice.Client(t, at, client.Options{})
	ids := []stint.TaskID{"a"}
	changes := testverbs.Changes(t.Context(), c)
	changes["Transact"] = func(ids []stint.TaskID) (stint.Affected, error) {
		return stint.Affected{}, errOf(c.Transact(t.Context(), client.Transaction{Abort: ids}))
	}
	for method, change := range changes {
		wantErr(t, method, errOf(change(ids)), stint.ErrTaskNotFound)
		limit, _ := told.Load(method)
		took, err := time.ParseDuration(fmt.Sprint(limit, "s"))
		if err != nil || took < time.Hour {
			t.Errorf("%s is given %v, want an hour at least", method, limit)
		}
	}
}
