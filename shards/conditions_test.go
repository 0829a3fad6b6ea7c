package shards_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// when is a task that starts as soon as all conditions are met.
func when(id string, conditions ...shards.Condition) shards.Task {
	t := task(id)
	t.When = conditions
	return t
}

func answers(after string, results ...string) shards.Condition {
	return shards.Condition{After: idOf(after), Results: results}
}

func ends(after string, states ...stint.State) shards.Condition {
	return shards.Condition{After: idOf(after), States: states}
}

// Conditions hold from shard to shard, and so does what is skipped.
// Proves R23, G270.
func TestInsertTasks_CarriesConditionsFromShardToShard(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	d.relay(t, shards.Options{})
	cluster := d.cluster(t, shards.Options{})
	anyway := task("eu/any", "us/heads")
	anyway.Task.OnAbort = stint.RunAnyway
	first := task("us/first")
	first.WhenAny = []shards.Condition{ends("eu/flip", stint.StateAborted), ends("us/tails")}
	tasks := []shards.Task{
		task("eu/flip"), when("us/heads", answers("eu/flip", "heads")),
		when("us/tails", answers("eu/flip", "tails")), task("eu/next", "us/heads"), anyway,
		when("eu/join", ends("us/heads", stint.StateCompleted, stint.StateSkipped),
			ends("us/tails", stint.StateCompleted, stint.StateSkipped)),
		when("eu/mend", ends("us/heads", stint.StateAborted)), first,
	}
	wantErr(t, "InsertTasks", cluster.InsertTasks(t.Context(), tasks), nil)
	d.perform(t, "eu/flip", stint.Return{Result: []byte("tails")})
	d.perform(t, "us/tails", stint.Return{})
	for id, want := range map[string]string{
		"us/heads": "skipped", "eu/next": "skipped", "eu/any": "ready", "eu/mend": "skipped",
		"eu/join": "ready", "us/first": "ready",
	} {
		d.awaitState(t, id, want)
	}
	graph, err := cluster.Graph(t.Context(), idOf("eu/flip"))
	wantErr(t, "Graph", err, nil)
	said := map[string]string{}
	for _, c := range graph.Conditions {
		said[c.After.String()+" "+c.Dependent.String()] = stint.EdgeCondition{
			Condition: stint.Condition{States: c.States, Results: c.Results}, Any: c.Any,
		}.String()
	}
	for edge, want := range map[string]string{
		"eu/flip us/heads": `if "heads"`, "us/heads eu/mend": "if aborted",
		"us/heads eu/join": "if completed or skipped", "us/tails us/first": "any of",
		"eu/flip us/first": "any of, if aborted",
	} {
		if said[edge] != want {
			t.Errorf("%s is %q, want %q", edge, said[edge], want)
		}
	}
	if _, ok := said["us/heads eu/next"]; ok || len(said) != 7 {
		t.Errorf("the conditions are %v", said)
	}
}

// What would start before it is decided whether it is inserted is refused, and so are cycles.
// Proves R23, R4.
func TestInsertTasks_RefusesConditionsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	cluster := d.cluster(t, shards.Options{})
	wantErr(t, "InsertTasks", cluster.InsertTasks(t.Context(), []shards.Task{
		task("us/old"), task("eu/old"),
	}), nil)
	early, other := task("us/early"), task("eu/other")
	early.WhenAny = []shards.Condition{ends("us/old"), ends("eu/a")}
	other.WhenAny = []shards.Condition{ends("eu/behind", stint.StateSkipped)}
	err := cluster.InsertTasks(t.Context(), []shards.Task{
		task("eu/a"), early, task("eu/behind", "eu/old"), other,
	})
	if wantErr(t, "InsertTasks", err, stint.ErrInvalidArgument); err != nil &&
		!strings.Contains(err.Error(), "insert these two apart") {
		t.Errorf("InsertTasks = %v", err)
	}
	err = cluster.InsertTasks(t.Context(), []shards.Task{
		when("eu/b", ends("us/c", stint.StateAborted)), when("us/c", ends("eu/b")),
	})
	wantErr(t, "InsertTasks", err, stint.ErrCycle)
	d.awaitState(t, "us/early", "none")
}

