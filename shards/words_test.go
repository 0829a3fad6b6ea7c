package shards_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// wantInWords fails if what a caller is told has the ID of a task that the cluster has inserted for
// itself.
func wantInWords(t *testing.T, call string, answer any, err error) {
	t.Helper()
	text := fmt.Sprintf("%+v: %v", answer, err)
	for _, internal := range []string{
		"stint.remote", "stint.gate", "stint.guard", "stint.decision", "stint.report", "stint.link",
		"stint.shard",
	} {
		if strings.Contains(text, internal) {
			t.Errorf("%s names internal tasks: %s", call, text)
		}
	}
}

// Errors and answers speak of the tasks of the caller, on whatever shard these are.
// Proves G151.
func TestCluster_SpeaksOfTheCallersTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{
		task("us/save"), task("eu/mail", "us/save"), task("eu/then", "eu/mail"),
		task("us/last", "eu/then"), task("eu/free"),
	}), nil)
	every := []shards.ID{idOf("us/save"), idOf("eu/mail"), idOf("eu/then"), idOf("us/last")}
	askEach := func() {
		t.Helper()
		for _, id := range every {
			retried, err := c.RetryTasks(t.Context(), []shards.ID{id})
			wantInWords(t, "RetryTasks", retried, err)
			err = c.AddDependencies(t.Context(), []shards.Dependency{
				{Predecessor: idOf("us/last"), Dependent: id},
			})
			wantInWords(t, "AddDependencies", nil, err)
			err = c.AddDependencies(t.Context(), []shards.Dependency{
				{Predecessor: id, Dependent: idOf("us/save")},
			})
			wantInWords(t, "AddDependencies", nil, err)
			got, err := c.GetTasks(t.Context(), []shards.ID{id, {Shard: "eu", Task: "none"}})
			wantInWords(t, "GetTasks", got, err)
			_, err = c.WaitForTask(t.Context(), id)
			wantInWords(t, "WaitForTask", nil, err)
			_, err = c.DeleteTasks(t.Context(), []shards.ID{id, {Shard: "us", Task: "none"}})
			wantInWords(t, "DeleteTasks", nil, err)
			graph, err := c.Graph(t.Context(), id)
			wantInWords(t, "Graph", graph, err)
			history, err := c.History(t.Context(), id)
			wantInWords(t, "History", history, err)
			err = c.InsertTasks(t.Context(), []shards.Task{
				task(id.String()), task("us/more", id.String()), task("eu/more", "us/more"),
			})
			wantInWords(t, "InsertTasks", nil, err)
			why, err := c.Explain(t.Context(), id)
			wantInWords(t, "Explain", why, err)
			wantInWords(t, "Explanation.String", why.String(), nil)
		}
	}
	askEach()
	aborted, err := c.AbortTasks(t.Context(), []shards.ID{idOf("us/save")}, "no use")
	wantErr(t, "AbortTasks", err, nil)
	wantInWords(t, "AbortTasks", aborted, err)
	d.awaitState(t, "us/last", "aborted")
	for _, id := range every[1:] {
		_, err := c.RetryTasks(t.Context(), []shards.ID{id})
		wantErr(t, "RetryTasks", err, stint.ErrPredecessorAborted)
	}
	askEach()
	if _, err := c.RetryTasks(t.Context(), every[1:2]); err == nil ||
		!strings.Contains(err.Error(), `"us/save"`) {
		t.Errorf("RetryTasks = %v, want an error that names us/save", err)
	}
}
