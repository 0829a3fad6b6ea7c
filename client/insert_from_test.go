package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

var errSource = errors.New("the source fails")

func streamID(i int) stint.TaskID { return stint.TaskID(fmt.Sprintf("t%06d", i)) }

// stream yields n tasks, and calls then, if it is given, before it yields one more or the error
// that then returns.
func stream(n int, then func() error) iter.Seq2[stint.Task, error] {
	return func(yield func(stint.Task, error) bool) {
		for i := range n {
			if !yield(stint.Task{ID: streamID(i), Action: "act", Body: []byte{1}}, nil) {
				return
			}
		}
		if then != nil {
			err := then()
			yield(stint.Task{ID: "last", Action: "act"}, err)
		}
	}
}

// wantTasks checks how many tasks are in the store.
func (r *remote) wantTasks(t *testing.T, want int) {
	t.Helper()
	var got int
	err := r.pool.QueryRow(t.Context(), "SELECT count(*) FROM stint.tasks").Scan(&got)
	if err != nil || got != want {
		t.Errorf("%d tasks are in the store, %v; want %d", got, err, want)
	}
}

// wantIdle waits until no transaction is open any more.
func (r *remote) wantIdle(t *testing.T) {
	t.Helper()
	r.awaitOpen(t, func(n int) bool { return n == 0 })
}

