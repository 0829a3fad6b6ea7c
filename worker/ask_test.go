package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

func TestAsker_ReleasesWhatItIsTooLateToBegin(t *testing.T) {
	t.Parallel()
	store, err := stint.New(testdb.New(t), stint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(t.Context())
	tasks := make([]stint.Task, 5)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint(i)), Action: "a"}
	}
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	never := func(context.Context, *Task) (Result, error) { return Result{}, nil }
	w, err := New(store, Options{}, Handle("a", never))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	e := newExecution(w)
	a := newAsker(e, func(owned []stint.OwnedTask, _ time.Time) {
		t.Errorf("%d tasks begun after the stop", len(owned))
	})
	a.askAll(ctx)
	ans := <-a.answers
	stop() // while the answer is on its way
	if err := a.take(ctx, ans); err != nil {
		t.Fatalf("take = %v", err)
	}
	e.performing.Wait()
	for _, task := range tasks {
		infos, err := store.GetTasks(t.Context(), []stint.TaskID{task.ID})
		if err != nil {
			t.Fatal(err)
		}
		got := infos[0]
		if got.State != stint.StateReady || got.Tries != 0 {
			t.Errorf("got %+v, want it ready, its try refunded", got)
		}
	}
}

// While one group waits, others must get their turn, and no slot may be kept in vain.
func TestAsker_AsksForWhatThereAreSlots(t *testing.T) {
	t.Parallel()
	newGroups := func() (*asker, *slotGroup, *slotGroup) {
		shared := &slotGroup{actions: []string{"shared"}, free: 5}
		single := &slotGroup{actions: []string{"single"}, free: 2}
		return &asker{groups: []*slotGroup{single, shared}, free: 5}, shared, single
	}
	t.Run("all quiet", func(t *testing.T) {
		t.Parallel()
		a, _, _ := newGroups()
		q := a.next()
		if len(q.groups) != 2 || !q.wait || q.max != 1 || a.free != 5 {
			t.Errorf("got %+v, want one question that waits for both", q)
		}
		if q := a.next(); q != nil {
			t.Errorf("got %+v, want no other question", q)
		}
	})
	t.Run("one promising", func(t *testing.T) {
		t.Parallel()
		a, shared, single := newGroups()
		shared.more = true
		probe, q := a.next(), a.next()
		if probe.wait || probe.groups[0] != single || probe.max != 2 {
			t.Errorf("got %+v, want to look for the quiet one first", probe)
		}
		if q.wait || q.groups[0] != shared || q.max != 3 || a.free != 0 {
			t.Errorf("got %+v, want to ask for the promising one, as much as goes", q)
		}
	})
	t.Run("promising in turn", func(t *testing.T) {
		t.Parallel()
		a, shared, single := newGroups()
		shared.more, single.more = true, true
		if q := a.next(); q.groups[0] != single || q.max != 2 {
			t.Errorf("got %+v, want the first one", q)
		}
		if a.groups[0] != shared {
			t.Error("want the other one next")
		}
	})
	t.Run("busy while a question waits", func(t *testing.T) {
		t.Parallel()
		a, shared, single := newGroups()
		shared.asked = 1
		if q := a.next(); q.groups[0] != single || !q.wait || a.free != 5 {
			t.Fatalf("got %+v, want to wait for the single one without keeping slots", q)
		}
		shared.asked, shared.more = 0, true
		if q := a.next(); q.groups[0] != shared || q.wait || q.max != 5 || a.free != 0 {
			t.Errorf("got %+v, want to ask for the promising one, as much as goes", q)
		}
		if q := a.next(); q != nil {
			t.Errorf("got %+v, want no question without slots", q)
		}
	})
}

// Few slots wait for those that come free in a moment, and not for longer.
func TestAsker_AsksForMuchAtOnce(t *testing.T) {
	t.Parallel()
	newBusy := func(free int) (*asker, *slotGroup) {
		g := &slotGroup{actions: []string{"a"}, slots: 10, free: free, more: true}
		return &asker{groups: []*slotGroup{g}, slots: 10, free: free}, g
	}
	calls := func(a *asker, ended, running int) {
		a.returnCalls = func() (int, int) { return ended, running }
	}
	t.Run("half of the slots", func(t *testing.T) {
		t.Parallel()
		a, g := newBusy(5)
		if q := a.next(); q == nil || q.max != 5 {
			t.Errorf("got %+v, want a question for five", q)
		}
		g.free, a.free = 5, 5
		if q := a.next(); q == nil || q.max != 5 {
			t.Errorf("got %+v, want a second one beside it", q)
		}
		g.free, a.free = 5, 5
		if q := a.next(); q != nil {
			t.Errorf("got %+v, want no third one", q)
		}
	})
	t.Run("few, nothing under way", func(t *testing.T) {
		t.Parallel()
		a, _ := newBusy(1)
		calls(a, 7, 0)
		if q := a.next(); q == nil || q.max != 1 {
			t.Errorf("got %+v, want a question for one", q)
		}
	})
	t.Run("few, two calls under way", func(t *testing.T) {
		t.Parallel()
		a, g := newBusy(1)
		for ended := 7; ended < 9; ended++ {
			calls(a, ended, 2) // there always are some
			if q := a.next(); q != nil {
				t.Errorf("%d ended: got %+v, want none yet", ended, q)
			}
			g.free++
			a.free++
		}
		calls(a, 9, 2)
		if q := a.next(); q == nil || q.max != 3 {
			t.Errorf("got %+v, want a question for what has gathered", q)
		}
	})
	t.Run("few, a call that was none", func(t *testing.T) {
		t.Parallel()
		a, _ := newBusy(1)
		calls(a, 7, 2)
		if q := a.next(); q != nil {
			t.Errorf("got %+v, want none yet", q)
		}
		calls(a, 8, 0)
		if q := a.next(); q == nil {
			t.Error("want a question, since nothing is under way any more")
		}
	})
}

func TestAsker_ReleasesWhatItHasNoSlotFor(t *testing.T) {
	t.Parallel()
	var begun, released []stint.OwnedTask
	first, second := &slotGroup{free: 1}, &slotGroup{free: 1}
	a := &asker{
		Worker: &Worker{options: Options{Lease: time.Minute}},
		groups: []*slotGroup{first, second}, free: 1,
		byAction: map[string]*slotGroup{"first": first, "second": second},
		begin:    func(owned []stint.OwnedTask, _ time.Time) { begun = append(begun, owned...) },
		release: func(_ context.Context, owned []stint.OwnedTask) {
			released = append(released, owned...)
		},
	}
	one := a.newQuestion([]*slotGroup{first}, true)
	other := a.newQuestion([]*slotGroup{second}, true)
	answers := []answer{
		{question: one, owned: []stint.OwnedTask{{ID: "first", Action: "first"}}},
		{question: other, owned: []stint.OwnedTask{{ID: "second", Action: "second"}}},
	}
	for _, ans := range answers {
		if err := a.take(t.Context(), ans); err != nil {
			t.Fatalf("take = %v", err)
		}
	}
	if len(begun) != 1 || begun[0].ID != "first" {
		t.Errorf("begun %v, want the first one", begun)
	}
	if len(released) != 1 || released[0].ID != "second" {
		t.Errorf("released %v, want the second one", released)
	}
	if a.free != 0 || first.free != 0 || second.free != 1 || !second.more || len(a.open) != 0 {
		t.Errorf("got %+v, %+v and %+v", a, first, second)
	}
}
