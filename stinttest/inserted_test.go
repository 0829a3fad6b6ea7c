package stinttest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stinttest"
)

var tomorrow = time.Date(2100, 1, 2, 3, 4, 5, 6789, time.UTC)

func newStoreOfMails(t *testing.T) *stinttest.Store {
	t.Helper()
	store := newStore(t, stint.Options{})
	insert(t, store,
		stint.Task{ID: "mail/1", Action: "mail", Body: []byte("ann")},
		stint.Task{
			ID: "mail/2", Action: "mail", Body: []byte("bob"), Priority: 2, MaxTries: 3,
			NotBefore: tomorrow, Deadline: tomorrow.Add(time.Hour), PostResult: true,
			OnAbort: stint.RunAnyway, Key: "b",
		},
		stint.Task{
			ID: "sum", Action: stint.Spontaneous, After: []stint.TaskID{"mail/1", "mail/2"},
		})
	return store
}

func TestRequireInserted_ComparesWhatIsNotZero(t *testing.T) {
	t.Parallel()
	store := newStoreOfMails(t)
	inserted := stinttest.RequireInserted(t, store,
		stint.Task{Action: "mail"}, // any of the two: the other one is left to the next
		stint.Task{Body: []byte("ann")},
		stint.Task{ID: "sum", After: []stint.TaskID{"mail/2", "mail/1", "mail/1"}},
	)
	for i, want := range []stint.TaskID{"mail/2", "mail/1", "sum"} {
		if inserted[i].ID != want {
			t.Errorf("RequireInserted found %q, want %q", inserted[i].ID, want)
		}
	}
	stinttest.RequireInserted(t, store, stint.Task{
		ID: "mail/2", Action: "mail", Body: []byte("bob"), Priority: 2, MaxTries: 3,
		NotBefore: tomorrow, Deadline: tomorrow.Add(time.Hour), PostResult: true,
		OnAbort: stint.RunAnyway, Key: "b", ToSignalAfter: []stint.TaskID{"sum"},
	})
}

