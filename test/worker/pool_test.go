package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// smallPool returns another pool on the database of a pool, with few connections.
func smallPool(t *testing.T, direct *pgxpool.Pool, conns int32) *pgxpool.Pool {
	t.Helper()
	config := direct.Config()
	config.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Handlers that hold all connections of the pool until their leases have been extended, while
// others wait for one, keep their tasks: each is performed once.
// Proves G106.
func TestWorker_KeepsLeasesWhileHandlersHoldThePool(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const conns, slots, lease = 2, 4, 10 * time.Second
	for _, pollOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("poll only %v", pollOnly), func(t *testing.T) {
			t.Parallel()
			direct := testdb.New(t)
			pool := smallPool(t, direct, conns)
			// The queries of the test do not wait for the handlers.
			watching := newStore(t, direct)
			store := newStoreOn(t, pool, stint.Options{PollOnly: pollOnly})
			tasks := several(2*conns, "hold")
			for i := range tasks {
				tasks[i].MaxTries = 1
			}
			insert(t, watching, tasks...)
			var mutex sync.Mutex
			performed := map[stint.TaskID]int{}
			w := newWorker(t, store, worker.Options{Concurrency: slots, Lease: lease},
				worker.Handle("hold", func(
					ctx context.Context, task *worker.Task,
				) (worker.Result, error) {
					mutex.Lock()
					performed[task.ID]++
					mutex.Unlock()
					err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
						for info(t, watching, task.ID).LeaseUntil.Equal(task.LeaseUntil) {
							select {
							case <-time.After(50 * time.Millisecond):
							case <-ctx.Done():
								return context.Cause(ctx)
							}
						}
						return task.ReturnIn(ctx, tx, worker.Result{})
					})
					return worker.Result{}, err
				}))
			run(t, w)
			ids := make([]stint.TaskID, len(tasks))
			for i := range tasks {
				ids[i] = tasks[i].ID
			}
			for _, info := range finished(t, watching, ids...) {
				if info.StatusCode != stint.StatusCompleted || performed[info.ID] != 1 {
					t.Errorf("performed %d times: %+v", performed[info.ID], info)
				}
			}
		})
	}
}

// A worker says at its start that handlers may wait for one another.
// Proves G107.
func TestRun_WarnsOfMoreSlotsThanConnections(t *testing.T) {
	t.Parallel()
	pool := smallPool(t, testdb.New(t), 2)
	store := newStoreOn(t, pool, stint.Options{PollOnly: true})
	nothing := func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, nil
	}
	for name, of := range map[string]struct {
		queue   worker.Queue
		slots   int
		options []worker.HandlerOption
		warns   bool
	}{
		"more":            {store, 3, nil, true},
		"as many":         {store, 2, nil, false},
		"fewer of action": {store, 3, []worker.HandlerOption{worker.WithConcurrency(2)}, false},
		"no store":        {struct{ worker.Queue }{store}, 3, nil, false},
	} {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		w, err := worker.New(of.queue, worker.Options{Logger: logger, Concurrency: of.slots},
			worker.Handle("act", nothing, of.options...))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := w.Run(ctx); err != nil {
			t.Errorf("%s: Run = %v", name, err)
		}
		warned := strings.Contains(log.String(), "level=WARN")
		told := strings.Contains(log.String(), "slots=3 connections=2")
		if warned != of.warns || told != of.warns {
			t.Errorf("%s: logged\n%s", name, log.String())
		}
	}
}
