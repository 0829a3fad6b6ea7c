package taskstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
)

// Proves G130.
func TestUpdate_ReturnsTheNewTasksAddsFirst(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	old := add(t, store, "map", "a", "b", "c", "d")
	before := now(t, pool)
	got := update(t, store, taskstore.Request{
		Client: bob,
		Updates: []taskstore.Change{
			{ID: old[2].ID, Data: []byte("C"), TimeSpec: minute}, {ID: old[0].ID},
		},
		Adds: []taskstore.Add{
			{Group: "reduce", Data: []byte("new")},
			{Group: "empty", TimeSpec: 60_000},
		},
		Deletes: []int64{old[3].ID},
		Depends: []int64{old[1].ID, old[1].ID},
	})
	after := now(t, pool)
	want := []taskstore.Task{
		{Group: "reduce", Data: []byte("new")},
		{Group: "empty", TimeSpec: 60_000},
		{Group: "map", Data: []byte("C"), TimeSpec: 60_000 + before},
		{Group: "map"},
	}
	if len(got) != len(want) {
		t.Fatalf("Update = %v, want %d tasks", got, len(want))
	}
	last := old[3].ID
	for i, task := range got {
		if task.ID <= last {
			t.Errorf("task %d has the ID %d, want more than %d", i, task.ID, last)
		}
		last = task.ID
		if task.Group != want[i].Group || !bytes.Equal(task.Data, want[i].Data) ||
			task.Owner != bob {
			t.Errorf("task %d is %+v, want %+v", i, task, want[i])
		}
		least := want[i].TimeSpec
		if least == 0 { // now
			least = before
		}
		if most := max(least, least+after-before); i == 1 && task.TimeSpec != 60_000 ||
			task.TimeSpec < least || task.TimeSpec > most {
			t.Errorf("task %d is available at %d, want %d to %d", i, task.TimeSpec, least, most)
		}
	}
	stored, err := store.Tasks(t.Context(), idsOf(got))
	wantErr(t, "Tasks", err, nil)
	for i, task := range stored {
		if task == nil || task.ID != got[i].ID || task.TimeSpec != got[i].TimeSpec ||
			task.Owner != bob || task.Group != got[i].Group ||
			!bytes.Equal(task.Data, got[i].Data) {
			t.Errorf("task %d is stored as %+v, want %+v", i, task, got[i])
		}
	}
	wantData(t, store, "map", "b", "C", "")
}

// Proves G125.
func TestUpdate_DoesAllOrNothingAndListsWhy(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	tasks := add(t, store, "g", "a", "b", "c")
	gone := add(t, store, "g", "u", "v", "w", "x", "y", "z")
	update(t, store, taskstore.Request{Client: ann, Deletes: idsOf(gone)})
	owned := update(t, store, taskstore.Request{Client: bob, Adds: []taskstore.Add{
		{Group: "g", Data: []byte("p"), TimeSpec: minute},
		{Group: "g", Data: []byte("q"), TimeSpec: minute},
	}})
	_, err := store.Update(t.Context(), taskstore.Request{
		Client: ann,
		Adds:   []taskstore.Add{{Group: "g", Data: []byte("new")}},
		Updates: []taskstore.Change{
			{ID: gone[1].ID}, {ID: tasks[0].ID}, {ID: owned[1].ID}, {ID: gone[0].ID},
		},
		Deletes: []int64{tasks[1].ID, gone[3].ID, owned[0].ID, gone[2].ID},
		Depends: []int64{gone[5].ID, tasks[2].ID, gone[4].ID, gone[5].ID},
	})
	wantConflict(t, err, taskstore.ConflictError{
		Changes: idsOf(gone[:2]), Deletes: idsOf(gone[2:4]), Depends: idsOf(gone[4:]),
		Owned: idsOf(owned),
	})
	for _, part := range []string{
		fmt.Sprintf("not there to update: %d, %d", gone[0].ID, gone[1].ID),
		"not there to delete: ", "not there to depend on: ", "owned by another client: ",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q in it", err, part)
		}
	}
	wantData(t, store, "g", "a", "b", "c", "p", "q")

	// One reason is enough, whichever it is.
	for name, r := range map[string]taskstore.Request{
		"changes": {Updates: []taskstore.Change{{ID: gone[0].ID}}},
		"deletes": {Deletes: idsOf(gone[:1])},
		"depends": {Depends: idsOf(gone[:1])},
		"owned":   {Deletes: idsOf(owned[:1])},
	} {
		r.Client, r.Adds = ann, []taskstore.Add{{Group: "g", Data: []byte("new")}}
		_, err := store.Update(t.Context(), r)
		wantErr(t, name, err, taskstore.ErrConflict)
	}
	wantData(t, store, "g", "a", "b", "c", "p", "q")
}