// The part decides in which a stored task may start one of several: none starts before that.
// Proves R23, G139.
func TestInsertTasks_StartsNoTaskWithWhenAnyBeforeTheDecision(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, "eu", "us")
	cluster := d.cluster(t, shards.Options{})
	insert(t, cluster, task("us/old"))
	_, err := cluster.AbortTasks(t.Context(), []shards.ID{idOf("us/old")}, "gone")
	wantErr(t, "AbortTasks", err, nil)
	early := task("us/early")
	early.WhenAny = []shards.Condition{ends("us/falls", stint.StateAborted), ends("us/never")}
	tasks := []shards.Task{
		task("us/falls", "us/old"), task("us/never"), early,
		task("eu/a"), task("eu/b"), task("eu/c"), task("eu/d"), task("eu/e"),
	}
	err = d.dying(t, 2).InsertTasks(t.Context(), tasks)
	wantErr(t, "InsertTasks of a process that is killed", err, errKilled)
	d.awaitState(t, "us/early", "none")
	stop := d.relay(t, shards.Options{DecideWithin: time.Nanosecond})
	d.awaitDecided(t)
	stop()
	insert(t, cluster, tasks...)
	d.awaitState(t, "us/early", "ready")
}

// A task that was skipped, and that is retried and completed then, has what was skipped because of
// it on other shards opened.
// Proves R23, G270.
func TestRetryTasks_OpensWhatWasSkippedOnOtherShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	d.relay(t, shards.Options{})
	cluster := d.cluster(t, shards.Options{})
	ask := task("us/ask")
	ask.Task.Action = stint.External
	wantErr(t, "InsertTasks", cluster.InsertTasks(t.Context(), []shards.Task{
		ask, task("eu/next", "us/ask"),
	}), nil)
	answer := func(code stint.StatusCode) {
		t.Helper()
		d.awaitState(t, "us/ask", "ready")
		verdicts, err := d.stores["us"].AnswerTasks(t.Context(), "ann", []stint.Answer{
			{ID: "ask", Code: code, Status: "so be it"},
		})
		wantErr(t, "AnswerTasks", errors.Join(append(verdicts, err)...), nil)
	}
	answer(stint.StatusSkipped)
	d.awaitState(t, "eu/next", "skipped")
	_, err := cluster.RetryTasks(t.Context(), []shards.ID{idOf("us/ask")})
	wantErr(t, "RetryTasks", err, nil)
	answer(stint.StatusCompleted)
	d.awaitState(t, "eu/next", "ready")
}

// A condition about a task of another shard that is replaced before its end is not met; what waits
// for the task without one goes on.
// Proves R5, R23, G270.
func TestReplaceTasks_MeetsNoConditionOnAnotherShard(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	replaced := func(d *databases) error {
		return d.stores["eu"].ReplaceTasks(t.Context(), []stint.Task{task("eu/a").Task})
	}
	debounced := func(d *databases) error {
		return d.stores["eu"].Debounce(t.Context(), task("eu/a").Task, time.Second, time.Second)
	}
	for name, test := range map[string]struct {
		isGated bool
		replace func(d *databases) error
	}{
		"replaced": {false, replaced}, "replaced, gated": {true, replaced},
		"debounced": {false, debounced}, "debounced, gated": {true, debounced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t, "eu", "us")
			c := d.cluster(t, shards.Options{})
			err := d.stores["eu"].Debounce(t.Context(), task("eu/a").Task, time.Hour, time.Hour)
			wantErr(t, "Debounce", err, nil)
			tasks := []shards.Task{
				when("us/met", ends("eu/a")), when("us/mend", ends("eu/a", stint.StateAborted)),
				task("us/plain", "eu/a"), task("us/behind", "us/met"),
			}
			if !test.isGated {
				tasks = append(tasks, task("eu/1"), task("eu/2"), task("eu/3"), task("eu/4"),
					task("eu/5"))
			}
			insert(t, c, tasks...)
			d.relay(t, shards.Options{})
			d.awaitDecided(t)
			wantErr(t, "replace", test.replace(d), nil)
			d.awaitState(t, "us/plain", "ready")
			for _, id := range []string{"us/met", "us/mend", "us/behind"} {
				if got := d.state(t, id); got != "skipped" {
					t.Errorf("%s is %s, want skipped", id, got)
				}
			}
			d.awaitEnded(t, "us", "stint.remote/")
			wantSound(t, c)
		})
	}
}
