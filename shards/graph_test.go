package shards_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// graphOf returns the tasks and dependencies of a graph in order, and the shards that are away.
func graphOf(t *testing.T, c *shards.Cluster, id string) string {
	t.Helper()
	graph, err := c.Graph(t.Context(), idOf(id))
	wantErr(t, "Graph", err, nil)
	if graph.Cut {
		t.Errorf("the graph of %s is cut", id)
	}
	var tasks, edges, away []string
	for _, task := range graph.Tasks {
		state := string(task.State)
		tasks = append(tasks, strings.TrimSuffix(task.Name().String()+":"+state, ":"))
	}
	for _, d := range graph.Dependencies {
		edges = append(edges, fmt.Sprintf("%s>%s", d.Predecessor, d.Dependent))
	}
	for _, at := range graph.Away {
		wantErr(t, "the shard that is away", at, errAway)
		away = append(away, "without "+at.Shard)
	}
	slices.Sort(tasks)
	slices.Sort(edges)
	return strings.Join(slices.Concat(tasks, edges, away), " ")
}

// The network of a task is the same from wherever one looks at it.
func TestGraph_GoesFromShardToShard(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b", "1/a"), task("1/c", "2/b"), task("3/d", "2/b", "1/c"),
		task("2/alone"), task("3/also", "2/alone"),
	})
	wantErr(t, "InsertTasks", err, nil)
	stop := d.relay(t, shards.Options{})
	d.awaitDecided(t)
	stop()
	insertAll(t, c, "1/e")
	err = c.AddDependencies(t.Context(), []shards.Dependency{on("1/e", "3/d")})
	wantErr(t, "AddDependencies", err, nil)
	const want = "1/a:ready 1/c:blocked 1/e:ready 2/b:blocked 3/d:blocked " +
		"1/a>2/b 1/c>3/d 1/e>3/d 2/b>1/c 2/b>3/d"
	for _, id := range []string{"1/a", "2/b", "1/c", "3/d", "1/e"} {
		if got := graphOf(t, c, id); got != want {
			t.Errorf("the graph of %s is\n%s, want\n%s", id, got, want)
		}
	}
	const other = "2/alone:ready 3/also:blocked 2/alone>3/also"
	if got := graphOf(t, c, "3/also"); got != other {
		t.Errorf("the graph of 3/also is\n%s, want\n%s", got, other)
	}
	_, err = c.Graph(t.Context(), idOf("1/none"))
	wantErr(t, "Graph", err, stint.ErrTaskNotFound)
	_, err = c.Graph(t.Context(), idOf("4/a"))
	wantErr(t, "Graph", err, shards.ErrUnknownShard)
}

// What has ended stays in the network, and an edge that was refused is not in it.
func TestGraph_ShowsWhatStands(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b", "1/a"), task("2/c", "2/b"),
	})
	wantErr(t, "InsertTasks", err, nil)
	d.awaitDecided(t)
	err = c.AddDependencies(t.Context(), []shards.Dependency{on("2/c", "1/a")})
	wantErr(t, "AddDependencies", err, stint.ErrCycle)
	d.perform(t, "1/a", stint.Return{})
	d.perform(t, "2/b", stint.Return{})
	const want = "1/a:completed 2/b:completed 2/c:ready 1/a>2/b 2/b>2/c"
	if got := graphOf(t, c, "2/c"); got != want {
		t.Errorf("the graph is\n%s, want\n%s", got, want)
	}
}

// Proves G153.
func TestGraph_NamesAShardThatIsAway(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b", "1/a"), task("3/c", "2/b"), task("1/d", "3/c", "1/a"),
	})
	wantErr(t, "InsertTasks", err, nil)
	d.away.Store("2", true)
	for id, want := range map[string]string{
		"1/a": "1/a:ready 1/d:blocked 2/b 3/c:blocked 1/a>1/d 2/b>3/c 3/c>1/d without 2",
		"3/c": "1/a:ready 1/d:blocked 2/b 3/c:blocked 1/a>1/d 2/b>3/c 3/c>1/d without 2",
	} {
		if got := graphOf(t, c, id); got != want {
			t.Errorf("the graph of %s is\n%s, want\n%s", id, got, want)
		}
	}
	_, err = c.Graph(t.Context(), idOf("2/b"))
	wantErr(t, "Graph", err, errAway)
}

// Of a network that is too large, the nearest tasks are returned.
func TestGraph_OfALargeNetworkIsCut(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const each, most = 5001, 10_000
	d := newDatabases(t, "1", "2", "3")
	c := d.cluster(t, shards.Options{})
	tasks := []shards.Task{task("1/first"), task("1/second", "1/first")}
	for i := range each {
		tasks = append(tasks, task(fmt.Sprintf("2/%d", i), "1/first"),
			task(fmt.Sprintf("3/%d", i), "1/first"))
	}
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
	graph, err := c.Graph(t.Context(), idOf("1/first"))
	wantErr(t, "Graph", err, nil)
	if !graph.Cut || len(graph.Tasks) != most || graph.Tasks[0].Name() != idOf("1/first") ||
		graph.Tasks[1].Name() != idOf("1/second") {
		t.Errorf("Graph has %d tasks, cut: %t", len(graph.Tasks), graph.Cut)
	}
	if len(graph.Dependencies) != most-1 {
		t.Errorf("Graph has %d dependencies, want %d", len(graph.Dependencies), most-1)
	}
}
