package stint_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves G3.
func TestInsertTasks_StoresWhatWasGiven(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	start := time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)
	want := stint.TaskInfo{
		ID: "export/main", Action: "act", Key: "\u00fc 7", Body: []byte("\x00\xff body"),
		Priority: -7, MaxTries: 3,
		Deadline: start.Add(time.Hour), PostResult: true, OnAbort: stint.RunAnyway,
		NotBefore: start, StatusCode: stint.StatusPending, State: stint.StateScheduled,
	}
	for _, more := range []int{0, 100} { // by a statement and by COPY
		id := stint.TaskID(fmt.Sprint("export/main", more))
		task := stint.Task{
			ID: id, Action: want.Action, Key: want.Key, Body: want.Body, Priority: want.Priority,
			MaxTries: want.MaxTries, NotBefore: start, Deadline: want.Deadline,
			PostResult: true, OnAbort: stint.RunAnyway,
		}
		insert(t, store, append(numbered(fmt.Sprint("more", more), more), task)...)
		got := info(t, store, id)
		if got.InsertedAt.IsZero() || !got.NotBefore.Equal(start) ||
			!got.Deadline.Equal(want.Deadline) || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("with %d more: GetTasks = %+v", more, got)
		}
		got.ID, got.InsertedAt, got.Body = want.ID, time.Time{}, want.Body
		got.NotBefore, got.Deadline = want.NotBefore, want.Deadline
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("with %d more:\ngot  %+v\nwant %+v", more, got, want)
		}
	}
}

// A repeated call finds the IDs that the first one gave.
func TestInsertTasks_GivesRandomIDs(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, n := range []int{1, 2, 100} { // shared, by a statement and by COPY
		tasks := make([]stint.Task, n)
		for i := range tasks {
			tasks[i].Action = "act"
		}
		insert(t, store, tasks...)
		for _, task := range tasks {
			if id, err := uuid.Parse(string(task.ID)); err != nil || id.Variant() != uuid.RFC4122 {
				t.Errorf("ID = %q, want a UUID", task.ID)
			}
		}
		err := store.InsertTasks(t.Context(), tasks)
		wantErr(t, "InsertTasks again", err, stint.ErrTaskExists)
	}
	stream := func(yield func(stint.Task, error) bool) { yield(stint.Task{Action: "act"}, nil) }
	n, err := store.InsertTasksFrom(t.Context(), stream)
	if err != nil || n != 1 {
		t.Errorf("InsertTasksFrom = %d, %v", n, err)
	}
	replacing := []stint.Task{{Action: "act"}}
	wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), replacing), nil)
	if owned := own(t, store, 1000); len(owned) != 105 || replacing[0].ID == "" {
		t.Errorf("%d tasks were inserted, want 105; the last is %q", len(owned), replacing[0].ID)
	}
}

func TestInsertTasks_LimitsTriesUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	for _, more := range []int{0, 1, 100} { // shared, by a statement and by COPY
		for limit, want := range map[int]int{0: 25, 7: 7, stint.UnlimitedTries: -1} {
			id := stint.TaskID(fmt.Sprint(more, limit))
			insert(t, store, append(numbered(fmt.Sprint("more", id), more),
				stint.Task{ID: id, Action: "act", Priority: 1, MaxTries: limit})...)
			if got := info(t, store, id).MaxTries; got != want {
				t.Errorf("with %d more, MaxTries %d is %d, want %d", more, limit, got, want)
			}
			task := ownOne(t, store)
			if task.MaxTries != want {
				t.Errorf("OwnedTask.MaxTries = %d, want %d", task.MaxTries, want)
			}
		}
	}
	insert(t, store, stint.Task{ID: "join", Action: stint.Spontaneous})
	if got := info(t, store, "join").MaxTries; got != stint.UnlimitedTries {
		t.Errorf("MaxTries of a spontaneous task = %d, want none", got)
	}
}

func TestInsertTasks_TellsNilBodyFromEmpty(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, more := range []int{0, 100} {
		none := stint.TaskID(fmt.Sprint("nil", more))
		empty := stint.TaskID(fmt.Sprint("empty", more))
		insert(t, store, append(numbered(fmt.Sprint("more", more), more),
			stint.Task{ID: none, Action: "a"},
			stint.Task{ID: empty, Action: "a", Body: []byte{}})...)
		if got := info(t, store, none).Body; got != nil {
			t.Errorf("nil body came back as %v", got)
		}
		if got := info(t, store, empty).Body; got == nil || len(got) != 0 {
			t.Errorf("empty body came back as %v", got)
		}
	}
}

// Proves G1, R1.
func TestInsertTasks_NamesEveryIDThatExists(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, n := range []int{10, 500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			insert(t, store, numbered("t", 3)...)
			owned := ownOne(t, store)
			err := store.ReturnTask(t.Context(), owned.ID, owned.Token, "", stint.StatusCompleted)
			if err != nil {
				t.Fatal(err)
			}
			batch := append(numbered("new", n), numbered("t", 3)...)
			batch = append(batch, stint.Task{ID: "new000001", Action: "act"})
			err = store.InsertTasks(t.Context(), batch)
			wantTasks(t, "InsertTasks", err, stint.ErrTaskExists,
				"new000001", "t000000", "t000001", "t000002")
			_, err = store.GetTasks(t.Context(), []stint.TaskID{"new000000"})
			wantErr(t, "GetTasks after a refused insert", err, stint.ErrTaskNotFound)
		})
	}
}