// A task belongs to its owner until its time, and may be depended on by anybody.
// Proves G126.
func TestUpdate_KeepsOwnedTasksFromOthersUntilTheirTime(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	add(t, store, "g", "a")
	task := mustClaim(t, store, ann, "g")
	extend := func(client int64) ([]taskstore.Task, error) {
		return store.Update(t.Context(), taskstore.Request{
			Client:  client,
			Updates: []taskstore.Change{{ID: task.ID, Data: task.Data, TimeSpec: minute}},
		})
	}
	_, err := extend(bob)
	wantConflict(t, err, taskstore.ConflictError{Owned: []int64{task.ID}})
	_, err = store.Update(t.Context(), taskstore.Request{Client: bob, Deletes: []int64{task.ID}})
	wantConflict(t, err, taskstore.ConflictError{Owned: []int64{task.ID}})
	update(t, store, taskstore.Request{Client: bob, Depends: []int64{task.ID}})

	extended, err := extend(ann)
	wantErr(t, "Update by the owner", err, nil)
	_, err = extend(ann)
	wantConflict(t, err, taskstore.ConflictError{Changes: []int64{task.ID}})

	expire(t, pool)
	task = extended[0]
	taken, err := extend(bob)
	wantErr(t, "Update of a task that is available", err, nil)
	if taken[0].Owner != bob {
		t.Errorf("the owner is %d, want %d", taken[0].Owner, bob)
	}
	_, err = extend(ann)
	wantConflict(t, err, taskstore.ConflictError{Changes: []int64{task.ID}})
}

func TestUpdate_TakesValuesAtTheirLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStore(t)
	const yearEnd = 253402300799999
	group := strings.Repeat("é", 127) + "g"
	for _, timeSpec := range []int64{-yearEnd, yearEnd, -1, 1} {
		got := update(t, store, taskstore.Request{
			Client: 1<<63 - 1,
			Adds: []taskstore.Add{{
				Group: group, Data: bytes.Repeat([]byte{0, 0xff}, 1<<19), TimeSpec: timeSpec,
			}},
		})
		task, found, err := store.Get(t.Context(), got[0].ID)
		if err != nil || !found || task.Group != group || len(task.Data) != 1<<20 ||
			task.Owner != 1<<63-1 {
			t.Errorf("Get = %d bytes in %q, %t, %v", len(task.Data), task.Group, found, err)
		}
	}
	many := update(t, store, taskstore.Request{
		Client: ann, Adds: slices.Repeat([]taskstore.Add{{Group: "many"}}, 10_000),
	})
	deleted := taskstore.Request{Client: ann, Deletes: idsOf(many)}
	slices.Reverse(deleted.Deletes)
	update(t, store, deleted)
	wantData(t, store, "many")
}

