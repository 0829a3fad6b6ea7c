package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

type addition struct{ A, B int }

func TestHandleJSON_DecodesTheBodyAndEncodesTheResult(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	insert(t, store,
		stint.Task{ID: "a", Action: "add", Body: []byte(`{"A": 1, "B": 2}`)},
		stint.Task{ID: "b", Action: "nothing", Body: []byte(`{}`)})
	add := func(_ context.Context, task *worker.Task, p addition) (map[string]int, error) {
		return map[string]int{"sum": p.A + p.B, "try": task.Try}, nil
	}
	nothing := func(context.Context, *worker.Task, addition) (struct{}, error) {
		return struct{}{}, nil
	}
	run(t, newWorker(t, store, worker.Options{},
		worker.HandleJSON("add", add), worker.HandleJSON("nothing", nothing)))
	infos := finished(t, store, "a", "b")
	if got := string(infos[0].Result); got != `{"sum":3,"try":1}` {
		t.Errorf("result = %s", got)
	}
	if got := string(infos[1].Result); got != `{}` {
		t.Errorf("result = %s", got)
	}
}

// notAdditions are bodies that are not the JSON of an addition.
func notAdditions() map[stint.TaskID][]byte {
	return map[stint.TaskID][]byte{
		"none": nil, "empty": {}, "not JSON": []byte("{"), "of another type": []byte(`{"A": "x"}`),
		"with more behind": []byte(`{} {}`),
	}
}

// A body that this worker cannot decode may be one that another can.
// Proves G294.
func TestHandleJSON_TriesAgainWhatIsNotItsJSON(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	bodies := notAdditions()
	var dependents []stint.TaskID
	for id, body := range bodies {
		insert(t, store, stint.Task{ID: id, Action: "add", Body: body})
		dependents = append(dependents, id+"/after")
		insert(t, store, stint.Task{
			ID: id + "/after", Action: "after", After: []stint.TaskID{id},
		})
	}
	old, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	logger, logged := recorder(t)
	w := newWorker(t, store, worker.Options{
		Logger: logger, Retry: worker.Retry{Base: time.Millisecond},
	}, worker.HandleJSON("add",
		func(context.Context, *worker.Task, addition) (struct{}, error) {
			t.Error("the handler was called")
			return struct{}{}, nil
		}))
	go func() { ended <- w.Run(old) }()
	logged(t, "handler failed")
	for id := range bodies {
		for info(t, store, id).Tries == 0 {
			<-time.After(10 * time.Millisecond)
		}
	}
	stop()
	if err := receive(t, "the end of Run", ended); err != nil {
		t.Fatal(err)
	}
	for id := range bodies {
		got := info(t, store, id)
		if !got.FinishedAt.IsZero() || !strings.Contains(got.Status, "decode body: ") {
			t.Errorf("got %+v, want it to be tried again", got)
		}
	}
	run(t, newWorker(t, store, worker.Options{}, worker.Handle("add", done), // a new one
		worker.Handle("after", done)))
	for _, got := range finished(t, store, dependents...) {
		if got.State != stint.StateCompleted {
			t.Errorf("got %+v, want it completed", got)
		}
	}
}

// Proves G294.
func TestWithAbortOfUndecodable_AbortsWhatIsNotItsJSON(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	bodies := notAdditions()
	for id, body := range bodies {
		insert(t, store, stint.Task{ID: id, Action: "add", Body: body})
	}
	run(t, newWorker(t, store, worker.Options{}, worker.HandleJSON("add",
		func(context.Context, *worker.Task, addition) (struct{}, error) {
			t.Error("the handler was called")
			return struct{}{}, nil
		}, worker.WithAbortOfUndecodable())))
	for id := range bodies {
		got := finished(t, store, id)[0]
		if got.AbortCause != stint.CauseReturned || got.Tries != 1 ||
			!strings.HasPrefix(got.Status, "decode body: ") {
			t.Errorf("got %+v, want it aborted for its body", got)
		}
	}
}

func TestHandleJSON_AbortsWhoseResultCannotBeEncoded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a", Body: []byte("1")})
	run(t, newWorker(t, store, worker.Options{}, worker.HandleJSON("a",
		func(context.Context, *worker.Task, int) (chan int, error) {
			return make(chan int), nil
		})))
	got := finished(t, store, "a")[0]
	if got.AbortCause != stint.CauseReturned || !strings.HasPrefix(got.Status, "encode result: ") {
		t.Errorf("got %+v, want it aborted for its result", got)
	}
}