// Proves R1.
func TestInsertTasks_IDIsFreeAfterDelete(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	old := ownOne(t, store)
	if err := store.ReturnTask(t.Context(), "a", old.Token, "", stint.StatusCompleted); err != nil {
		t.Fatal(err)
	}
	if err := errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"a"})); err != nil {
		t.Fatal(err)
	}
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	ownOne(t, store)
	err := store.ReturnTask(t.Context(), "a", old.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask with a token of the deleted task", err, stint.ErrInvalidToken)
}

// Proves R1.
func TestInsertTasks_OfSameIDsAtOnceLetsOneWin(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, n := range []int{5, 200} {
		errs := make([]error, 8)
		var wait sync.WaitGroup
		for i := range errs {
			wait.Go(func() {
				errs[i] = store.InsertTasks(t.Context(), numbered(fmt.Sprint(n, "-"), n))
			})
		}
		wait.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				wantErr(t, "InsertTasks", err, stint.ErrTaskExists)
			}
		}
		if won != 1 {
			t.Errorf("%d of %d inserts of the same %d tasks succeeded, want 1", won, len(errs), n)
		}
	}
}

// Proves G3.
func TestInsertTasks_KeepsAwkwardIDsByteForByte(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	ids := []stint.TaskID{
		`"quoted"`, `'; DROP TABLE tasks; --`, `100%`, `back\slash`, `{a,b}`, `NULL`, ` blanks `,
		"tab\t", "new\nline", "\u00e9", "e\u0301", "\U0001f41f", "\u202eright", ".", "stint.x",
		stint.TaskID(strings.Repeat("x", 512)), "\U0010ffff",
	}
	action := func(id stint.TaskID) string { return string(id[:min(len(id), 4)]) }
	for _, batch := range []string{"", "copied"} {
		var tasks []stint.Task
		for _, id := range ids {
			tasks = append(tasks, stint.Task{ID: id, Action: action(id)})
		}
		if batch != "" {
			if err := errOf(store.DeleteTasks(t.Context(), ids)); err != nil {
				t.Fatal(err)
			}
			tasks = append(tasks, numbered("more", 100)...)
		}
		insert(t, store, tasks...)
		infos, err := store.GetTasks(t.Context(), ids)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if infos[i].ID != id || infos[i].Action != action(id) {
				t.Errorf("%q came back as %q", id, infos[i].ID)
			}
		}
	}
}

// Proves G1.
func TestInsertTasksFrom_InsertsNothingAfterAnError(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	broken := errors.New("source broke")
	tasks := numbered("t", 20_100)
	then := func(tasks []stint.Task, last stint.Task) iter.Seq2[stint.Task, error] {
		return stream(append(slices.Clone(tasks), last), nil)
	}
	for name, test := range map[string]struct {
		stream iter.Seq2[stint.Task, error]
		want   error
	}{
		"of the source": {stream(tasks, broken), broken},
		"of a bad task": {
			then(tasks, stint.Task{ID: "x"}), stint.ErrInvalidArgument,
		},
		"of an ID that came long ago":  {then(tasks, tasks[0]), stint.ErrTaskExists},
		"of an ID that came just now":  {then(tasks, tasks[20_099]), stint.ErrTaskExists},
		"of an ID in a short sequence": {then(tasks[:2], tasks[0]), stint.ErrTaskExists},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			inserted, err := store.InsertTasksFrom(t.Context(), test.stream)
			wantErr(t, "InsertTasksFrom", err, test.want)
			list, listErr := listTasks(t.Context(), store, stint.Filter{})
			if inserted != 0 || len(list) != 0 || listErr != nil {
				t.Errorf("after the error %d inserted, %d stored, %v", inserted, len(list), listErr)
			}
		})
	}
}

// Proves G8.
//
//nolint:paralleltest // the memory of other tests would count
func TestInsertTasksFrom_TakesBoundedMemory(t *testing.T) {
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	n := testrun.Rounds(300_000) // together more than the limit
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most uint64
	body := make([]byte, 4<<10)
	inserted, err := store.InsertTasksFrom(t.Context(), func(yield func(stint.Task, error) bool) {
		for i := range n {
			if i%1000 == 0 {
				runtime.ReadMemStats(&now)
				most = max(most, now.Sys)
			}
			task := stint.Task{
				ID: stint.TaskID(fmt.Sprintf("task-%08d", i)), Action: "act",
				Body: slices.Clone(body),
			}
			if !yield(task, nil) {
				return
			}
		}
	})
	if err != nil || inserted != int64(n) {
		t.Fatalf("InsertTasksFrom = %d, %v", inserted, err)
	}
	if rows := yields[int](t, pool, tasksIn("ready")); rows != n {
		t.Errorf("%d tasks are ready, want %d", rows, n)
	}
	const limit = 100 << 20
	grown := most - before.Sys
	t.Logf("%d MiB more", grown>>20)
	if grown > limit {
		t.Errorf("streaming %d tasks took %d MiB more from the system, want at most 100",
			n, grown>>20)
	}
}

// Opposite orders make the database undo one of the calls; its caller must not notice.
// Proves R1.
func TestInsertTasks_OfSameIDsInOppositeOrdersLetsOneWin(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	for round := range 10 {
		n := []int{30, 300}[round%2]
		up := numbered(fmt.Sprint(round, "-"), n)
		down := slices.Clone(up)
		slices.Reverse(down)
		errs := make([]error, 2)
		var wait sync.WaitGroup
		wait.Go(func() { errs[0] = store.InsertTasks(t.Context(), up) })
		wait.Go(func() { errs[1] = store.InsertTasks(t.Context(), down) })
		wait.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("round %d: both inserts = %v", round, errs)
		}
		wantErr(t, "the other insert", errors.Join(errs...), stint.ErrTaskExists)
	}
}
