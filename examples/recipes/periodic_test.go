package recipes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

// nightly is the task of the night that begins at midnight, UTC.
func nightly(night time.Time) stint.Task {
	night = night.UTC().Truncate(24 * time.Hour)
	date := night.Format(time.DateOnly)
	return stint.Task{
		ID:     stint.TaskID("nightly/" + date), // nightly/2026-11-23: each night has one task
		Action: "nightly", Body: []byte(date), NotBefore: night,
		MaxTries: stint.UnlimitedTries, // a night that fails does not end the series
	}
}

// insertNightly inserts the task of the night after now, unless it is there. Every start of the
// service calls it.
func insertNightly(ctx context.Context, store *stint.Store, now time.Time) error {
	err := store.InsertTasks(ctx, []stint.Task{nightly(now.UTC().AddDate(0, 0, 1))})
	if errors.Is(err, stint.ErrTaskExists) {
		return nil // another process, or the handler
	}
	return err
}

// handleNightly makes the handler: work, successor and end of the task are one commit.
func handleNightly(
	pool *pgxpool.Pool, store *stint.Store,
	work func(ctx context.Context, tx pgx.Tx, night time.Time) error,
) worker.Registration {
	return worker.Handle("nightly", func(ctx context.Context, task *worker.Task) (
		worker.Result, error,
	) {
		night, err := time.Parse(time.DateOnly, string(task.Body))
		if err != nil {
			return worker.Result{}, worker.Abort(err) // ends the series
		}
		return worker.Result{}, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := work(ctx, tx, night); err != nil {
				return err
			}
			if err := insertNightly(ctx, store.WithTx(tx), night); err != nil {
				return err
			}
			return task.ReturnIn(ctx, tx, worker.Result{})
		})
	})
}

// Each night is performed once, also if a try fails, a process starts meanwhile, or the service was
// away for some nights.
func TestNightly_PerformsEachNightOnce(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	const nights = 4
	first := time.Now().UTC().AddDate(0, 0, -nights) // its task is for the night after
	for range 2 {
		if err := insertNightly(t.Context(), store.Store, first); err != nil {
			t.Fatalf("insertNightly = %v", err)
		}
	}
	var performed []string
	failed := false
	w := newWorker(t, store, handleNightly(store.Pool, store.Store,
		func(ctx context.Context, _ pgx.Tx, night time.Time) error {
			if err := insertNightly(ctx, store.Store, time.Now()); err != nil {
				t.Errorf("insertNightly of a start = %v", err)
			}
			if len(performed) == 1 && !failed {
				failed = true
				return errors.New("no luck")
			}
			performed = append(performed, night.Format(time.DateOnly))
			return nil
		}))
	stinttest.Drain(t, store, w)
	if len(performed) != 1 {
		t.Fatalf("%v before the failure", performed)
	}
	stinttest.MakeDue(t, store, nightly(first.AddDate(0, 0, 2)).ID)
	stinttest.Drain(t, store, w)
	var want []string
	for i := range nights {
		want = append(want, first.UTC().AddDate(0, 0, i+1).Format(time.DateOnly))
	}
	if !slices.Equal(performed, want) {
		t.Errorf("performed %v, want %v", performed, want)
	}
	page, err := store.ListTasks(t.Context(), stint.Filter{States: []stint.State{
		stint.StateScheduled, stint.StateReady,
	}})
	if err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != nightly(
		first.AddDate(0, 0, nights+1)).ID {
		t.Errorf("next come %v, %v", page.Tasks, err)
	}
}

func newWorker(
	t *testing.T, store *stinttest.Store, handlers ...worker.Registration,
) *worker.Worker {
	t.Helper()
	w, err := worker.New(store.Store, worker.Options{}, handlers...)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return w
}
