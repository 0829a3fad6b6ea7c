package shards

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/dag"
)

// A scripted store has the tasks that a test gives it, and notes what is asked of it.
type scripted struct {
	Store
	tasks            map[stint.TaskID]stint.TaskInfo
	fails            error // of AbortTasks
	aborts           func()
	aborted, retried []stint.TaskID
}

func (s *scripted) GetTasks(_ context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error) {
	var found []stint.TaskInfo
	for _, id := range ids {
		if info, ok := s.tasks[id]; ok {
			found = append(found, info)
		}
	}
	if len(found) < len(ids) {
		return found, stint.ErrTaskNotFound
	}
	return found, nil
}

func (s *scripted) ListTasks(_ context.Context, filter stint.Filter) (stint.TaskPage, error) {
	var page stint.TaskPage
	for _, info := range s.tasks {
		if info.State == stint.StateAborted &&
			(len(filter.Actions) == 0 || slices.Contains(filter.Actions, info.Action)) {
			page.Tasks = append(page.Tasks, info)
		}
	}
	slices.SortFunc(page.Tasks, func(a, b stint.TaskInfo) int {
		return b.FinishedAt.Compare(a.FinishedAt)
	})
	return page, nil
}

func (s *scripted) AbortTasks(
	_ context.Context, ids []stint.TaskID, _ string,
) (stint.Affected, error) {
	if s.fails != nil {
		return stint.Affected{}, s.fails
	}
	s.aborted = append(s.aborted, ids...)
	for _, id := range ids {
		s.tasks[id] = stint.TaskInfo{ID: id, State: stint.StateAborted, FinishedAt: aborted}
	}
	if s.aborts != nil {
		s.aborts()
	}
	return stint.Affected{}, nil
}

func (s *scripted) RetryTasks(
	_ context.Context, ids []stint.TaskID,
) (stint.Affected, error) {
	s.retried = append(s.retried, ids...)
	return stint.Affected{}, nil
}

func (s *scripted) Close(context.Context) error { return nil }

var aborted = time.Date(2024, time.May, 1, 12, 0, 0, 0, time.UTC)

// A cancelling is a canceller of the placeholders in one shard, to which tasks report from another.
type cancelling struct {
	canceller
	here, there *scripted
}

