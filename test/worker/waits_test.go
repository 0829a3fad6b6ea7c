package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/worker"
)

const takenByWaits = "handlers that wait for other tasks have taken all slots, and " +
	"a task that they wait for has none: let a task that comes after it (stint.Task.After) go " +
	"on instead of waiting, give its action slots of its own (another worker), or more slots"

// A waitingStore is a store, or a client of a service.
type waitingStore interface {
	InsertTasks(ctx context.Context, tasks []stint.Task) error
	WaitForTask(ctx context.Context, id stint.TaskID) (stint.TaskInfo, error)
}

// parent returns a handler that inserts tasks and waits for the last.
func parent(store waitingStore, children ...stint.Task) worker.Handler {
	return func(ctx context.Context, _ *worker.Task) (worker.Result, error) {
		for i := range children {
			children[i].PostResult = true
		}
		err := store.InsertTasks(ctx, children)
		if err != nil && !errors.Is(err, stint.ErrTaskExists) {
			return worker.Result{}, err
		}
		_, err = store.WaitForTask(ctx, children[len(children)-1].ID)
		return worker.Result{}, err
	}
}

// Proves G108.
func TestRun_WarnsOfHandlersThatWaitForASlot(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	child := stint.Task{ID: "child", Action: "child"}
	many := []worker.HandlerOption{worker.WithConcurrency(1)}
	for name, test := range map[string]struct {
		slots    int
		options  []worker.HandlerOption
		children []stint.Task
		stuck    string
		remote   bool
	}{
		"all slots":     {slots: 1, children: []stint.Task{child}, stuck: "child"},
		"by the client": {slots: 1, children: []stint.Task{child}, stuck: "child", remote: true},
		"the end of a network": {slots: 1, stuck: "child", children: []stint.Task{
			child, {ID: "end", Action: "elsewhere", After: []stint.TaskID{"child"}},
		}},
		"a chain": {slots: 1, stuck: "child", children: []stint.Task{
			child,
			{ID: "b", Action: "elsewhere", After: []stint.TaskID{"child"}},
			{ID: "c", Action: "child", After: []stint.TaskID{"b"}},
			{ID: "d", Action: "elsewhere", After: []stint.TaskID{"b", "c"}},
			{ID: "end", Action: "child", After: []stint.TaskID{"d"}},
		}},
		"those of its action": {
			slots: 5, options: many, stuck: "same",
			children: []stint.Task{{ID: "same", Action: "parent", Priority: -1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.New(t)
			store := newStore(t, pool)
			var waited waitingStore = store
			if test.remote {
				address, _ := testservice.Start(t, pool, store, service.Options{})
				waited = testservice.Client(t, address, client.Options{})
			}
			logger, logged := recorder(t)
			insert(t, store, stint.Task{ID: "parent", Action: "parent"})
			w := newWorker(t, store, worker.Options{Concurrency: test.slots, Logger: logger},
				worker.Handle("parent", parent(waited, test.children...), test.options...),
				worker.Handle("child", done))
			run(t, w)
			record := logged(t, takenByWaits)
			last := test.children[len(test.children)-1].ID
			if attr(record, "task").String() != "parent" ||
				attr(record, "waits_for").String() != string(last) ||
				attr(record, "without_slot").String() != test.stuck {
				t.Errorf("the record is %v", record)
			}
		})
	}
}

// Handlers may wait as long as what they wait for can begin, or is under way, or is others' work.
// Proves G108.
func TestRun_WarnsOfNoOtherWaits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newStore(t, pool)
	insert(t, store, stint.Task{ID: "parent", Action: "parent"})
	var text bytes.Buffer
	slow := func(context.Context, *worker.Task) (worker.Result, error) {
		time.Sleep(11 * time.Second) // the worker has looked
		return worker.Result{}, nil
	}
	handler := parent(store, stint.Task{ID: "child", Action: "elsewhere"})
	w := newWorker(t, store, worker.Options{
		Concurrency: 1, Logger: slog.New(slog.NewTextHandler(&text, nil)),
		StopGrace: patience,
	}, worker.Handle("parent", handler))
	stop := run(t, w)
	stopOther := run(t, newWorker(t, store, worker.Options{Concurrency: 1},
		worker.Handle("elsewhere", slow)))
	finished(t, store, "parent")
	wantErr(t, "Run", errors.Join(stop(), stopOther()), nil)
	if bytes.Contains(text.Bytes(), []byte("wait for other tasks")) {
		t.Errorf("the worker has warned: %s", text.Bytes())
	}
}