func TestRequireInserted_LooksIntoATransaction(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	undo := errors.New("undo")
	err := pgx.BeginFunc(t.Context(), store.Pool, func(tx pgx.Tx) error {
		inside := store.WithTx(tx)
		err := inside.InsertTasks(t.Context(), []stint.Task{{ID: "task", Action: "act"}})
		if err != nil {
			return err
		}
		stinttest.RequireInserted(t, inside, stint.Task{Action: "act"})
		stinttest.RequireNotInserted(t, store, stint.Task{Action: "act"})
		return undo
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
}

func TestRequireInserted_SaysWhatDiffers(t *testing.T) {
	t.Parallel()
	store := newStoreOfMails(t)
	for name, test := range map[string]struct {
		want    []stint.Task
		message string
	}{
		"every field": {
			[]stint.Task{{
				ID: "mail/1", Action: "call", Body: []byte("anne"), Priority: 1, MaxTries: 2,
				NotBefore: tomorrow, Deadline: tomorrow, PostResult: true,
				OnAbort: stint.RunAnyway, Key: "a", After: []stint.TaskID{"x"},
				ToSignalAfter: []stint.TaskID{"x", "sum"},
			}},
			`RequireInserted: task "mail/1" is not as wanted
	Action: got "mail", want "call"
	Key: got "", want "a"
	Body: got "ann", want "anne"
	Priority: got 0, want 1
	MaxTries: got 25, want 2
	NotBefore: got none, want 2100-01-02T03:04:05.000006Z
	Deadline: got none, want 2100-01-02T03:04:05.000006Z
	PostResult: got false, want true
	OnAbort: got AbortToo, want RunAnyway
	After: got [], want ["x"]
	ToSignalAfter: got ["sum"], want ["sum" "x"]`,
		},
		"no such ID": {
			[]stint.Task{{ID: "mail/3"}},
			`RequireInserted: there is no task like {ID: "mail/3"}
	the store holds
		task "mail/1" (action "mail"), ready
		task "mail/2" (action "mail"), scheduled
		task "sum" (action "stint.Spontaneous"), blocked`,
		},
		"the nearest": {
			[]stint.Task{{Action: "mail", Key: "b", Body: []byte("eve"), MaxTries: 3}},
			`RequireInserted: there is no task like {Action: "mail", Key: "b", Body: "eve", ` +
				`MaxTries: 3}; the nearest is "mail/2"
	Body: got "bob", want "eve"`,
		},
		"too few": {
			[]stint.Task{{Action: "mail"}, {Body: []byte("ann")}, {Body: []byte("ann")}},
			`RequireInserted: more tasks like {Body: "ann"} are wanted than there are`,
		},
		"several": {
			[]stint.Task{{ID: "mail/1", Priority: 1}, {ID: "sum"}, {ID: "sum", MaxTries: 1}},
			`RequireInserted: task "mail/1" is not as wanted
	Priority: got 0, want 1
task "sum" is not as wanted
	MaxTries: got -1, want 1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantFailure(t, test.message, func(tb testing.TB) {
				tb.Helper()
				stinttest.RequireInserted(tb, store, test.want...)
			})
		})
	}
}

func TestRequireInserted_ShowsWhereLongBodiesDiffer(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	long := strings.Repeat("x", 1000)
	insert(t, store, stint.Task{ID: "1", Action: "act", Body: []byte(long + "got" + long)},
		stint.Task{ID: "2", Action: "act", Body: []byte{0xff, 0}},
		stint.Task{ID: "3", Action: "act"})
	wantFailure(t, `RequireInserted: task "1" is not as wanted
	Body: got "`+strings.Repeat("x", 40)+"got"+strings.Repeat("x", 157)+
		`" (bytes 960 to 1160 of 2003), want "`+strings.Repeat("x", 40)+"want"+
		strings.Repeat("x", 156)+`" (bytes 960 to 1160 of 2004)
task "2" is not as wanted
	Body: got ff00, want ""
task "3" is not as wanted
	Body: got nil, want ""`, func(tb testing.TB) {
		tb.Helper()
		stinttest.RequireInserted(tb, store,
			stint.Task{ID: "1", Body: []byte(long + "want" + long)},
			stint.Task{ID: "2", Body: []byte{}}, stint.Task{ID: "3", Body: []byte{}})
	})
}

func TestRequireInserted_SaysThatTheStoreIsEmpty(t *testing.T) {
	t.Parallel()
	store := newStore(t, stint.Options{})
	wantFailure(t, `RequireInserted: there is no task like {Action: "mail"}
	the store is empty`, func(tb testing.TB) {
		tb.Helper()
		stinttest.RequireInserted(tb, store, stint.Task{Action: "mail"})
	})
}

func TestRequireNotInserted_SaysWhatIsThere(t *testing.T) {
	t.Parallel()
	store := newStoreOfMails(t)
	stinttest.RequireNotInserted(t, store, stint.Task{ID: "mail/1", Body: []byte("bob")},
		stint.Task{Action: "call"})
	wantFailure(t, `RequireNotInserted: task "mail/1" is like {Action: "mail"}
	task "mail/2" is like {Action: "mail"}`, func(tb testing.TB) {
		tb.Helper()
		stinttest.RequireNotInserted(tb, store, stint.Task{Action: "mail"})
	})
}

func TestRequireInserted_ComparesConditions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStoreOfMails(t)
	aborted := []stint.State{stint.StateAborted, stint.StateSkipped}
	insert(t, store,
		stint.Task{ID: "mend", Action: "mend", When: []stint.Condition{
			{After: "mail/1", States: aborted}, {After: "mail/2", Results: []string{"b", "a"}},
		}},
		stint.Task{ID: "first", Action: "mend", WhenAny: []stint.Condition{
			{After: "mail/1"},
		}})
	stinttest.RequireInserted(t, store, stint.Task{When: []stint.Condition{
		{
			After: "mail/2", States: []stint.State{stint.StateCompleted},
			Results: []string{"a", "b"},
		},
		{After: "mail/1", States: []stint.State{stint.StateSkipped, stint.StateAborted}},
	}})
	stinttest.RequireInserted(t, store, stint.Task{WhenAny: []stint.Condition{{After: "mail/1"}}})
	for _, unwanted := range []stint.Task{
		{ID: "mend", After: []stint.TaskID{"mail/1", "mail/2"}},
		{ID: "mend", When: []stint.Condition{{After: "mail/1", States: aborted}}},
		{ID: "first", When: []stint.Condition{{After: "mail/1"}}},
		{ID: "first", WhenAny: []stint.Condition{{After: "mail/1", States: aborted}}},
	} {
		stinttest.RequireNotInserted(t, store, unwanted)
	}
}
