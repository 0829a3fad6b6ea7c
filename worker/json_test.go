package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
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

func TestHandleJSON_AbortsWhatIsNotItsJSON(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	bodies := map[stint.TaskID][]byte{
		"none": nil, "empty": {}, "not JSON": []byte("{"), "of another type": []byte(`{"A": "x"}`),
		"with more behind": []byte(`{} {}`),
	}
	for id, body := range bodies {
		insert(t, store, stint.Task{ID: id, Action: "add", Body: body})
	}
	run(t, newWorker(t, store, worker.Options{}, worker.HandleJSON("add",
		func(context.Context, *worker.Task, addition) (struct{}, error) {
			t.Error("the handler was called")
			return struct{}{}, nil
		})))
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
