package recipes

import (
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

func TestBill_BillsACustomer(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{}) // on a database of its own
	exec(t, store, "CREATE TABLE invoices (customer text)")
	insert(t, store, stint.Task{Action: "bill", Body: []byte("ann")})
	w := newWorker(t, store, worker.Handle("bill", bill(store.Pool)))
	for _, performed := range stinttest.Drain(t, store, w) {
		if performed.Outcome != worker.OutcomeCompleted {
			t.Errorf("task %q is %s: %v", performed.Task.ID, performed.Outcome, performed.Err)
		}
	}
}
