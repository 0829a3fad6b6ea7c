package stint_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestOwnTasks_GivesNothingWhenNothingIsReady(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "other", Action: "other"},
		stint.Task{ID: "later", Action: "act", NotBefore: time.Now().Add(time.Hour)})
	if owned := own(t, store, 10); len(owned) != 0 {
		t.Errorf("OwnTasks = %v, want nothing", owned)
	}
}

// Proves R7.
func TestOwnTasks_NeverGivesMoreThanAsked(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, numbered("few", 10)...)
	insert(t, store, numbered("many", 5000)...)
	seen := map[stint.TaskID]bool{}
	for _, n := range []int{1, 2, 3, 10, 63, 64, 65, 100, 999, 1000, 1001, 700, 10_000} {
		owned := own(t, store, n)
		if want := min(n, 5010-len(seen)); len(owned) != want {
			t.Errorf("OwnTasks(%d) gave %d tasks, want %d", n, len(owned), want)
		}
		for _, task := range owned {
			if seen[task.ID] {
				t.Errorf("%s was given twice", task.ID)
			}
			seen[task.ID] = true
		}
	}
}

// The higher priority first, then the oldest.
// Proves R6.
func TestOwnTasks_GivesByPriorityThenAge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	var want []stint.TaskID
	tasks := map[int16][]stint.TaskID{}
	for batch, n := range []int{1, 3, 200, 2, 300} {
		inserted := numbered(fmt.Sprint(batch, "-"), n)
		for i := range inserted {
			inserted[i].Priority = int16(i%5 - 2)
			inserted[i].Action = []string{"act", "other"}[i%2]
			tasks[inserted[i].Priority] = append(tasks[inserted[i].Priority], inserted[i].ID)
		}
		insert(t, store, inserted...)
	}
	for _, priority := range []int16{2, 1, 0, -1, -2} {
		want = append(want, tasks[priority]...)
	}
	var got []stint.TaskID
	for {
		owned, err := store.OwnTasks(t.Context(), "actor", 7, []string{"other", "act"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if len(owned) == 0 {
			break
		}
		got = append(got, idsOf(owned)...)
	}
	// Within one batch and priority, tasks of two actions have no order among themselves.
	if len(got) != len(want) {
		t.Fatalf("owned %d tasks, want %d", len(got), len(want))
	}
	place := map[stint.TaskID]int{}
	for i, id := range got {
		place[id] = i
	}
	for i := 1; i < len(want); i++ {
		a, b := want[i-1], want[i]
		sameBatch := a[:2] == b[:2]
		if place[a] > place[b] && !sameBatch {
			t.Errorf("%s was given after %s", a, b)
		}
	}
}

func TestOwnTasks_GivesOneActionInTheOrderOfInsertion(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	var want []stint.TaskID
	for batch, n := range []int{1, 64, 65, 3000, 1, 20} {
		inserted := numbered(fmt.Sprint(batch, "-"), n)
		insert(t, store, inserted...)
		for i := range inserted {
			want = append(want, inserted[i].ID)
		}
	}
	var got []stint.TaskID
	for n := 1; len(got) < len(want); n = n*3 + 1 {
		got = append(got, idsOf(own(t, store, n))...)
	}
	if !slices.Equal(got, want) {
		t.Error("tasks were not given in the order of their insertion")
	}
}

// Proves R7.
func TestOwnTasks_GivesEachTaskATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, numbered("t", 100)...)
	tokens := map[stint.Token]bool{}
	for range 4 {
		for _, task := range own(t, store, 25) {
			tokens[task.Token] = true
			text, err := task.Token.MarshalText()
			var parsed stint.Token
			if err != nil || parsed.UnmarshalText(text) != nil || parsed != task.Token {
				t.Errorf("token %s does not survive its text", task.Token)
			}
		}
	}
	if len(tokens) != 100 {
		t.Errorf("100 tasks have %d tokens", len(tokens))
	}
}