func TestUpdate_RefusesBadRequests(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	mib := make([]byte, 1<<20)
	adds := func(add taskstore.Add) taskstore.Request {
		return taskstore.Request{Client: ann, Adds: []taskstore.Add{{Group: "g"}, add}}
	}
	for name, test := range map[string]struct {
		r    taskstore.Request
		want error
		part string
	}{
		"no client":       {taskstore.Request{}, stint.ErrInvalidArgument, "clientid"},
		"negative client": {taskstore.Request{Client: -1}, stint.ErrInvalidArgument, "clientid"},
		"no group":        {adds(taskstore.Add{}), stint.ErrInvalidArgument, "group at index 1"},
		"long group": {
			adds(taskstore.Add{Group: strings.Repeat("g", 256)}), stint.ErrTooLarge, "adds.group",
		},
		"NUL":       {adds(taskstore.Add{Group: "\x00"}), stint.ErrInvalidArgument, "NUL"},
		"not UTF-8": {adds(taskstore.Add{Group: "\xff"}), stint.ErrInvalidArgument, "UTF-8"},
		"long data": {
			adds(taskstore.Add{Group: "g", Data: append(mib, 0)}), stint.ErrTooLarge, "adds.data",
		},
		"late": {
			adds(taskstore.Add{Group: "g", TimeSpec: 253402300800000}), stint.ErrInvalidArgument,
			"adds.timespec",
		},
		"late from now": {
			adds(taskstore.Add{Group: "g", TimeSpec: -1 << 63}), stint.ErrInvalidArgument,
			"adds.timespec",
		},
		"much data": {
			taskstore.Request{
				Client: ann, Adds: slices.Repeat([]taskstore.Add{{Group: "g", Data: mib}}, 17),
			},
			stint.ErrTooLarge, "bytes of all data",
		},
		"many tasks": {
			taskstore.Request{Client: ann, Adds: make([]taskstore.Add, 10_001)},
			stint.ErrTooLarge, "adds, updates, deletes and depends",
		},
	} {
		wantBadRequest(t, store, name, test.r, test.want, test.part)
	}
}

func wantBadRequest(
	t *testing.T, store *taskstore.Store, name string, r taskstore.Request, want error, part string,
) {
	t.Helper()
	_, err := store.Update(t.Context(), r)
	if !errors.Is(err, want) || !errors.Is(err, stint.ErrInvalidArgument) ||
		!strings.Contains(err.Error(), part) {
		t.Errorf("%s: Update = %v, want %v with %q", name, err, want, part)
	}
}

func TestUpdate_RefusesBadChanges(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	task := add(t, store, "g", "a")[0]
	for name, test := range map[string]struct {
		r    taskstore.Request
		want error
		part string
	}{
		"long update": {
			taskstore.Request{Client: ann, Updates: []taskstore.Change{
				{ID: task.ID, Data: make([]byte, 1<<20+1)},
			}},
			stint.ErrTooLarge, "updates.data",
		},
		"no ID": {
			taskstore.Request{Client: ann, Updates: []taskstore.Change{{}}},
			stint.ErrInvalidArgument, "updates at index 0",
		},
		"negative ID": {
			taskstore.Request{Client: ann, Deletes: []int64{task.ID, -1}},
			stint.ErrInvalidArgument, "deletes at index 1",
		},
		"updated twice": {
			taskstore.Request{Client: ann, Updates: []taskstore.Change{
				{ID: task.ID}, {ID: task.ID},
			}},
			stint.ErrInvalidArgument, "in updates already",
		},
		"deleted twice": {
			taskstore.Request{Client: ann, Deletes: []int64{task.ID, task.ID}},
			stint.ErrInvalidArgument, "in deletes already",
		},
		"updated and deleted": {
			taskstore.Request{
				Client: ann, Updates: []taskstore.Change{{ID: task.ID}}, Deletes: []int64{task.ID},
			},
			stint.ErrInvalidArgument, "in updates already",
		},
		"deleted and depended on": {
			taskstore.Request{Client: ann, Deletes: []int64{task.ID}, Depends: []int64{task.ID}},
			stint.ErrInvalidArgument, "in deletes already",
		},
	} {
		wantBadRequest(t, store, name, test.r, test.want, test.part)
	}
	wantData(t, store, "g", "a")
}

func TestUpdate_WithNothingToDoDoesNothing(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	if got := update(t, store, taskstore.Request{Client: ann}); len(got) != 0 {
		t.Errorf("Update = %v, want no tasks", got)
	}
}

