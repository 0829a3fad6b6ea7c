package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// insertStintSingly inserts one task a call. All callers share one store, as they do in a service,
// so that their calls travel together.
func insertStintSingly(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, r.Callers)
	if err != nil {
		return err
	}
	tasks := stintTasks(0, r.Tasks, r.BodyBytes)
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		err := inBatches(ctx, r.Callers, r.Tasks, 1,
			func(ctx context.Context, from, to int) error {
				return store.InsertTasks(ctx, tasks[from:to])
			})
		return r.Tasks, err
	})
	return errors.Join(err, store.Close(ctx))
}

// ownStintSingly owns one task and returns it, over and over, in many goroutines on one store: each
// returns its task when it asks for the next.
func ownStintSingly(ctx context.Context, r *run) error {
	return ownSingly(ctx, r, func(
		ctx context.Context, store *stint.Store, more func() bool,
	) (int, error) {
		want := stint.Want{
			Actor: "process", MaxTasks: 1, Actions: []string{stintAction}, Lease: time.Minute,
		}
		done := 0
		var returns []stint.Return
		for {
			if !more() {
				want.MaxTasks = 0
			}
			verdicts, owned, err := store.ReturnAndOwnTasks(ctx, returns, want)
			for i, verdict := range verdicts {
				if errors.Is(verdict, stint.ErrBusy) {
					ret := returns[i]
					verdicts[i] = store.ReturnTask(ctx, ret.ID, ret.Token, "", ret.Code)
				}
			}
			if err := errors.Join(append(verdicts, err)...); err != nil {
				return done, err
			}
			done += len(returns)
			if len(owned) == 0 {
				return done, nil
			}
			returns = []stint.Return{{
				ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted,
			}}
		}
	})
}

// ownStintInTwoCalls is ownStintSingly with a call to own and another to return.
func ownStintInTwoCalls(ctx context.Context, r *run) error {
	return ownSingly(ctx, r, func(
		ctx context.Context, store *stint.Store, more func() bool,
	) (int, error) {
		done := 0
		for more() {
			owned, err := store.OwnTasks(ctx, "process", 1, []string{stintAction}, time.Minute)
			if err != nil {
				return done, err
			}
			for _, task := range owned {
				err := store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
				if err != nil {
					return done, err
				}
				done++
			}
			if len(owned) == 0 {
				break
			}
		}
		return done, nil
	})
}

// ownSingly has many goroutines work on one store, as one actor: calls of different actors do not
// travel together.
func ownSingly(
	ctx context.Context, r *run,
	work func(ctx context.Context, store *stint.Store, more func() bool) (done int, err error),
) error {
	store, err := newStint(ctx, r, 20)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		var begun, done atomic.Int64
		more := func() bool { return begun.Add(1) <= int64(r.Tasks) }
		err := inParallel(ctx, r.Callers, func(ctx context.Context, _ int) error {
			n, err := work(ctx, store, more)
			done.Add(int64(n))
			return err
		})
		return int(done.Load()), err
	})
	return errors.Join(err, checkStint(ctx, r, store), store.Close(ctx))
}

// hearStintWorker measures the latency until a handler is called.
func hearStintWorker(ctx context.Context, r *run) error {
	return hearStint(ctx, r, func(
		_, live context.Context, store *stint.Store, begun func(body []byte),
	) error {
		w, err := worker.New(store, worker.Options{}, worker.Handle(stintAction,
			func(_ context.Context, task *worker.Task) (worker.Result, error) {
				begun(task.Body)
				return worker.Result{}, nil
			}))
		if err != nil {
			return err
		}
		return w.Run(live)
	})
}

// hearStintAwait measures the latency until WaitToOwnTasks returns.
func hearStintAwait(ctx context.Context, r *run) error {
	return hearStint(ctx, r, func(
		ctx, live context.Context, store *stint.Store, begun func(body []byte),
	) error {
		for {
			owned, err := store.WaitToOwnTasks(
				live, "actor", 10, []string{stintAction}, time.Minute)
			if err != nil {
				return untilEnd(live, err)
			}
			for _, task := range owned {
				begun(task.Body)
			}
			if err := returnAll(ctx, store, owned); err != nil {
				return err
			}
		}
	})
}

// hearStint inserts with one store and listens with another, each with a pool of its own.
func hearStint(
	ctx context.Context, r *run,
	listen func(ctx, live context.Context, store *stint.Store, begun func(body []byte)) error,
) error {
	inserting, err := newStint(ctx, r, 4)
	if err != nil {
		return err
	}
	listening, err := newStint(ctx, r, 4)
	if err != nil {
		return err
	}
	start := func(ctx context.Context, begun func(body []byte)) (func() error, error) {
		live, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- listen(ctx, live, listening, begun) }()
		return func() error {
			cancel()
			return <-ended
		}, nil
	}
	var inserted atomic.Int64
	err = r.latencies(ctx, start, func(ctx context.Context, body []byte) error {
		id := stint.TaskID(taskID(int(inserted.Add(1))))
		return inserting.InsertTasks(ctx, []stint.Task{{ID: id, Action: stintAction, Body: body}})
	})
	return errors.Join(err, checkStint(ctx, r, listening), inserting.Close(ctx),
		listening.Close(ctx))
}
