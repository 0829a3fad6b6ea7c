package stint_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/views"
)

func TestProblems_NamesSlowFailingAndFailedTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	ctx := t.Context()
	if got, err := store.Problems(ctx, 10); err != nil ||
		len(got.Slow)+len(got.Failing)+len(got.Failed) > 0 {
		t.Fatalf("Problems of an empty store = %+v, %v", got, err)
	}
	insert(t, store, numbered("t", 10)...)
	insert(t, store,
		stint.Task{ID: "after", Action: "act", After: []stint.TaskID{"t000003"}},
		stint.Task{ID: "last", Action: "act", MaxTries: 1})
	slow := own(t, store, 3)
	exec(t, pool, "UPDATE stint.leases SET owned_at = owned_at - interval '1 hour'")
	returnWith(t, store, slow[1], stint.Return{Code: stint.StatusCompleted})
	rest := own(t, store, 10)
	for i, code := range []stint.StatusCode{
		stint.StatusAborted, stint.StatusPending, stint.StatusPending,
	} {
		returnWith(t, store, rest[i], stint.Return{Code: code, Status: "no luck"})
	}
	returnWith(t, store, rest[3],
		stint.Return{Code: stint.StatusPending, RetryAfter: time.Hour})
	returnWith(t, store, rest[len(rest)-1], stint.Return{Code: stint.StatusPending})
	again := own(t, store, 2)
	for _, task := range again {
		returnWith(t, store, task, stint.Return{Code: stint.StatusPending})
	}
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(ctx, []stint.TaskID{"t000009"}, "")), nil)

	got, err := store.Problems(ctx, 4)
	wantErr(t, "Problems", err, nil)
	wantIDs := func(what string, infos []stint.TaskInfo, want ...stint.TaskID) {
		t.Helper()
		var ids []stint.TaskID
		for i := range infos {
			ids = append(ids, infos[i].ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s are %q, want %q", what, ids, want)
		}
	}
	wantIDs("slow tasks", got.Slow, "t000000", "t000002", "t000007", "t000008")
	wantIDs("failing tasks", got.Failing, "t000004", "t000005", "t000006")
	wantIDs("failed tasks", got.Failed, "last", "t000003")
	if got.Slow[0].OwnedAt.Sub(got.Slow[2].OwnedAt) > -time.Hour/2 {
		t.Errorf("owned at %v and %v, want an hour between", got.Slow[0].OwnedAt,
			got.Slow[2].OwnedAt)
	}
	if got.Failing[0].Tries != 2 || got.Failed[0].AbortCause != stint.CauseTries {
		t.Errorf("Problems = %+v", got)
	}
}

func TestProblems_RefusesLimitsThatAreNone(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for limit, want := range map[int]error{
		0: stint.ErrInvalidArgument, -1: stint.ErrInvalidArgument, 10_001: stint.ErrTooLarge,
	} {
		_, err := store.Problems(t.Context(), limit)
		wantErr(t, "Problems", err, want)
	}
}

// Errors that differ in numbers only are the same, and only their first lines count.
func TestProblems_GroupsErrors(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, numbered("t", 9)...)
	insert(t, store, stint.Task{ID: "other", Action: "other"})
	owned := own(t, store, 9)
	for i, r := range []stint.Return{
		{Code: stint.StatusAborted, Status: "no answer after 3 s\nmore"},
		{Code: stint.StatusPending, Status: "no answer after 31 s\nand more"},
		{Code: stint.StatusPending, Status: "no answer after 7 s", RetryAfter: time.Hour},
		{Code: stint.StatusPending, Status: "disk full"},
		{Code: stint.StatusPending, Status: ""},
		{Code: stint.StatusCompleted, Status: "no answer after 5 s"},
	} {
		returnWith(t, store, owned[i], r)
	}
	got, err := store.Problems(t.Context(), 100)
	wantErr(t, "Problems", err, nil)
	want := []stint.ErrorGroup{
		{Action: "act", Tasks: 3, Error: "no answer after 3 s", Example: "t000000"},
		{Action: "act", Tasks: 1, Error: "disk full", Example: "t000003"},
	}
	if !slices.Equal(got.Errors, want) {
		t.Errorf("errors are %+v, want %+v", got.Errors, want)
	}
}

// What the store calls alike is what the package alike calls so, whatever was said.
//
// Proves G341.
func TestProblems_GroupsErrorsBySameShape(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const n = 90
	said := []string{
		`no file "a b"`, `no file "c"`, "no file `x`", "no file 'a b'", "it can't be: it's 7",
		"it can't be: it's 8", "it can't be: she's 7", "0x7fffe is bad", "0xdeadbee1 is bad",
		"deadbee1 is bad", "12 is bad", "0xyz is bad", "10x7f is bad", "feed is bad",
		"request 3f2a1b0c-dead-beef-cafe-abcdefabcdef failed",
		"request 11111111-1111-1111-1111-111111111111 failed", "request 1111 failed",
		"Grüße an 'Zoë' um 7:30", "Grüße an 'Uwe' um 17:30", "x", "X",
	}
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	pieces := []string{"'", `"`, "`", "a", "f", "0", "7", "0x", "x", " ", "-", "é", "%", "\\1"}
	for len(said) < n {
		var text strings.Builder
		for range 1 + random.IntN(9) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		said = append(said, text.String())
	}
	store := newStore(t)
	insert(t, store, numbered("t", n)...)
	want := map[string]int{}
	for i, task := range own(t, store, n) {
		returnWith(t, store, task, stint.Return{Code: stint.StatusAborted, Status: said[i]})
		want[views.Shape(said[i])]++
	}
	got, err := store.Problems(t.Context(), 1)
	wantErr(t, "Problems", err, nil)
	if got.ErrorsCut || len(got.Errors) != len(want) {
		t.Errorf("there are %d groups, want %d; cut: %t", len(got.Errors), len(want), got.ErrorsCut)
	}
	for _, e := range got.Errors {
		if shape := views.Shape(e.Error); e.Tasks != want[shape] {
			t.Errorf("of %q (%s) there are %d tasks, want %d", e.Error, shape, e.Tasks, want[shape])
		}
	}
	for _, two := range [][2]int{
		{0, 1}, {0, 2}, {0, 3}, {4, 5}, {7, 8}, {8, 9}, {14, 15}, {17, 18},
	} {
		if a, b := said[two[0]], said[two[1]]; views.Shape(a) != views.Shape(b) {
			t.Errorf("%q and %q are not alike", a, b)
		}
	}
	for _, two := range [][2]int{{5, 6}, {12, 13}, {19, 20}} {
		if a, b := said[two[0]], said[two[1]]; views.Shape(a) == views.Shape(b) {
			t.Errorf("%q and %q are alike", a, b)
		}
	}
}
