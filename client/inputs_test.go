package client_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Inputs that are together too large for a message come all the same.
func TestInputs_JoinsItsPages(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.insert(t,
		stint.Task{ID: "a", Action: "act", PostResult: true},
		stint.Task{ID: "b", Action: "act", PostResult: true},
		stint.Task{ID: "z", Action: "act", After: []stint.TaskID{"a", "b"}})
	const size = 40 << 20
	for _, id := range []stint.TaskID{"a", "b"} {
		owned, err := r.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
		if err != nil || len(owned) != 1 || owned[0].ID != id {
			t.Fatalf("OwnTasks = %v, %v", ids(owned), err)
		}
		_, err = r.store.ReturnTasks(t.Context(), []stint.Return{{
			ID: id, Token: owned[0].Token, Code: stint.StatusCompleted, Result: make([]byte, size),
		}})
		wantErr(t, "ReturnTasks", err, nil)
	}
	owned, err := r.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	inputs, err := r.Inputs(t.Context(), owned[0])
	if err != nil || len(inputs) != 2 || inputs[0].ID != "a" || inputs[1].ID != "b" ||
		len(inputs[0].Result) != size || len(inputs[1].Result) != size {
		t.Errorf("Inputs = %d, %v", len(inputs), err)
	}
}
