package stinttest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

func TestMain(m *testing.M) { stinttest.Main(m) }

// newStore returns a store whose tables must agree with one another when the test ends.
func newStore(t *testing.T, options stint.Options) *stinttest.Store {
	t.Helper()
	store := stinttest.New(t, options)
	t.Cleanup(func() {
		found, err := store.Check(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Errorf("Check = %v", err)
		}
		for _, inconsistency := range found {
			t.Error(inconsistency)
		}
	})
	return store
}

func insert(t *testing.T, store *stinttest.Store, tasks ...stint.Task) {
	t.Helper()
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatalf("InsertTasks = %v", err)
	}
}

func own(t *testing.T, store *stinttest.Store, n int) []stint.OwnedTask {
	t.Helper()
	owned, err := store.OwnTasks(t.Context(), "actor", n, []string{"act"}, time.Hour)
	if err != nil {
		t.Fatalf("OwnTasks = %v", err)
	}
	return owned
}

func wantState(t *testing.T, store *stinttest.Store, state stint.State, ids ...stint.TaskID) {
	t.Helper()
	infos, err := store.GetTasks(t.Context(), ids)
	if err != nil {
		t.Fatalf("GetTasks = %v", err)
	}
	for _, info := range infos {
		if info.State != state {
			t.Errorf("task %q is %s, want %s", info.ID, info.State, state)
		}
	}
}

// newWorker returns a worker that performs tasks with action "act".
func newWorker(t *testing.T, store *stinttest.Store, handler worker.Handler) *worker.Worker {
	t.Helper()
	w, err := worker.New(store.Store, worker.Options{}, worker.Handle("act", handler))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func done(context.Context, *worker.Task) (worker.Result, error) { return worker.Result{}, nil }

func wantPerformed(t *testing.T, performed []worker.Performed, want ...string) {
	t.Helper()
	got := make([]string, len(performed))
	for i, p := range performed {
		got[i] = fmt.Sprintf("%s %d %s", p.Task.ID, p.Task.Try, p.Outcome)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Drain performed %q, want %q", got, want)
	}
}

// A fakeTB is a test that may fail.
type fakeTB struct {
	testing.TB
	failure string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns the message with which a test fails.
func failure(t *testing.T, test func(tb testing.TB)) string {
	t.Helper()
	fake := &fakeTB{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(fake)
	}()
	<-ended
	return fake.failure
}

func wantFailure(t *testing.T, want string, test func(tb testing.TB)) {
	t.Helper()
	want = strings.TrimSuffix(want, "\n")
	if got := failure(t, test); got != want {
		t.Errorf("the test fails with\n%s\nwant\n%s", got, want)
	}
}