// A task that a call depends on stays until the call has taken effect. Others may depend on it
// meanwhile.
// Proves G129.
func TestUpdate_WaitsForThoseThatDependOnATask(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*taskstore.Store, taskstore.Task, taskstore.Task) error{
		"update": func(store *taskstore.Store, needed, held taskstore.Task) error {
			return errOf(store.Update(t.Context(), taskstore.Request{
				Client: ann, Depends: []int64{needed.ID}, Deletes: []int64{held.ID},
			}))
		},
		"claim": func(store *taskstore.Store, needed, held taskstore.Task) error {
			_, _, err := store.Claim(t.Context(), taskstore.Claim{
				Client: ann, Group: "none", Duration: time.Hour,
				Depends: []int64{held.ID, needed.ID},
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStore(t)
			tasks := add(t, store, "g", "a", "b")
			needed, held := tasks[0], tasks[1]
			tx := begin(t, pool)
			_, err := tx.Exec(t.Context(),
				"SELECT FROM stint.taskstore_tasks WHERE id = $1 FOR UPDATE", held.ID)
			wantErr(t, "lock", err, nil)
			calls := make(chan error, 2)
			go func() { calls <- call(store, needed, held) }()
			awaitBlocked(t, pool, 1) // it holds the task with the smaller ID

			update(t, store, taskstore.Request{Client: bob, Depends: []int64{needed.ID}})
			if _, found := claim(t, store, bob, "g"); found {
				t.Error("a task that somebody depends on was claimed")
			}
			go func() {
				calls <- errOf(store.Update(t.Context(), taskstore.Request{
					Client: bob, Deletes: []int64{needed.ID},
				}))
			}()
			awaitBlocked(t, pool, 2)
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
			wantErr(t, "a call", <-calls, nil)
			wantErr(t, "the other call", <-calls, nil)
		})
	}
}

// Whoever waited for a task that is gone then is told so.
// Proves G125.
func TestUpdate_FindsThatATaskWasTakenMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStore(t)
	task := add(t, store, "g", "a")[0]
	tx := begin(t, pool)
	_, err := tx.Exec(t.Context(), "DELETE FROM stint.taskstore_tasks WHERE id = $1", task.ID)
	wantErr(t, "delete", err, nil)
	requests := []taskstore.Request{
		{Client: ann, Updates: []taskstore.Change{{ID: task.ID}}},
		{Client: ann, Deletes: []int64{task.ID}},
		{Client: ann, Depends: []int64{task.ID}},
	}
	errs := make([]error, len(requests))
	var wait sync.WaitGroup
	for i, r := range requests {
		wait.Go(func() { _, errs[i] = store.Update(t.Context(), r) })
	}
	awaitBlocked(t, pool, len(requests))
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wait.Wait()
	ids := []int64{task.ID}
	wantConflict(t, errs[0], taskstore.ConflictError{Changes: ids})
	wantConflict(t, errs[1], taskstore.ConflictError{Deletes: ids})
	wantConflict(t, errs[2], taskstore.ConflictError{Depends: ids})
}

// Calls that update, delete, claim and depend on the same tasks in all orders neither deadlock nor
// lose or double a task: each text is in exactly one task at the end.
// Proves G128.
func TestUpdate_AtOnceNeitherDeadlocksNorLosesATask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStore(t)
	const tasks, callers = 12, 8
	known := &newest{ids: idsOf(add(t, store, "g", texts(tasks)...))}
	rounds := testrun.Rounds(4000) / callers
	var wait sync.WaitGroup
	for caller := range callers {
		wait.Go(func() {
			for round := range rounds {
				made, err := known.disturb(t.Context(), store, int64(caller+1), round%4 == 0)
				if err != nil && !errors.Is(err, taskstore.ErrConflict) {
					t.Errorf("round %d: %v", round, err)
					return
				}
				known.note(made)
			}
		})
	}
	wait.Wait()
	left, err := store.Group(t.Context(), "g", 0, true)
	wantErr(t, "Group", err, nil)
	var got []string
	for _, task := range left {
		got = append(got, string(task.Data))
	}
	want := texts(tasks)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the tasks are %q, want %q", got, want)
	}
	if n := testdb.Deadlocks(t, pool); n != 0 {
		t.Errorf("the server resolved %d deadlocks", n)
	}
}