// A token is wholly that of the fetch: no bit that tells what a UUID is may be another.
// Proves R7, R8.
func TestReturnTask_RefusesTokensThatAreNone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, store)
	for place, bits := range map[int][]byte{6: {0x10, 0x40, 0x80}, 8: {0x40, 0x80, 0xc0}} {
		for _, bit := range bits {
			forged := task
			forged.Token[place] ^= bit
			err := store.ReturnTask(t.Context(), "a", forged.Token, "", stint.StatusCompleted)
			wantErr(t, "ReturnTask", err, stint.ErrInvalidToken)
			kept, err := store.ExtendTasksOwnership(
				t.Context(), "actor", []stint.OwnedTask{forged}, 2*time.Hour)
			if err != nil || kept[0] {
				t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
			}
			err = store.SetStatus(t.Context(), forged, "", 0)
			wantErr(t, "SetStatus", err, stint.ErrInvalidToken)
		}
	}
	wantErr(t, "ReturnTask",
		store.ReturnTask(t.Context(), "a", task.Token, "", stint.StatusCompleted), nil)
}

// Proves R7.
func TestOwnTasks_GivesEachTaskToOneOfManyCallers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	const n = 3000
	insert(t, store, numbered("t", n)...)
	var mutex sync.Mutex
	seen := map[stint.TaskID]int{}
	var wait sync.WaitGroup
	for worker := range 16 {
		wait.Go(func() {
			for {
				mutex.Lock()
				done := len(seen) == n
				mutex.Unlock()
				if done {
					return
				}
				owned := own(t, store, 1+worker)
				mutex.Lock()
				for _, task := range owned {
					seen[task.ID]++
				}
				mutex.Unlock()
			}
		})
	}
	wait.Wait()
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was given %d times", id, times)
		}
	}
}

// It never blocks on a locked task.
// Proves R7.
func TestOwnTasks_PassesOverWhatOthersAreTaking(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 3)...)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taking := own(t, store.WithTx(tx), 1)
	if got := own(t, store, 3); len(taking) != 1 || len(got) != 2 {
		t.Errorf("while another takes %d, OwnTasks gave %d, want 1 and 2", len(taking), len(got))
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := own(t, store, 3); len(got) != 1 || got[0].ID != "t000000" || got[0].Try != 1 {
		t.Errorf("after the other let go, OwnTasks gave %v", got)
	}
}

// Proves R10.
func TestOwnTasks_CountsTriesAndTellsTheDeadline(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act", Body: []byte("b"), MaxTries: 7})
	for try := 1; try <= 3; try++ {
		task := ownOne(t, store)
		left := time.Until(task.LeaseUntil)
		if task.Try != try || task.MaxTries != 7 || string(task.Body) != "b" ||
			task.Action != "act" || left < 50*time.Minute || left > 70*time.Minute {
			t.Errorf("try %d: OwnTasks = %+v", try, task)
		}
		err := store.ReturnTask(t.Context(), "a", task.Token, "again", stint.StatusPending)
		if err != nil {
			t.Fatal(err)
		}
	}
	owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, stint.NoExpiry)
	if err != nil || len(owned) != 1 || !owned[0].LeaseUntil.IsZero() {
		t.Errorf("OwnTasks without deadline = %+v, %v", owned, err)
	}
	if got := info(t, store, "a"); !got.LeaseUntil.IsZero() || got.Tries != 4 {
		t.Errorf("GetTasks = %+v", got)
	}
}

func TestOwnTasks_HandsOnWhatExpiredAheadOfOthers(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 3)...)
	own(t, store, 2)
	expireLeases(t, pool)
	maintain(t, store)
	got := own(t, store, 2)
	if want := []stint.TaskID{"t000000", "t000001"}; !slices.Equal(idsOf(got), want) {
		t.Errorf("OwnTasks gave %v, want %v", idsOf(got), want)
	}
	if got[0].Try != 2 {
		t.Errorf("Try = %d, want 2", got[0].Try)
	}
}

// A passed deadline is enough, whether or not anybody maintains.
// Proves R7, R13.
func TestOwnTasks_HandsOnWhatExpiredWithoutMaintenance(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 70)...)
	own(t, store, 70)
	expireLeases(t, pool)
	if got := own(t, store, 100); len(got) != 70 {
		t.Errorf("OwnTasks gave %d expired tasks, want 70", len(got))
	}
}

