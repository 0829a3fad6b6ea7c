package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// What a handler logs goes to the worker's logger, and its end into the history of the try.
// Proves G116.
func TestLogger_KeepsTheEndOfEachTry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	if isRemote() {
		return // the store of the service keeps nothing
	}
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{History: stint.HistoryOptions{Tries: 10}})
	wantErr(t, "New", err, nil)
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	var logged bytes.Buffer
	options := worker.Options{Logger: slog.New(slog.NewJSONHandler(&logged, nil))}
	w := newWorker(t, store, options,
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			task.Logger().Info("begun", "size", 3, "all", endless())
			task.Logger().Debug("not kept")
			if task.Try == 1 {
				task.Logger().Warn("much", "text", strings.Repeat("x", 20_000))
				return worker.Result{}, errors.New("not yet")
			}
			return worker.Result{}, worker.Abort(errors.New("never"))
		}))
	next(t, w)
	maintain(t, store)
	next(t, w)
	_, err = store.RetryTasks(t.Context(), []stint.TaskID{"a"})
	wantErr(t, "RetryTasks", err, nil)
	next(t, w)

	history, err := store.History(t.Context(), "a")
	wantErr(t, "History", err, nil)
	want := []struct {
		outcome stint.TryOutcome
		log     string
	}{
		{stint.TryReturned, `^x{100,}\n$`},
		{stint.TryAborted, `^time=\S+ level=INFO msg=begun size=3 all=".* which is endless"\n$`},
		{stint.TryReturned, `^x{100,}\n$`}, // counted anew
	}
	if len(history.Tries) != len(want) {
		t.Fatalf("the tries are %+v, want %d", history.Tries, len(want))
	}
	for i, try := range history.Tries {
		if try.Outcome != want[i].outcome || try.OwnedAt.IsZero() ||
			!regexp.MustCompile(want[i].log).MatchString(try.Log) {
			t.Errorf("try %d is %.200s, want %v", i, fmt.Sprintf("%+v", try), want[i])
		}
	}
	record := regexp.MustCompile(
		`"level":"INFO","msg":"begun","task":"a","action":"a","try":1,"size":3`)
	if !record.MatchString(logged.String()) {
		t.Errorf("the worker's logger got\n%.300s", logged.String())
	}
}

// A task that no worker made, as in a test of a handler, has a logger, too.
func TestLogger_OfATaskWithoutAWorker(t *testing.T) {
	t.Parallel()
	task := &worker.Task{OwnedTask: stint.OwnedTask{ID: "a"}}
	task.Logger().Info("nothing")
}

// Many failures do not drown what else is logged: the first of each action and kind is logged at
// once, the others are counted, and each is logged by itself for who debugs.
// Proves G114.
func TestWorker_CountsFailuresBehindTheFirst(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	handlers := map[string]worker.Handler{
		"fails": func(context.Context, *worker.Task) (worker.Result, error) {
			return worker.Result{}, worker.Abort(errors.New("no"))
		},
		"fails too": func(context.Context, *worker.Task) (worker.Result, error) {
			return worker.Result{}, worker.Abort(errors.New("no"))
		},
		"panics": func(context.Context, *worker.Task) (worker.Result, error) { panic("ouch") },
	}
	var ids []stint.TaskID
	var registrations []worker.Registration
	const each = 30
	for action, handler := range handlers {
		tasks := several(each, action)
		for i := range tasks {
			tasks[i].MaxTries = 1
			ids = append(ids, tasks[i].ID)
		}
		insert(t, store, tasks...)
		registrations = append(registrations, worker.Handle(action, handler))
	}
	var log page
	options := worker.Options{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	stop := run(t, newWorker(t, store, options, registrations...))
	finished(t, store, ids...)
	wantErr(t, "Run", stop(), nil)
	for action := range handlers {
		of := fmt.Sprintf(`action=(%[1]s|"%[1]s") try=1`, action)
		for what, want := range map[string]int{
			`level=(WARN|ERROR) .*` + of:                          2,
			`level=(WARN|ERROR) .*` + of + ` failures=29`:         1,
			`level=DEBUG msg="handler (failed|panicked)" .*` + of: each - 1,
		} {
			if got := len(regexp.MustCompile(what).FindAllString(log.String(), -1)); got != want {
				t.Errorf("%s: %d records of %s, want %d", action, got, what, want)
			}
		}
	}
}
