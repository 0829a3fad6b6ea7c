//go:build unix

package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// A sharding is a topology of the shards eu and us, and the test's look at them.
type sharding struct {
	eu, us  *stint.Store
	euPool  *pgxpool.Pool
	cluster *shards.Cluster
	env     []string // names the topology
	half    []string // the same, but us is away
}

func newSharding(t *testing.T) *sharding {
	t.Helper()
	eu, us := testdb.New(t), testdb.New(t)
	topology := "static:eu=" + testdb.URL(eu) + ",us="
	s := &sharding{
		eu: databaseOn(t, eu).store, us: databaseOn(t, us).store, euPool: eu,
		env:  []string{"STINT_TOPOLOGY=" + topology + testdb.URL(us)},
		half: []string{"STINT_TOPOLOGY=" + topology + nowhere},
	}
	parsed, err := shards.ParseTopology(topology + testdb.URL(us))
	if err != nil {
		t.Fatal(err)
	}
	s.cluster, err = shards.New(parsed, shards.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.cluster.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// insert inserts eu/save, and us/mail and eu/log, which wait for the one before them.
func (s *sharding) insert(t *testing.T) {
	t.Helper()
	err := s.cluster.InsertTasks(t.Context(), []shards.Task{
		{Shard: "eu", Task: stint.Task{ID: "save", Action: "save"}},
		{
			Shard: "us", Task: stint.Task{ID: "mail", Action: "mail"},
			After: []shards.ID{{Shard: "eu", Task: "save"}},
		},
		{
			Shard: "eu", Task: stint.Task{ID: "log", Action: "log"},
			After: []shards.ID{{Shard: "us", Task: "mail"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// relay runs a relay until the test ends.
func (s *sharding) relay(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.cluster.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (s *sharding) run(t *testing.T, args ...string) ran {
	t.Helper()
	return run(t, s.env, "", args...)
}

func TestShards_AreLookedAtTogether(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	actions := []string{"--action", "save", "--action", "mail", "--action", "log"}
	listed := s.run(t, append(actions, "ls")...).wantExit(t, 0)
	listed.wantOutput(t, "eu/save", "eu/log", "us/mail")
	page := s.run(t, append(actions, "ls", "--limit", "2")...).wantExit(t, 0, "--after 'eu/save'")
	page.wantOutput(t, "eu/log", "eu/save")
	var task struct{ ID, Shard, Action string }
	s.run(t, append(actions, "ls", "--json", "--after", "eu/save")...).wantExit(t, 0).
		decode(t, &task)
	if task.ID != "us/mail" || task.Shard != "us" || task.Action != "mail" {
		t.Errorf("ls --json prints %+v", task)
	}
	s.run(t, "stats").wantExit(t, 0).wantOutput(t, "SHARD  ACTION", "eu     save", "us     mail")
	var stats struct {
		Shards []struct {
			Shard   string
			Actions []struct {
				Action string
				Ready  int64
			}
		}
	}
	s.run(t, "stats", "--json").wantExit(t, 0).decode(t, &stats)
	if len(stats.Shards) != 2 || stats.Shards[1].Shard != "us" ||
		len(stats.Shards[1].Actions) == 0 {
		t.Errorf("stats --json prints %+v", stats)
	}
	s.run(t, "show", "us/mail").wantExit(t, 0).wantOutput(t, "us/mail", "eu/save (ready)",
		"eu/log (blocked)")
	s.run(t, "explain", "us/mail").wantExit(t, 0).wantOutput(t, `"us/mail" is blocked`,
		`"eu/save" (ready)`)
	for _, format := range []string{"dot", "mermaid", "svg"} {
		s.run(t, "graph", "eu/log", "--format", format).wantExit(t, 0).wantOutput(t, "eu/save",
			"us/mail", "eu/log")
	}
	var graph struct {
		Dependencies []struct{ Predecessor, Dependent string }
	}
	s.run(t, "graph", "us/mail", "--json").wantExit(t, 0).decode(t, &graph)
	if len(graph.Dependencies) != 2 {
		t.Errorf("graph --json prints %+v", graph)
	}
	s.run(t, "check").wantExit(t, 0).wantOutput(t, "nothing is wrong")
	s.wantCopyTold(t)
}

// wantCopyTold checks that the stats name a shard whose database is a copy.
func (s *sharding) wantCopyTold(t *testing.T) {
	t.Helper()
	_, err := s.eu.OwnTasks(t.Context(), "actor", 1, []string{"save"}, stint.NoExpiry)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.euPool.Exec(t.Context(), "UPDATE stint.origin SET written_by = '3'")
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, "stats").wantExit(t, 0, "eu: nothing is handed out (see: stint adopt): ").
		wantOutput(t, "eu     save", "us     mail")
}

func TestShards_AreChangedTogether(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	s.run(t, "abort", "eu/save", "us/mail").wantExit(t, 0).wantOutput(t, "aborted 2 tasks")
	var retried struct{ Retried []string }
	s.run(t, "retry", "--json", "eu/save").wantExit(t, 0).decode(t, &retried)
	if strings.Join(retried.Retried, " ") != "eu/save" {
		t.Errorf("retry --json prints %q", retried.Retried)
	}
	s.run(t, "abort", "us/mail").wantExit(t, 0, "1 task had finished already: us/mail")
	s.run(t, "delete", "eu/save", "us/mail").wantExit(t, 0).wantOutput(t, "deleted 2 tasks")
	s.run(t, "show", "eu/save").wantExit(t, 3, "shard eu")
	s.run(t, "delete", "eu/save").wantExit(t, 3)
	_, err := s.us.DeleteTasks(t.Context(), []stint.TaskID{"mail"})
	if err == nil {
		t.Error("us/mail is there")
	}
}

// Check names what waits in vain, and delete repairs it.
func TestShards_AreRepairedAsCheckSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	if _, err := s.eu.DeleteTasks(t.Context(), []stint.TaskID{"save"}); err != nil {
		t.Fatal(err)
	}
	var document struct{ Findings []struct{ ID, Text string } }
	s.run(t, "check", "--json").wantExit(t, 9).decode(t, &document)
	if len(document.Findings) != 1 {
		t.Fatalf("check --json prints %+v", document)
	}
	s.run(t, "delete", document.Findings[0].ID).wantExit(t, 0)
	s.run(t, "check").wantExit(t, 0)
	s.run(t, "show", "us/mail").wantExit(t, 3)
	s.run(t, "show", "eu/log").wantExit(t, 3)
}

func TestShards_TakeATreeAndAreWaitedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.relay(t)
	const tree = `[{"task_id": {"shard": "eu", "id": "a"}, "method": "stint.Spontaneous",
			"args": []},
		{"task_id": {"shard": "us", "id": "b"}, "method": "stint.Spontaneous", "args": [
			{"type": "TASKREF", "task_id": {"shard": "eu", "id": "a"}}]}]`
	var submitted struct {
		IDs   map[string]string
		Tasks map[string]struct{ ID, Shard, State string }
	}
	run(t, s.env, tree, "submit", "--wait", "--json", "--prefix", "t").wantExit(t, 0).
		decode(t, &submitted)
	if got := submitted.Tasks["us/b"]; got.ID != submitted.IDs["us/b"] || got.Shard != "us" ||
		got.State != "completed" {
		t.Errorf("submit --json prints %+v", submitted)
	}
	s.run(t, "wait", submitted.IDs["us/b"]).wantExit(t, 0).wantOutput(t, "completed")
	run(t, s.env, `[{"name": "a", "action": "act"}]`, "submit").wantExit(t, 2, "name no shards")
}

// The tasks of the shards that are there are shown, the missing shard is named, and the exit code
// says so.
// Proves G153.
func TestShards_OneThatIsAwayIsNamed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	const missing = "shard us is away, and what it has is missing: "
	for _, test := range []struct {
		args  []string
		shows string
	}{
		{[]string{"ls", "--action", "save"}, "eu/save"},
		{[]string{"ls", "--json", "--action", "save"}, `"shard":"eu"`},
		{[]string{"stats"}, "eu     save"},
		{[]string{"show", "eu/log"}, "us/mail (unknown)"},
		{[]string{"explain", "eu/log"}, `"us/mail" (unknown)`},
		{[]string{"graph", "eu/save"}, "us/mail"},
	} {
		if test.args[0] == "graph" { // it is known there what waits for the task
			test.args[1] = "eu/log"
		}
		r := run(t, s.half, "", test.args...).wantExit(t, 4, missing)
		r.wantOutput(t, test.shows)
	}
	r := run(t, s.half, "", "ls", "--action", "mail").wantExit(t, 4, missing)
	if strings.Contains(r.stderr, "no tasks") {
		t.Errorf("ls says that there are no tasks:\n%s", r.stderr)
	}
	run(t, s.half, "", "check").wantExit(t, 4, "shard us")
	run(t, s.half, "", "show", "us/mail").wantExit(t, 4, "shard us")
	r = run(t, s.half, "", "abort", "eu/save", "us/mail").wantExit(t, 4, "shard us")
	r.wantOutput(t, "aborted 1 task")
	run(t, s.half, "", "delete", "eu/log", "us/mail").wantExit(t, 4, "shard us")
	if _, err := s.eu.GetTasks(t.Context(), []stint.TaskID{"log"}); err != nil {
		t.Errorf("eu/log: %v", err)
	}
}

// A shard may be behind a service, which has a topology of its own.
func TestShards_MayBeServices(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	topology := strings.TrimPrefix(s.env[0], "STINT_TOPOLOGY=")
	_, us, _ := strings.Cut(topology, ",us=")
	served := &database{env: s.env, pool: s.euPool}
	server := served.serve(t, "--shard", "eu", "--topology", topology)
	mixed := []string{"STINT_TOPOLOGY=static:eu=" + server.address + ",us=" + us}
	for _, test := range []struct {
		args  []string
		shows string
	}{
		{[]string{"ls", "--prefix", "eu/save"}, "eu/save"},
		{[]string{"stats"}, "us     mail"},
		{[]string{"show", "eu/log"}, "us/mail (blocked)"},
		{[]string{"explain", "us/mail"}, `"eu/save" (ready)`},
		{[]string{"check"}, "nothing is wrong"},
		{[]string{"abort", "eu/save"}, "aborted 1 task"},
	} {
		run(t, mixed, "", test.args...).wantExit(t, 0).wantOutput(t, test.shows)
	}
	// Nobody listens at port 1. Another service of the tests could get the port of one that stops.
	away := []string{"STINT_TOPOLOGY=static:eu=http://127.0.0.1:1,us=" + us}
	run(t, away, "", "ls", "--action", "mail").wantExit(t, 4, "shard eu is away").
		wantOutput(t, "us/mail")
}

// top shows the shards that are there, and names the one that is away.
func TestShards_AreWatchedTogether(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	x := startOnTerminal(t, s.env, "top", "--interval", "100ms")
	x.waitFor(t, "eu/save")
	x.waitFor(t, "us/mail")
	x.press(t, "q")
	x.wantExit(t, 0)
	x = startOnTerminal(t, s.half, "top", "--interval", "100ms")
	x.waitFor(t, "eu/save")
	x.waitFor(t, "shard us is away")
	x.press(t, "q")
	x.wantExit(t, 0)
}

func TestTopology_IsRefusedWhereItMakesNoSense(t *testing.T) {
	t.Parallel()
	const some = "static:eu=postgres://127.0.0.1:1/a,us=postgres://127.0.0.1:1/b"
	const one = "use --database-url or --server with the URL of a shard"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"migrate"}, one},
		{[]string{"prune", "--completed-after", "1h"}, one},
		{[]string{"actors"}, one},
		{[]string{"insert"}, one},
		{[]string{"ls", "--database-url", nowhere}, "--topology and --database-url"},
		{[]string{"ls", "--server", "http://127.0.0.1:1"}, "--topology and --server"},
		{[]string{"ls", "--schema", "other"}, "stint_schema"},
		{[]string{"ls", "--prefix", "asia/a"}, "no such shard"},
		{[]string{"show", "task"}, "must be shard/task"},
		{[]string{"show", "asia/task"}, "no such shard"},
		{[]string{"abort", "--yes", "--action", "mail"}, "name the tasks"},
	} {
		run(t, nil, "", append(test.args, "--topology", some)...).wantExit(t, 2, test.want)
	}
	run(t, nil, "", "ls", "--topology", "").wantExit(t, 2, "--topology is empty")
	run(t, nil, "", "ls", "--topology", "eu").wantExit(t, 2, "invalid --topology")
	run(t, nil, "", "ls", "--topology", "pattern:"+nowhere+"{shard}").wantExit(t, 2, "pattern")
	both := []string{"STINT_TOPOLOGY=" + some, "STINT_DATABASE_URL=" + nowhere}
	run(t, both, "", "ls").wantExit(t, 2, "STINT_TOPOLOGY and STINT_DATABASE_URL are both set")
	both[1] = "STINT_DATABASE_URL_FILE=" + writeFile(t, nowhere)
	run(t, both, "", "ls").wantExit(t, 2, "_TOPOLOGY and STINT_DATABASE_URL_FILE are both set")
	run(t, both[:1], "", "actors", "--database-url", nowhere).wantExit(t, 4)
}
