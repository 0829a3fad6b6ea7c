package shards_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// seen are all tasks of an action, as a list has them.
func seen(t *testing.T, m *shards.Merged, action string) []stint.TaskInfo {
	t.Helper()
	page, err := m.ListTasks(t.Context(), stint.Filter{Actions: []string{action}, Limit: 1000})
	wantErr(t, "ListTasks", err, nil)
	return page.Tasks
}

func idsOf(infos []stint.TaskInfo) (ids []stint.TaskID) {
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}

// everyState are the states of tasks.
func everyState() []stint.State {
	return []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateCompleted, stint.StateAborted,
	}
}

// Tasks that have changed since they were seen are left out, on each shard, and a dry run changes
// nothing.
func TestMerged_ChangesWhatWasSeen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	c := d.cluster(t, shards.Options{Connect: shards.Connect})
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{
		task("eu/a"), task("eu/b"), task("us/a"), task("us/b"),
	}), nil)
	m := c.Merged()
	before := seen(t, m, "act")
	_, err := d.stores["us"].AbortTasks(t.Context(), []stint.TaskID{"b"}, "")
	wantErr(t, "AbortTasks", err, nil)
	for _, dryRun := range []bool{true, false} {
		affected, err := m.AsSeen(everyState(), before, dryRun).
			AbortTasks(t.Context(), idsOf(before), "no longer needed")
		wantErr(t, "AbortTasks", err, nil)
		if want := []stint.TaskID{"eu/a", "eu/b", "us/a"}; !slices.Equal(affected.Tasks, want) {
			t.Errorf("AbortTasks with dryRun %t = %q, want %q", dryRun, affected.Tasks, want)
		}
		want := map[bool]string{true: "ready", false: "aborted"}[dryRun]
		if got := d.state(t, "eu/a"); got != want {
			t.Errorf("eu/a is %s, want %s", got, want)
		}
	}
	affected, err := m.AsSeen(everyState(), before, false).RetryTasks(t.Context(), idsOf(before))
	if err != nil || len(affected.Tasks) > 0 {
		t.Errorf("RetryTasks of what has changed = %+v, %v", affected, err)
	}
	now := seen(t, m, "act")
	_, err = m.AsSeen(everyState(), now, false).DeleteTasks(t.Context(),
		append(idsOf(now), "eu/gone"))
	var named *stint.TaskError
	if !errors.Is(err, stint.ErrTaskNotFound) || !errors.As(err, &named) ||
		!slices.Equal(named.IDs, []stint.TaskID{"eu/gone"}) {
		t.Errorf("DeleteTasks = %v", err)
	}
}

// What [Cluster.RetryTasks] does over shards, a retry of tasks as they were seen does, too, and its
// dry run says so.
func TestMerged_RetriesOverShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{Connect: shards.Connect})
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{
		task("3/first"), task("1/room", "3/first"), task("2/flight"),
		failFast("2/trip", "1/room", "2/flight"),
	}), nil)
	d.awaitState(t, "3/first", "ready")
	d.end(t, "2/flight", stint.StatusAborted)
	for _, id := range []string{"2/trip", "1/room", "3/first"} {
		d.awaitState(t, id, "aborted")
	}
	m := c.Merged()
	want := []stint.TaskID{"1/room", "2/flight", "3/first"}
	before := slices.DeleteFunc(seen(t, m, "act"), func(info stint.TaskInfo) bool {
		return !slices.Contains(want, info.ID)
	})
	for _, dryRun := range []bool{true, false} {
		affected, err := m.AsSeen([]stint.State{stint.StateAborted}, before, dryRun).
			RetryTasks(t.Context(), want)
		if err != nil || !slices.Equal(affected.Tasks, want) {
			t.Fatalf("RetryTasks with dryRun %t = %+v, %v", dryRun, affected, err)
		}
	}
	for _, id := range []string{"2/flight", "3/first", "1/room", "2/trip"} {
		d.awaitState(t, id, "ready")
		d.end(t, id, stint.StatusCompleted)
	}
}

// An answer goes to the shard of its task, and each has its own verdict.
func TestMerged_AnswersEachTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	m := d.cluster(t, shards.Options{}).Merged()
	for _, store := range d.stores {
		wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), []stint.Task{
			{ID: "a", Action: stint.External}, {ID: "b", Action: stint.External},
		}), nil)
	}
	answer := func(ids ...stint.TaskID) []error {
		t.Helper()
		var answers []stint.Answer
		for _, id := range ids {
			answers = append(answers, stint.Answer{ID: id, Code: stint.StatusCompleted})
		}
		verdicts, err := m.AnswerTasks(t.Context(), "ann", answers)
		wantErr(t, "AnswerTasks", err, nil)
		return verdicts
	}
	for i, verdict := range answer("us/a", "eu/gone", "eu/a") {
		if isWrong := errors.Is(verdict, stint.ErrTaskNotFound); isWrong != (i == 1) {
			t.Errorf("verdict %d is %v", i, verdict)
		}
	}
	d.away.Store("us", true)
	for i, verdict := range answer("us/b", "eu/b") {
		if isWrong := errors.Is(verdict, errAway); isWrong != (i == 0) {
			t.Errorf("verdict %d is %v", i, verdict)
		}
	}
	for id, want := range map[string]string{
		"us/a": "completed", "eu/a": "completed", "eu/b": "completed", "us/b": "ready",
	} {
		if got := d.state(t, id); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	_, err := m.AnswerTasks(context.WithoutCancel(t.Context()), "ann", []stint.Answer{
		{ID: "asia/a", Code: stint.StatusCompleted},
	})
	wantErr(t, "AnswerTasks", err, shards.ErrUnknownShard)
}
