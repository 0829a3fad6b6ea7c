package stint_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Of many who insert the same IDs at once one succeeds with each, and the others learn which ID it
// was.
func TestInsertTasks_TogetherTellsEachCallerWhatBecameOfItsTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const goroutines, ids = 100, 40
	store, pool := newStoreAndPool(t, stint.Options{})
	var inserted [ids]atomic.Int32
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for i := range ids {
				task := stint.Task{
					ID: stint.TaskID(fmt.Sprint("t", i)), Action: "act", Body: []byte{byte(i)},
					Priority: int16(i), MaxTries: i + 1, PostResult: i%2 == 0,
					Deadline: time.Now().Add(time.Hour), Key: strings.Repeat("k", i%3),
				}
				err := store.InsertTasks(t.Context(), []stint.Task{task})
				if err == nil {
					inserted[i].Add(1)
				} else {
					wantTasks(t, "InsertTasks", err, stint.ErrTaskExists, task.ID)
				}
			}
		})
	}
	group.Wait()
	for i := range ids {
		if n := inserted[i].Load(); n != 1 {
			t.Errorf("%d is said to have been inserted %d times", i, n)
		}
		got := info(t, store, stint.TaskID(fmt.Sprint("t", i)))
		if got.Body[0] != byte(i) || got.Priority != int16(i) || got.MaxTries != i+1 ||
			got.PostResult != (i%2 == 0) || got.Deadline.IsZero() || len(got.Key) != i%3 {
			t.Errorf("%d became %+v", i, got)
		}
	}
	if owned := own(t, store, 2*ids); len(owned) != ids {
		t.Errorf("%d can be owned, want %d", len(owned), ids)
	}
	wantNoDeadlocks(t, pool)
}

// Tasks of several callers share a span if they are alike, follow one another, and have no
// deadlines.
func TestInsertTasks_TogetherMakesSpansOfNeighbours(t *testing.T) {
	t.Parallel()
	_, pool := newStoreAndPool(t, stint.Options{})
	deadline := time.Now().Add(time.Hour)
	actions := []string{"act", "act", "other", "act", "act", "act"}
	deadlines := []*time.Time{nil, nil, nil, nil, &deadline, &deadline}
	n := len(actions)
	ids, keys := make([]string, n), make([]int64, n)
	for i := range n {
		keys[i] = int64(1<<10 + i)
		ids[i] = fmt.Sprint("task ", keys[i])
	}
	exec(t, pool, statements(t)["insert_separately"], ids, actions, make([][]byte, n),
		make([]int16, n), make([]int32, n), deadlines, make([]int16, n), make([]bool, n), keys,
		nil, nil, nil)
	if got, want := readySpans(t, pool), "2? 1? 1? 1? 1?"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// An insert that has to wait, since somebody's transaction has inserted its ID and is still open,
// holds up nobody else.
func TestInsertTasks_ThatMustWaitHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	insert(t, store.WithTx(tx), after("taken"))
	insertTaken := func() (struct{}, error) {
		return struct{}{}, store.InsertTasks(t.Context(), []stint.Task{after("taken")})
	}
	held := []<-chan outcome[struct{}]{start(insertTaken)}
	waitForLocks(t, pool, 1)
	var group calls
	for i := range 20 {
		if i%5 == 0 { // is among those that gather
			held = append(held, start(insertTaken))
		}
		group.start(func() error {
			_, err := inTime(t, "InsertTasks", func(ctx context.Context) (struct{}, error) {
				id := stint.TaskID(fmt.Sprint("free", i))
				return struct{}{}, store.InsertTasks(ctx, []stint.Task{after(id)})
			})
			return err
		})
	}
	for range 20 {
		wantErr(t, "InsertTasks", <-group.done, nil)
	}
	for _, held := range held {
		wantGoingOn(t, "InsertTasks of the ID that is taken", held)
	}
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	for _, held := range held {
		_, err := ends(t, "InsertTasks", held)
		wantTasks(t, "InsertTasks", err, stint.ErrTaskExists, "taken")
	}
}
