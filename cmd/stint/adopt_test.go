//go:build unix

package main

import (
	"testing"

	"github.com/stint-tasks/stint"
)

// It says what happens, before and after, and does nothing where there is nothing to adopt.
// Proves G331.
func TestAdopt_SaysWhatHappens(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"})
	own := func() (err error) {
		_, err = db.store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, stint.NoExpiry)
		return err
	}
	if err := own(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"adopt", "--yes"}, {"adopt", "--dry-run"}} {
		db.run(t, "", args...).wantExit(t, 2, "there is nothing to adopt", "--environment")
	}
	db.exec(t, "UPDATE stint.origin SET written_by = '3'")
	db.run(t, "", "stats").wantExit(t, 0, "stint adopt")
	const what = "hand out 1 ready task, and 0 when they are due and 1 when their owners are gone"
	db.run(t, "", "adopt", "--dry-run").wantExit(t, 0).wantOutput(t, "stores would "+what)
	db.run(t, "", "stats").wantExit(t, 0, "stint adopt")
	db.run(t, "", "adopt", "--yes").wantExit(t, 0).wantOutput(t, "adopted: stores "+what)
	if err := own(); err != nil {
		t.Error(err)
	}
	db.run(t, "", "adopt", "--environment", "staging", "--yes").wantExit(t, 0).
		wantOutput(t, `name its environment "staging"`)
}
