package stinttest_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stinttest"
)

func TestNew_GivesEachTestADatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	one, other := newStore(t, stint.Options{}), newStore(t, stint.Options{})
	insert(t, one, stint.Task{ID: "task", Action: "act"})
	stinttest.RequireNotInserted(t, other, stint.Task{})
}

func TestNew_MigratesAnySchema(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{Schema: `Mine "and" yours`})
	insert(t, store, stint.Task{ID: "task", Action: "act", NotBefore: time.Now().Add(time.Hour)})
	stinttest.MakeDue(t, store, "task")
	own(t, store, 1)
	stinttest.ExpireLeases(t, store, "task")
	stinttest.Drain(t, store, newWorker(t, store, done))
	wantState(t, store, stint.StateCompleted, "task")
}

func TestNewOn_LeavesThePoolOpen(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	t.Run("on", func(t *testing.T) {
		insert(t, stinttest.NewOn(t, store.Pool, stint.Options{}),
			stint.Task{ID: "task", Action: "act"})
	})
	stinttest.RequireInserted(t, store, stint.Task{ID: "task"})
}