// newest are the IDs of tasks whose data are their places here, as far as somebody was told.
type newest struct {
	mutex sync.Mutex
	ids   []int64
}

// note notes the successors of tasks, perhaps later than their own.
func (n *newest) note(made []taskstore.Task) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, task := range made {
		place, _ := strconv.Atoi(string(task.Data))
		n.ids[place] = max(n.ids[place], task.ID)
	}
}

// disturb claims a task for a moment, or updates three tasks and replaces one; two others must be
// there.
func (n *newest) disturb(
	ctx context.Context, store *taskstore.Store, client int64, claims bool,
) ([]taskstore.Task, error) {
	n.mutex.Lock()
	ids, order := slices.Clone(n.ids), rand.Perm(len(n.ids))
	n.mutex.Unlock()
	depends := []int64{ids[order[0]], ids[order[1]]}
	if claims {
		task, found, err := store.Claim(ctx, taskstore.Claim{
			Client: client, Group: "g", Duration: time.Millisecond, Depends: depends,
		})
		if !found {
			return nil, err
		}
		return []taskstore.Task{task}, nil
	}
	text := func(place int) []byte { return []byte(strconv.Itoa(place)) }
	r := taskstore.Request{
		Client: client, Deletes: []int64{ids[order[2]]}, Depends: depends,
		Adds: []taskstore.Add{{Group: "g", Data: text(order[2])}},
	}
	for _, place := range order[3:6] {
		r.Updates = append(r.Updates, taskstore.Change{ID: ids[place], Data: text(place)})
	}
	return store.Update(ctx, r)
}

// A repetition of an update that changes a task is refused if the first call took effect, and does
// all if it did not. So one that only adds is safe to repeat if it also updates a task of its own.
// Proves G132.
func TestUpdate_RepeatedAfterACutDoesItOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			truth, pool := newStore(t)
			proxy := pgcut.New(t, pool)
			store := openStore(t, proxy.Pool(t, 1), taskstore.Options{})
			cursor := update(t, store, taskstore.Request{Client: ann, Adds: []taskstore.Add{
				{Group: "cursors", Data: []byte("0"), TimeSpec: minute},
			}})[0]
			r := taskstore.Request{
				Client:  ann,
				Adds:    []taskstore.Add{{Group: "g", Data: []byte("a")}},
				Updates: []taskstore.Change{{ID: cursor.ID, Data: []byte("1"), TimeSpec: minute}},
			}
			trap := proxy.Cut(at, pgcut.Executes("update"))
			if _, err := store.Update(t.Context(), r); err == nil || !trap.Sprung() {
				t.Fatalf("Update that was cut = %v, cut: %t", err, trap.Sprung())
			}
			_, err := store.Update(t.Context(), r)
			if at == pgcut.AtReply {
				wantConflict(t, err, taskstore.ConflictError{Changes: []int64{cursor.ID}})
			} else {
				wantErr(t, "Update again", err, nil)
			}
			wantData(t, truth, "g", "a")
			wantData(t, truth, "cursors", "1")
		})
	}
}

// An update takes one round trip.
func TestUpdate_TakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newStore(t)
	proxy := pgcut.New(t, pool)
	for _, durability := range []stint.Durability{stint.Strict, stint.Opportunistic} {
		store := openStore(t, proxy.Pool(t, 1), taskstore.Options{Durability: durability})
		add(t, store, "g", "a", "b") // prepares the statements
		mustClaim(t, store, ann, "g")
		before := proxy.RoundTrips()
		task := add(t, store, "g", "c")[0]
		update(t, store, taskstore.Request{Client: ann, Deletes: []int64{task.ID}})
		mustClaim(t, store, ann, "g")
		if got := proxy.RoundTrips() - before; got != 3 {
			t.Errorf("three calls took %d round trips, want 3", got)
		}
	}
}