func TestOwnTasks_GivesScheduledTasksWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := numbered("t", 100)
	for i := range tasks {
		tasks[i].NotBefore = time.Now().Add(time.Hour)
	}
	insert(t, store, tasks...)
	insert(t, store, stint.Task{ID: "past", Action: "act", NotBefore: time.Unix(0, 0)})
	if got := ownOne(t, store); got.ID != "past" {
		t.Errorf("OwnTasks gave %s, want past", got.ID)
	}
	exec(t, pool, "UPDATE stint.scheduled SET not_before = not_before - interval '2 hours'")
	if got := own(t, store, 200); len(got) != 100 {
		t.Errorf("OwnTasks gave %d tasks that are due, want 100", len(got))
	}
}

// The hand-over of seed 004: only the last owner may return, extend or touch.
// Proves R8.
func TestOwnership_PassesToTheNextOwnerForGood(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	first := ownOne(t, store)
	expireLeases(t, pool)
	second := ownOne(t, store)

	for range 2 {
		err := store.ReturnTask(t.Context(), "a", first.Token, "late", stint.StatusCompleted)
		wantTasks(t, "ReturnTask", err, stint.ErrInvalidToken, "a")
		err = store.SetStatus(t.Context(), first, "late", 0.5)
		wantTasks(t, "SetStatus", err, stint.ErrInvalidToken, "a")
		kept, err := store.ExtendTasksOwnership(
			t.Context(), "actor", []stint.OwnedTask{first}, longLease)
		if err != nil || kept[0] {
			t.Errorf("ExtendTasksOwnership = %v, %v, want false", kept, err)
		}
	}
	// What was refused has changed nothing either.
	got := info(t, store, "a")
	if got.Status == "late" || !got.LeaseUntil.Equal(second.LeaseUntil) {
		t.Errorf("the next owner has the status %q, until %v", got.Status, got.LeaseUntil)
	}
	if err := store.SetStatus(t.Context(), second, "half", 0.5); err != nil {
		t.Errorf("SetStatus = %v", err)
	}
	err := store.ReturnTask(t.Context(), "a", second.Token, "done", stint.StatusCompleted)
	if err != nil {
		t.Errorf("ReturnTask = %v", err)
	}
	err = store.ReturnTask(t.Context(), "a", first.Token, "late", stint.StatusCompleted)
	wantErr(t, "ReturnTask after the end", err, stint.ErrInvalidToken)
	if got := info(t, store, "a"); got.Status != "done" || got.State != stint.StateCompleted {
		t.Errorf("GetTasks = %+v", got)
	}
}

// A late owner may still act if nobody was given the task since, maintained or not.
// Proves R8.
func TestOwnership_LastsAsLongAsNobodyElseWasGivenTheTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 200)...)
	for _, maintained := range []bool{false, true} {
		owned := own(t, store, 100)
		expireLeases(t, pool)
		if maintained {
			maintain(t, store)
			if got := info(t, store, owned[0].ID); got.State != stint.StateReady || got.Tries != 1 {
				t.Errorf("an expired task is %s after %d tries", got.State, got.Tries)
			}
		}
		if err := store.SetStatus(t.Context(), owned[0], "late", 0.9); err != nil {
			t.Errorf("maintained %t: SetStatus = %v", maintained, err)
		}
		kept, err := store.ExtendTasksOwnership(t.Context(), "actor", owned[:50], time.Hour)
		if err != nil || slices.Contains(kept, false) {
			t.Errorf("maintained %t: ExtendTasksOwnership = %v, %v", maintained, kept, err)
		}
		var returns []stint.Return
		for _, task := range owned {
			returns = append(returns,
				stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted})
		}
		verdicts, err := store.ReturnTasks(t.Context(), returns)
		if err != nil {
			t.Fatal(err)
		}
		for i, verdict := range verdicts {
			if verdict != nil {
				t.Errorf("maintained %t: return %d = %v", maintained, i, verdict)
			}
		}
	}
}