func newCancelling(t *testing.T) *cancelling {
	t.Helper()
	k := &cancelling{
		here:  &scripted{tasks: map[stint.TaskID]stint.TaskInfo{}},
		there: &scripted{tasks: map[stint.TaskID]stint.TaskInfo{}},
	}
	topology, err := Static(map[string]string{"here": "a", "there": "b"})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := New(topology, Options{
		Logger: slog.New(slog.DiscardHandler),
		Connect: func(_ context.Context, shard, _ string) (Store, error) {
			return map[string]Store{"here": k.here, "there": k.there}[shard], nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close(context.WithoutCancel(t.Context())) })
	k.canceller = canceller{cluster: cluster, shard: "here", done: map[stint.TaskID]time.Time{}}
	return k
}

// add adds a placeholder that was aborted since nothing needs it, and the task that reports to it.
func (k *cancelling) add(report stint.TaskID, at time.Time) (placeholder stint.TaskID) {
	id := placeholderID(ID{"there", "of-" + report}, "insert")
	k.here.tasks[id] = stint.TaskInfo{
		ID: id, Action: stint.External, State: stint.StateAborted, Status: `only "x" needed it`,
		AbortCause: stint.CauseCancelled, FinishedAt: at,
		Body: fmt.Appendf(nil, `{"shard":"there","report":%q}`, report),
	}
	k.there.tasks[report] = stint.TaskInfo{ID: report, State: stint.StateBlocked}
	return id
}

// wantAborted fails unless a look, or a walk, aborts exactly these.
func (k *cancelling) wantAborted(t *testing.T, when string, want ...stint.TaskID) {
	t.Helper()
	k.there.aborted = nil
	if err := k.keepUp(t.Context()); err != nil {
		t.Errorf("%s: keepUp = %v", when, err)
	}
	slices.Sort(k.there.aborted)
	if !slices.Equal(k.there.aborted, want) {
		t.Errorf("%s: aborted %v, want %v", when, k.there.aborted, want)
	}
}

// What was aborted is taken to its shard once, also if its transaction took some seconds to commit;
// what took longer is found by a walk, and what failed is tried again.
// Proves G152.
func TestCanceller_TakesEveryAbortToItsShard(t *testing.T) {
	t.Parallel()
	k := newCancelling(t)
	k.add("first", aborted)
	k.add("old", aborted.Add(-time.Hour))
	k.wantAborted(t, "the first walk", "first", "old")
	k.add("late", aborted.Add(-lately+time.Second))
	k.add("later", aborted.Add(-lately-time.Minute))
	k.wantAborted(t, "a look", "late")
	k.there.tasks["late"] = stint.TaskInfo{ID: "late", State: stint.StateBlocked}
	k.wantAborted(t, "another look")
	k.add("next", aborted.Add(time.Second))
	k.there.fails = errors.New("away")
	if err := k.keepUp(t.Context()); err == nil {
		t.Error("keepUp of a shard that is away does not fail")
	}
	k.there.fails = nil
	k.wantAborted(t, "a look after one that failed", "next")
	if k.walked = k.walked.Add(-walkEvery); k.walked.IsZero() {
		t.Error("nothing was noted of the walk")
	}
	k.wantAborted(t, "the next walk", "later")
}

// A walk that took long is not repeated before fifty times as long has passed.
func TestCanceller_WalksLessOftenWhatTakesLong(t *testing.T) {
	t.Parallel()
	k := newCancelling(t)
	k.wantAborted(t, "a walk of nothing")
	k.add("first", aborted)
	k.since = aborted.Add(time.Hour)
	k.took = walkEvery
	k.walked = time.Now().Add(-walkEvery * (walkShare - 1))
	k.wantAborted(t, "too early")
	k.walked = time.Now().Add(-walkEvery * (walkShare + 1))
	k.since = aborted.Add(time.Hour)
	k.wantAborted(t, "in time", "first")
}

// A task that has reported, or is not there, is left alone; one whose placeholder was retried while
// it was aborted is opened again, and no other.
// Proves G152.
func TestCanceller_OpensWhatIsNeededAgain(t *testing.T) {
	t.Parallel()
	k := newCancelling(t)
	k.add("reported", aborted)
	k.there.tasks["reported"] = stint.TaskInfo{ID: "reported", FinishedAt: aborted}
	k.add("gone", aborted)
	delete(k.there.tasks, "gone")
	k.wantAborted(t, "what has ended")
	k.add("unneeded", aborted.Add(time.Second))
	k.wantAborted(t, "what is not needed", "unneeded")
	if len(k.there.retried) > 0 {
		t.Errorf("opened %v, which nothing needs", k.there.retried)
	}
	placeholder := k.add("needed", aborted.Add(2*time.Second))
	k.there.aborts = func() {
		k.here.tasks[placeholder] = stint.TaskInfo{ID: placeholder, State: stint.StateBlocked}
	}
	k.wantAborted(t, "what is needed again", "needed")
	if !slices.Equal(k.there.retried, []stint.TaskID{"needed"}) {
		t.Errorf("opened %v, want what is needed again", k.there.retried)
	}
	k.there.retried, k.there.tasks["runs"] = nil, stint.TaskInfo{ID: "runs"}
	ids := []stint.TaskID{"runs", "none", "reported"}
	if err := reopen(t.Context(), k.there, ids); err != nil ||
		!slices.Equal(k.there.retried, []stint.TaskID{"reported"}) {
		t.Errorf("reopen = %v, opened %v, want only what has ended", err, k.there.retried)
	}
}

// FailFast is passed on to what a task with it waits for on other shards, through tasks without it,
// but not through those that run anyway.
// Proves G152.
func TestPassingOn_GoesThroughTasksToOtherShards(t *testing.T) {
	t.Parallel()
	tasks := []Task{
		{Shard: "1", Task: stint.Task{ID: "first"}},
		{Shard: "2", Task: stint.Task{ID: "near"}},
		{Shard: "2", Task: stint.Task{ID: "far"}},
		{Shard: "3", Task: stint.Task{ID: "trip", FailFast: true}},
	}
	edges := []dag.Edge{{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 3}}
	order := []int32{0, 1, 2, 3}
	for what, c := range map[string]struct {
		change func([]Task)
		want   []bool
	}{
		"to another shard, and through it": {func([]Task) {}, []bool{true, false, true, false}},
		"nothing fails fast": {
			func(of []Task) { of[3].Task.FailFast = false }, make([]bool, 4),
		},
		"the last runs anyway": {
			func(of []Task) { of[3].Task.OnAbort = stint.RunAnyway }, make([]bool, 4),
		},
		"one between runs anyway": {
			func(of []Task) { of[1].Task.OnAbort = stint.RunAnyway },
			[]bool{false, false, true, false},
		},
		"in one shard": {
			func(of []Task) {
				for i := range of {
					of[i].Shard = "1"
				}
			}, make([]bool, 4),
		},
	} {
		changed := slices.Clone(tasks)
		c.change(changed)
		if got := passingOn(changed, order, edges); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}