// awaitOpen waits until as many transactions are open as they should be.
func (r *remote) awaitOpen(t *testing.T, enough func(n int) bool) {
	t.Helper()
	const open = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
		AND pid <> pg_backend_pid() AND (state LIKE 'idle in transaction%'
			OR state = 'active' AND query ILIKE 'copy %')`
	for late := time.After(patience); ; {
		var n int
		wantErr(t, "count", r.pool.QueryRow(t.Context(), open).Scan(&n), nil)
		if enough(n) {
			return
		}
		select {
		case <-late:
			t.Fatalf("%d transactions are open", n)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestInsertTasksFrom_InsertsAllThatTheSequenceYields(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const n = 100_000
	r := newRemote(t, stint.Options{})
	inserted, err := r.InsertTasksFrom(t.Context(), stream(n, nil))
	for errors.Is(err, client.ErrUnavailable) { // a busy machine answers pings too late
		_, missing := r.GetTasks(t.Context(), []stint.TaskID{streamID(0)})
		if inserted, err = n, missing; errors.Is(missing, stint.ErrTaskNotFound) {
			inserted, err = r.InsertTasksFrom(t.Context(), stream(n, nil))
		}
	}
	if err != nil || inserted != n {
		t.Fatalf("InsertTasksFrom = %d, %v", inserted, err)
	}
	r.wantTasks(t, n)
	info, err := r.GetTasks(t.Context(), []stint.TaskID{streamID(n - 1)})
	if err != nil || string(info[0].Body) != "\x01" {
		t.Errorf("GetTasks = %+v, %v", info, err)
	}
}

func TestInsertTasksFrom_TakesAnEmptySequenceAndLargeTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	inserted, err := r.InsertTasksFrom(t.Context(), stream(0, nil))
	if err != nil || inserted != 0 {
		t.Errorf("InsertTasksFrom of nothing = %d, %v", inserted, err)
	}
	large := func(yield func(stint.Task, error) bool) {
		for i := range 3 {
			if !yield(stint.Task{Action: "act", Body: make([]byte, 3<<20+i)}, nil) {
				return
			}
		}
		yield(stint.Task{ID: "b", Action: "act", After: []stint.TaskID{"a"}}, nil)
	}
	inserted, err = r.InsertTasksFrom(t.Context(), large)
	for errors.Is(err, client.ErrUnavailable) { // a busy machine answers pings too late
		inserted, err = r.InsertTasksFrom(t.Context(), large)
	}
	wantErr(t, "InsertTasksFrom of what waits for nobody", err, stint.ErrTaskNotFound)
	if inserted != 0 {
		t.Errorf("%d tasks are inserted", inserted)
	}
	r.wantTasks(t, 0)
}

// A sequence that fails half-way has inserted nothing.
func TestInsertTasksFrom_InsertsNothingAfterAnErrorOfTheSequence(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	_, err := r.InsertTasksFrom(t.Context(), stream(2500, func() error { return errSource }))
	wantErr(t, "InsertTasksFrom", err, errSource)
	r.wantIdle(t)
	r.wantTasks(t, 0)
}

// Nor has one that panics, or whose goroutine ends.
// Proves G6.
func TestInsertTasksFrom_InsertsNothingOfASequenceThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	for _, leave := range []func(){func() { panic("the caller's") }, runtime.Goexit} {
		left := make(chan struct{})
		go func() {
			defer close(left)
			defer func() { _ = recover() }()
			_, err := r.InsertTasksFrom(t.Context(), stream(2500, func() error {
				leave()
				return nil
			}))
			t.Errorf("InsertTasksFrom returned %v", err)
		}()
		<-left
		r.wantIdle(t)
		r.wantTasks(t, 0)
	}
}

func TestInsertTasksFrom_NamesTheIDsThatAreTaken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.insert(t, stint.Task{ID: streamID(2100), Action: "act"})
	_, err := r.InsertTasksFrom(t.Context(), stream(2500, nil))
	wantErr(t, "InsertTasksFrom", err, stint.ErrTaskExists)
	var about *stint.TaskError
	if !errors.As(err, &about) || len(about.IDs) != 1 || about.IDs[0] != streamID(2100) {
		t.Errorf("InsertTasksFrom = %v", err)
	}
	r.wantTasks(t, 1)
}

// A task that cannot be inserted ends the call while the sequence still goes on.
func TestInsertTasksFrom_NamesTheTaskThatIsRefused(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	endless := func(yield func(stint.Task, error) bool) {
		for i := 0; ; i++ {
			task := stint.Task{ID: streamID(i), Action: "act", Body: make([]byte, 1<<10)}
			if i == 2100 {
				task.ToSignalAfter = []stint.TaskID{"other"}
			}
			if !yield(task, nil) {
				return
			}
		}
	}
	_, err := r.InsertTasksFrom(t.Context(), endless)
	wantErr(t, "InsertTasksFrom", err, stint.ErrInvalidArgument)
	var about *stint.ArgumentError
	if !errors.As(err, &about) || about.Index != 2100 || about.ID != streamID(2100) {
		t.Errorf("InsertTasksFrom = %+v", about)
	}
	r.wantTasks(t, 0)
}

// Proves G4.
func TestInsertTasksFrom_InsertsNothingWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := r.InsertTasksFrom(ctx, stream(2500, func() error {
		cancel()
		return nil
	}))
	wantErr(t, "InsertTasksFrom", err, context.Canceled)
	r.wantIdle(t)
	r.wantTasks(t, 0)
}

// Proves G4.
func TestInsertTasksFrom_InsertsNothingWhenTheConnectionIsCut(t *testing.T) {
	t.Parallel()
	for name, freeze := range map[string]bool{"cut": false, "frozen": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if freeze {
				testrun.Long(t)
			}
			r := newRemote(t, stint.Options{})
			proxy := testservice.NewProxy(t, r.address[len("http://"):])
			far := testservice.Client(t, proxy.Address(), client.Options{})
			_, err := far.InsertTasksFrom(t.Context(), stream(2500, func() error {
				if freeze {
					proxy.Freeze(true)
				} else {
					proxy.Cut(true)
				}
				r.wantIdle(t)
				return nil
			}))
			wantErr(t, "InsertTasksFrom", err, client.ErrUnavailable)
			r.wantTasks(t, 0)
		})
	}
}

// Whether a call whose answer was lost has taken effect, the caller finds by the IDs.
func TestInsertTasksFrom_IsNotRepeatedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.cuts.answers.Store(1)
	_, err := r.InsertTasksFrom(t.Context(), stream(2500, nil))
	wantErr(t, "InsertTasksFrom", err, client.ErrUnavailable)
	r.wantTasks(t, 2500)
	if left := r.cuts.answers.Load(); left != 0 {
		t.Errorf("%d answers are left to lose, want none", left)
	}
	_, err = r.InsertTasksFrom(t.Context(), stream(2500, nil))
	wantErr(t, "InsertTasksFrom again", err, stint.ErrTaskExists)
}

// A service that stops lets the call finish.
// Proves G4.
func TestInsertTasksFrom_EndsBeforeTheServiceDoes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	address, stop := r.another(t)
	far := testservice.Client(t, address, client.Options{})
	stopped := make(chan error, 1)
	inserted, err := far.InsertTasksFrom(t.Context(), stream(2500, func() error {
		r.awaitOpen(t, func(n int) bool { return n > 0 }) // the service has begun the call
		go func() { stopped <- stop() }()
		for { // until the service takes no more calls
			request, err := http.NewRequestWithContext(
				t.Context(), http.MethodGet, address, http.NoBody)
			if err != nil {
				return err
			}
			response, err := new(http.Transport).RoundTrip(request)
			if err != nil {
				return nil //nolint:nilerr // it refuses the connection
			}
			if err := response.Body.Close(); err != nil {
				return err
			}
		}
	}))
	if err != nil || inserted != 2501 {
		t.Errorf("InsertTasksFrom = %d, %v", inserted, err)
	}
	wantErr(t, "stop", <-stopped, nil)
	r.wantTasks(t, 2501)
}

// another starts another service of the same store.
func (r *remote) another(t *testing.T) (address string, stop func() error) {
	t.Helper()
	return testservice.Start(t, r.pool, r.store, service.Options{})
}
