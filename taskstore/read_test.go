package taskstore_test

import (
	"slices"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
)

func TestTasks_AnswersInTheOrderOfTheIDsWithNilForNone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStore(t)
	tasks := add(t, store, "g", "a", "b")
	a, b := tasks[0].ID, tasks[1].ID
	ids := []int64{b, 1 << 62, a, -1, 0, b}
	got, err := store.Tasks(t.Context(), ids)
	wantErr(t, "Tasks", err, nil)
	if len(got) != len(ids) {
		t.Fatalf("Tasks = %d tasks, want %d", len(got), len(ids))
	}
	for i, want := range []string{"b", "", "a", "", "", "b"} {
		if (got[i] == nil) != (want == "") || got[i] != nil &&
			(string(got[i].Data) != want || got[i].ID != ids[i]) {
			t.Errorf("task %d is %+v, want %q", i, got[i], want)
		}
	}
	if got, err := store.Tasks(t.Context(), nil); len(got) != 0 || err != nil {
		t.Errorf("Tasks(nil) = %v, %v", got, err)
	}
	_, err = store.Tasks(t.Context(), make([]int64, 10_001))
	wantErr(t, "Tasks", err, stint.ErrTooLarge)
}

func TestGet_FindsATaskOrNone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStore(t)
	task := add(t, store, "g", "a")[0]
	got, found, err := store.Get(t.Context(), task.ID)
	if err != nil || !found || got.ID != task.ID || string(got.Data) != "a" ||
		got.TimeSpec != task.TimeSpec || got.Owner != ann || got.Group != "g" {
		t.Errorf("Get = %+v, %t, %v, want %+v", got, found, err, task)
	}
	if _, found, err := store.Get(t.Context(), task.ID+1); found || err != nil {
		t.Errorf("Get = %t, %v, want nothing", found, err)
	}
}

func TestGroup_ListsWhatIsAvailableAndOnRequestTheRest(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	add(t, store, "g", "a", "b", "c")
	add(t, store, "other", "x")
	owned := mustClaim(t, store, ann, "g")
	list := func(limit int, owned bool) []int64 {
		t.Helper()
		tasks, err := store.Group(t.Context(), "g", limit, owned)
		wantErr(t, "Group", err, nil)
		ids := idsOf(tasks)
		if !slices.IsSorted(ids) {
			t.Errorf("the IDs are %v, want them in order", ids)
		}
		return ids
	}
	if got := list(0, true); len(got) != 3 || got[2] != owned.ID {
		t.Errorf("with owned tasks there are %v, want 3 and %d last", got, owned.ID)
	}
	if got := list(0, false); len(got) != 2 || slices.Contains(got, owned.ID) {
		t.Errorf("without owned tasks there are %v, want 2", got)
	}
	for limit := 1; limit < 5; limit++ {
		if got := len(list(limit, true)); got != min(limit, 3) {
			t.Errorf("with the limit %d there are %d tasks", limit, got)
		}
		if got := len(list(limit, false)); got != min(limit, 2) {
			t.Errorf("with the limit %d there are %d tasks that are available", limit, got)
		}
	}
	expire(t, pool)
	if got := list(0, false); len(got) != 3 {
		t.Errorf("when the time has passed there are %v, want 3", got)
	}
	_, err := store.Group(t.Context(), "g", -1, false)
	wantErr(t, "Group", err, stint.ErrInvalidArgument)
	_, err = store.Group(t.Context(), "", 0, false)
	wantErr(t, "Group", err, stint.ErrInvalidArgument)
	if got, err := store.Group(t.Context(), "none", 0, true); len(got) != 0 || err != nil {
		t.Errorf("Group = %v, %v, want nothing", got, err)
	}
}

func TestGroups_AreThoseWithTasks(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	want := func(want ...string) {
		t.Helper()
		got, err := store.Groups(t.Context())
		if err != nil || !slices.Equal(got, want) || got == nil {
			t.Errorf("Groups = %q, %v, want %q", got, err, want)
		}
	}
	want()
	gone := add(t, store, "gone", "a")
	names := []string{" ", "A", "Z", "a", "a/b", "a0", "é", "\U0001f642"}
	for _, name := range names {
		add(t, store, name, "a", "b", "c")
	}
	mustClaim(t, store, ann, "A")
	update(t, store, taskstore.Request{Client: ann, Deletes: idsOf(gone)})
	want(names...)
}

// An answer does not take more memory than a bounded amount.
func TestGroup_RefusesAnAnswerThatIsTooLarge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStore(t)
	var ids []int64
	for range 5 {
		ids = append(ids, idsOf(update(t, store, taskstore.Request{
			Client: ann,
			Adds:   slices.Repeat([]taskstore.Add{{Group: "g", Data: make([]byte, 1<<20)}}, 13),
		}))...)
	}
	wantErr(t, "Group", errOf(store.Group(t.Context(), "g", 0, false)), stint.ErrTooLarge)
	wantErr(t, "Tasks", errOf(store.Tasks(t.Context(), ids)), stint.ErrTooLarge)
	got, err := store.Group(t.Context(), "g", 60, false)
	if err != nil || len(got) != 60 {
		t.Errorf("Group = %d tasks, %v, want 60", len(got), err)
	}
}
