package worker

import (
	"context"
	"fmt"
	"slices"
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
		return &asker{
			groups: []*slotGroup{single, shared}, all: crowd{slots: 5}, free: 5,
		}, shared, single
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

// While a question is under way, what ends gathers for the next.
func TestAsker_ReturnsWhatHasEndedAlong(t *testing.T) {
	t.Parallel()
	g := &slotGroup{actions: []string{"a"}, crowd: crowd{slots: 10}, free: 3, more: true}
	a := &asker{groups: []*slotGroup{g}, all: crowd{slots: 10}, free: 3}
	ended := []*performance{{}, {}, {}}
	a.due = ended
	q := a.next()
	if q == nil || q.wait || q.max != 3 || len(q.returns) != len(ended) || len(a.due) != 0 {
		t.Fatalf("got %+v, want a question for three that returns three", q)
	}
	g.free, a.free, a.due = 2, 2, ended[:2]
	if q := a.next(); q != nil {
		t.Errorf("got %+v, want no second one beside it", q)
	}
	if got := a.gatherMost(); got != gatherMax {
		t.Errorf("returns gather for %v, want the next question to take them", got)
	}
	a.open, g.more = nil, false
	if got := a.gatherMost(); got != 0 {
		t.Errorf("returns gather for %v, want none where no question is to come", got)
	}
	a.all.running = 1
	if got := a.gatherMost(); got != 0 {
		t.Errorf("returns gather for %v, want none to wait for handlers that may take long", got)
	}
	g.takes = time.Millisecond
	if got := a.gatherMost(); got != gatherBriefly {
		t.Errorf("returns gather for %v, want them to wait for handlers that end soon", got)
	}
	a.since = now().Add(time.Hour)
	if !a.gathers() {
		t.Error("want returns to wait from when they are due")
	}
	a.since = now().Add(-gatherBriefly)
	if a.gathers() {
		t.Error("want them to wait no longer than a moment")
	}
}

// Returns go into a question as far as their results fit.
func TestAsker_ReturnsNoMoreThanFits(t *testing.T) {
	t.Parallel()
	long := &performance{ret: stint.Return{Result: make([]byte, 1<<20)}}
	for _, c := range []struct {
		due   []*performance
		first int
	}{
		{nil, 0},
		{[]*performance{long}, 1},
		{[]*performance{long, {}}, 1},
		{[]*performance{{}, {}, long, {}}, 2},
		{slices.Repeat([]*performance{{}}, 1001), 1000},
	} {
		first, rest := firstFew(c.due)
		if len(first) != c.first || len(rest) != len(c.due)-c.first {
			t.Errorf("firstFew(%d) = %d and %d, want %d", len(c.due), len(first), len(rest),
				c.first)
		}
	}
}

// Tasks wait for slots where they have one soon.
func TestSlotGroup_AsksAheadWhereHandlersAreShort(t *testing.T) {
	t.Parallel()
	waiting := func(n int) []fetch { return []fetch{{owned: make([]stint.OwnedTask, n)}} }
	const ms = time.Millisecond
	four, many := crowd{slots: 4}, crowd{slots: 1000}
	for name, c := range map[string]struct {
		group slotGroup
		want  int
	}{
		"as long as a question": {slotGroup{crowd: four, more: true, takes: ms}, 16},
		"a tenth": {
			slotGroup{crowd: four, more: true, takes: ms / 10}, 4 + aheadMore,
		},
		"a second":             {slotGroup{crowd: four, more: true, takes: time.Second}, 0},
		"a second, many slots": {slotGroup{crowd: many, more: true, takes: time.Second}, 4},
		"not known":            {slotGroup{crowd: four, more: true}, 0},
		"on their last try": {
			slotGroup{crowd: four, more: true, takes: ms, last: true}, 0,
		},
		"nothing more": {slotGroup{crowd: four, takes: ms}, 0},
		"many wait":    {slotGroup{crowd: four, more: true, takes: ms, ahead: waiting(5)}, 0},
		"few wait": {
			slotGroup{crowd: four, more: true, takes: ms, ahead: waiting(4)}, 12,
		},
		"many are asked for":     {slotGroup{crowd: four, more: true, takes: ms, coming: 5}, 0},
		"some of them are begun": {slotGroup{crowd: four, more: true, takes: ms, coming: 3}, 13},
	} {
		if got := c.group.extra(ms); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
	slow := slotGroup{crowd: four, more: true, takes: 100 * ms}
	if got := slow.extra(10 * time.Second); got != 1 {
		t.Errorf("where a question takes long: got %d, want what has a slot soon", got)
	}
}

// What was owned ahead begins when a slot is free, and is given back if none is for long.
func TestAsker_BeginsOrReleasesWhatItHasAhead(t *testing.T) {
	t.Parallel()
	var begun, released []stint.OwnedTask
	g := &slotGroup{crowd: crowd{slots: 1}, more: true, takes: time.Millisecond}
	a := &asker{
		Worker: &Worker{options: Options{Lease: time.Minute}},
		groups: []*slotGroup{g}, all: crowd{slots: 1}, free: 0, asks: time.Millisecond,
		byAction: map[string]*slotGroup{"a": g}, ended: &endedQueue{taken: true},
		begin: func(owned []stint.OwnedTask, _ time.Time) { begun = append(begun, owned...) },
		release: func(owned []stint.OwnedTask) {
			released = append(released, owned...)
		},
	}
	q := a.next()
	if q == nil || q.max != 4 || q.kept != 0 {
		t.Fatalf("got %+v, want a question for what has a slot soon", q)
	}
	owned := []stint.OwnedTask{
		{ID: "1", Action: "a"}, {ID: "2", Action: "a"}, {ID: "3", Action: "a"},
	}
	if err := a.take(t.Context(), answer{question: q, owned: owned, at: now()}); err != nil {
		t.Fatalf("take = %v", err)
	}
	if len(begun) != 0 || len(released) != 0 {
		t.Fatalf("begun %v, released %v, want all to wait", begun, released)
	}
	a.ended.freed = []freedSlot{{"a", time.Millisecond}}
	a.look()
	if len(begun) != 1 || begun[0].ID != "1" || a.free != 0 || g.free != 0 {
		t.Errorf("begun %v, want the first one in the slot that is free", begun)
	}
	a.tooLong()
	if len(released) != 0 {
		t.Errorf("released %v at once", released)
	}
	g.ahead[0].since = now().Add(-2 * gatherMax)
	a.tooLong()
	if len(released) != 2 || released[0].ID != "2" || g.waiting() != 0 {
		t.Errorf("released %v, want those that waited too long", released)
	}
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
		release: func(owned []stint.OwnedTask) {
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
