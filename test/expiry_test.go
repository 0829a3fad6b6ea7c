package stint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A task whose lease has expired says so, on which try, and how often; and who owned it last.
// Proves G25.
func TestMaintain_SaysInTheStatusThatTheLeaseHasExpired(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{MaxLosses: stint.UnlimitedLosses})
	bounded, endless := after("bounded"), after("endless")
	bounded.MaxTries, endless.MaxTries = 3, stint.UnlimitedTries
	insert(t, store, bounded, endless)
	want := func(id stint.TaskID, status string) {
		t.Helper()
		if got := info(t, store, id).Status; got != status {
			t.Errorf("status of %s = %q, want %q", id, got, status)
		}
	}
	const blame = "\nits owner actor did not extend it"
	for _, owned := range own(t, store, 2) {
		wantErr(t, "SetStatus", store.SetStatus(t.Context(), owned, "half", 0.5), nil)
	}
	expireLeases(t, pool)
	maintain(t, store)
	want("bounded", "lease expired on try 1 of 3"+blame+"\nhalf")
	want("endless", "lease expired on try 1"+blame+"\nhalf")
	own(t, store, 2)
	expireLeases(t, pool)
	maintain(t, store)
	want("bounded", "lease expired on try 2 of 3, 2 times by now"+blame)
	want("endless", "lease expired on try 2, 2 times by now"+blame)
	last := own(t, store, 2)
	expireLeases(t, pool)
	maintain(t, store)
	want("bounded", "lease expired on try 3 of 3, 3 times by now"+blame)
	got := info(t, store, "bounded")
	if got.AbortCause != stint.CauseTries || got.Actor != "actor" {
		t.Errorf("ended as %+v", got)
	}
	problems, err := store.Problems(t.Context(), 100)
	wantErr(t, "Problems", err, nil)
	said := 0
	for _, group := range problems.Errors {
		if strings.HasPrefix(group.Error, "lease expired on try") &&
			!strings.Contains(group.Error, "\n") {
			said += group.Tasks
		}
	}
	if said != 2 {
		t.Errorf("errors: %+v", problems.Errors)
	}
	// The late owner may still say why, and somebody's own words begin the count anew.
	for _, task := range last {
		wantErr(t, "ReturnTask", store.ReturnTask(t.Context(), task.ID, task.Token, "no room",
			stint.StatusPending), nil)
	}
	want("bounded", "no room")
	own(t, store, 1)
	expireLeases(t, pool)
	maintain(t, store)
	want("endless", "lease expired on try 4"+blame+"\nno room")
}

// Whatever a status holds, the lease expires all the same, and the status is kept short enough.
// Proves G25.
func TestMaintain_SaysThatTheLeaseHasExpiredWhateverTheStatus(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	statuses := map[stint.TaskID]string{}
	store, pool := newStoreAndPool(t, stint.Options{History: stint.HistoryOptions{Tries: 5}})
	for i, status := range []string{
		strings.Repeat("\u20ac", 20<<10), "lease expired on try x", "a\nb",
		"lease expired on try 1, 99999999999999999999 times by now",
		"lease expired on try 1, 999999 times by now", "",
	} {
		id := stint.TaskID(fmt.Sprint("task", i))
		statuses[id] = status
		insert(t, store, after(id))
	}
	for range 2 {
		owned := own(t, store, 100)
		if len(owned) != len(statuses) {
			t.Fatalf("%d tasks can be owned, want %d", len(owned), len(statuses))
		}
		for _, task := range owned {
			err := store.SetStatus(t.Context(), task, statuses[task.ID], 0.5)
			wantErr(t, "SetStatus", err, nil)
		}
		expireLeases(t, pool)
		maintain(t, store)
		for id, status := range statuses {
			got := info(t, store, id).Status
			if !strings.HasPrefix(got, "lease expired on try ") || len(got) > 64<<10 {
				t.Errorf("status after %.50q: %.100q", status, got)
			}
		}
	}
}