// Proves R9.
func TestExtendTasksOwnership_NeverShortensAndAnswersPerTask(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 4)...)
	owned := own(t, store, 4)
	err := store.ReturnTask(t.Context(), owned[1].ID, owned[1].Token, "", stint.StatusCompleted)
	if err != nil {
		t.Fatal(err)
	}
	owned[2].Token = stint.Token{1, 2, 3}
	before := info(t, store, owned[0].ID).LeaseUntil
	kept, err := store.ExtendTasksOwnership(t.Context(), "actor", owned, time.Minute)
	if want := []bool{true, false, false, true}; err != nil || !slices.Equal(kept, want) {
		t.Errorf("ExtendTasksOwnership = %v, %v, want %v", kept, err, want)
	}
	if got := info(t, store, owned[0].ID).LeaseUntil; !got.Equal(before) {
		t.Errorf("a shorter lease moved the deadline from %v to %v", before, got)
	}
	kept, err = store.ExtendTasksOwnership(t.Context(), "actor", owned, 3*time.Hour)
	if err != nil || !kept[0] {
		t.Fatalf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	if got := info(t, store, owned[0].ID).LeaseUntil; time.Until(got) < 2*time.Hour {
		t.Errorf("after an extension to 3 h the deadline is %v", got)
	}
	kept, err = store.ExtendTasksOwnership(t.Context(), "somebody else", owned, 3*time.Hour)
	if err != nil || slices.Contains(kept, true) {
		t.Errorf("ExtendTasksOwnership by another actor = %v, %v", kept, err)
	}
	kept, err = store.ExtendTasksOwnership(t.Context(), "actor", owned[:1], stint.NoExpiry)
	if err != nil || !kept[0] || !info(t, store, owned[0].ID).LeaseUntil.IsZero() {
		t.Errorf("ExtendTasksOwnership without deadline = %v, %v", kept, err)
	}
}

func TestExtendTasksOwnership_LetsTheTasksThatAreNotNamedExpire(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 100)...)
	owned := own(t, store, 100)
	ownedAt := info(t, store, owned[20].ID).OwnedAt
	exec(t, pool, "UPDATE stint.leases SET deadline = statement_timestamp() + interval '1 second'")
	for range 2 { // the second time, the part split off is whole
		kept, err := store.ExtendTasksOwnership(t.Context(), "actor", owned[20:50], time.Hour)
		if err != nil || slices.Contains(kept, false) {
			t.Fatalf("ExtendTasksOwnership = %v, %v", kept, err)
		}
	}
	if got := info(t, store, owned[20].ID).OwnedAt; !got.Equal(ownedAt) {
		t.Errorf("it is owned since %v, want since the fetch at %v", got, ownedAt)
	}
	exec(t, pool, "UPDATE stint.leases SET deadline = deadline - interval '1 minute'")
	got := idsOf(own(t, store, 200))
	want := slices.Concat(idsOf(owned[:20]), idsOf(owned[50:]))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d tasks expired, want the %d that were not extended", len(got), len(want))
	}
	for _, task := range owned[20:50] {
		err := store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
		if err != nil {
			t.Errorf("ReturnTask of an extended task = %v", err)
		}
	}
	var leases int
	err := pool.QueryRow(t.Context(),
		"SELECT count(*) FROM stint.leases WHERE part > 0").Scan(&leases)
	if err != nil || leases != 1 {
		t.Errorf("%d parts were split off, want 1, %v", leases, err)
	}
}

func TestSetStatus_ShowsUntilTheReturn(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, store)
	if err := store.SetStatus(t.Context(), task, "half\x00way \xff", 0.5); err != nil {
		t.Fatal(err)
	}
	got := info(t, store, "a")
	if got.Status != "half\ufffdway \ufffd" || got.Progress != 0.5 || got.Actor != "actor" {
		t.Errorf("GetTasks = %+v", got)
	}
	for _, progress := range []float64{-0.1, 1.1} {
		err := store.SetStatus(t.Context(), task, "", progress)
		wantErr(t, "SetStatus", err, stint.ErrInvalidArgument)
	}
}

// Each of many late returns at once makes a part of the lease.
// Proves R8.
func TestOwnership_LateReturnsAtOnceAllSucceed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 64)...)
	owned := own(t, store, 64)
	expireLeases(t, pool)
	maintain(t, store)
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := worker; i < len(owned); i += 8 {
				some := owned[i : i+1]
				kept, err := store.ExtendTasksOwnership(t.Context(), "actor", some, time.Hour)
				if err != nil || !kept[0] {
					t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
				}
				err = store.ReturnTask(
					t.Context(), some[0].ID, some[0].Token, "", stint.StatusCompleted)
				if err != nil {
					t.Errorf("ReturnTask = %v", err)
				}
			}
		})
	}
	wait.Wait()
}
