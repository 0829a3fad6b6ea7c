package recipes

import (
	"context"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
)

// preferCustomer starts what waits for a customer, ahead of others, with more tries than before.
func preferCustomer(ctx context.Context, store *stint.Store, customer string) error {
	page, err := store.ListTasks(ctx, stint.Filter{
		Key: customer, Limit: 1000,
		States: []stint.State{stint.StateBlocked, stint.StateScheduled, stint.StateReady},
	})
	if err != nil {
		return err
	}
	ids := make([]stint.TaskID, len(page.Tasks))
	for i, task := range page.Tasks {
		ids[i] = task.ID
	}
	_, err = store.ChangeTasks(ctx, ids, stint.TaskChanges{
		StartNow: true, Priority: new(int16(10)), MaxTries: 50,
	})
	return err
}

// Proves G212.
func TestPreferCustomer_StartsWhatWasPutOff(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	later := time.Now().Add(time.Hour)
	insert(t, store, stint.Task{ID: "other", Action: "report", Key: "8"},
		stint.Task{ID: "report", Action: "report", Key: "7", NotBefore: later},
		stint.Task{ID: "mail", Action: "mail", Key: "7", After: []stint.TaskID{"report"}})
	if err := preferCustomer(t.Context(), store.Store, "7"); err != nil {
		t.Fatal(err)
	}
	owned, err := store.OwnTasks(t.Context(), "worker", 10, []string{"report", "mail"}, time.Hour)
	if err != nil || len(owned) != 2 || owned[0].ID != "report" || owned[0].MaxTries != 50 {
		t.Errorf("fetched are %+v, %v, want the report of the customer first", owned, err)
	}
}
