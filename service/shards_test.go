package service_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/shards"
)

// startSharded starts a service whose store is shard 1 of two.
func startSharded(tb testing.TB, options service.Options) *running {
	tb.Helper()
	one, two := testdb.New(tb), testdb.New(tb)
	cluster := newCluster(tb, map[string]string{"1": testdb.URL(one), "2": testdb.URL(two)})
	options.Cluster, options.Shard = cluster, "1"
	return startOn(tb, one, options)
}

// newCluster returns a cluster of shards at these URLs, which closes when the test ends.
func newCluster(tb testing.TB, urls map[string]string) *shards.Cluster {
	tb.Helper()
	topology, err := shards.Static(urls)
	if err != nil {
		tb.Fatal(err)
	}
	cluster, err := shards.New(topology, shards.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cluster.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return cluster
}

// A service with a cluster inserts tasks on all shards, and shows them.
func TestInsertShardTasks_InsertsOnAllShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startSharded(t, service.Options{})
	c := testservice.Client(t, r.address, client.Options{})
	info, err := c.ServiceInfo(t.Context())
	if err != nil || info.Shard != "1" {
		t.Errorf("ServiceInfo = %+v, %v", info, err)
	}
	tasks := []shards.Task{
		{Shard: "1", Task: stint.Task{ID: "a", Action: "act", Body: []byte("in")}},
		{Shard: "2", Task: stint.Task{Action: "act"}, After: []shards.ID{{Shard: "1", Task: "a"}}},
	}
	wantErr(t, "InsertShardTasks", c.InsertShardTasks(t.Context(), tasks), nil)
	found, err := c.GetShardTasks(t.Context(), []shards.ID{
		{Shard: "2", Task: tasks[1].Task.ID}, {Shard: "1", Task: "a"},
	})
	if err != nil || len(found) != 2 || found[0].State != stint.StateBlocked ||
		string(found[1].Body) != "in" {
		t.Errorf("GetShardTasks = %+v, %v", found, err)
	}
	_, err = c.GetShardTasks(t.Context(), []shards.ID{{Shard: "2", Task: "none"}})
	wantErr(t, "GetShardTasks", err, stint.ErrTaskNotFound)
	for name, test := range map[string]struct {
		err, want error
	}{
		"a task that is there": {c.InsertShardTasks(t.Context(), tasks), stint.ErrTaskExists},
		"an unknown shard": {
			c.InsertShardTasks(t.Context(), []shards.Task{{Shard: "3", Task: stint.Task{
				Action: "act",
			}}}), stint.ErrInvalidArgument,
		},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want %v", name, test.err, test.want)
		}
	}
}

func TestInsertShardTasks_NeedsATopology(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	for verb, body := range map[string]string{
		"InsertShardTasks": `{"tasks":[]}`, "GetShardTasks": `{"tasks":[]}`,
	} {
		code, answer := r.post(t, "ClusterService/"+verb, body)
		if code != http.StatusNotImplemented {
			t.Errorf("%s = %d %v", verb, code, answer)
		}
	}
}

// Whoever may not control what relays perform can neither make them do it, nor name a shard, nor do
// what they do.
func TestService_TrustsRelaysAloneWithTasksOfACluster(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	parsed, err := access.Parse([]byte(`
producer:
  - verbs: [insert]
    actions: ["*"]
half:
  - verbs: [insert, control, answer]
    actions: ["*"]
    ids: ["shop/*"]
asker:
  - verbs: [insert, read, control, answer]
    actions: [mail, stint.External]
peer:
  - verbs: [own, insert, read-bodies, control, answer]
    actions: ["stint.*"]
`))
	wantErr(t, "Parse", err, nil)
	r := startSharded(t, service.Options{
		Authenticate: func(r *http.Request) (*access.Principal, error) {
			name, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			return parsed.Principal(name), nil
		},
	})
	const insert, external = `{"tasks":[{"id":"%s","action":"%s"}]}`, "stint.External"
	const answer = `{"actor":"w","answers":[{"id":"%s","code":"completed","status":"%s"}]}`
	for _, c := range []struct {
		by, verb, id, action string
		refused              bool
	}{
		{"producer", insert, "a", "act", false},
		{"producer", insert, "stint.guard/a", "stint.Guard", true},
		{"producer", insert, "stint.shard", external, true},
		{"half", insert, "shop/a", "stint.Report/2", true},
		{"asker", insert, "ask", external, false},
		{"asker", insert, "stint.shard", external, true},
		{"asker", insert, "stint.remote/2/a/b", external, true},
		{"asker", insert, "stint.gate/a", "mail", true},
		{"peer", insert, "stint.guard/a", "stint.Guard", false},
		{"peer", insert, "stint.shard", external, false},
		{"peer", insert, "stint.remote/2/a/b", external, false},
		{"asker", answer, "ask", "", false},
		{"asker", answer, "stint.remote/2/a/b", "", true},
		{"peer", answer, "stint.remote/2/a/b", "", false},
	} {
		verbs := []string{"TaskService/InsertTasks"}
		switch {
		case c.verb == answer:
			verbs = []string{"TaskService/AnswerTasks"}
		case c.refused:
			verbs = append(verbs, "TaskService/ReplaceTasks", "ClusterService/InsertShardTasks")
		}
		for _, verb := range verbs {
			request := fmt.Sprintf(c.verb, c.id, c.action)
			if strings.HasPrefix(verb, "Cluster") {
				request = fmt.Sprintf(`{"tasks":[{"shard":"2","task":{"id":%q,"action":%q}}]}`,
					c.id, c.action)
			}
			code, answer := r.as(c.by).post(t, verb, request)
			if c.refused != (code == http.StatusForbidden) || !c.refused && code != http.StatusOK {
				t.Errorf("%s: %s %s = %d %v", c.by, verb, request, code, answer)
			}
		}
	}
	code, said := r.as("producer").post(t, "TaskService/PutSchedules", `{"schedules":[{"name":`+
		`"stint.gate","spec":"@daily","tasks":[{"action":"act"}]}]}`)
	if code != http.StatusForbidden {
		t.Errorf("PutSchedules = %d %v", code, said)
	}
}

// Tasks of several shards that are too large for an answer together are refused.
func TestGetShardTasks_AnswersWithWhatFits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startSharded(t, service.Options{})
	c := testservice.Client(t, r.address, client.Options{})
	tasks := make([]shards.Task, 100)
	names := make([]shards.ID, len(tasks))
	for i := range tasks {
		names[i] = shards.ID{Shard: fmt.Sprint(1 + i%2), Task: stint.TaskID(fmt.Sprint(i))}
		tasks[i] = shards.Task{Shard: names[i].Shard, Task: stint.Task{
			ID: names[i].Task, Action: "act", Body: make([]byte, 1<<20),
		}}
	}
	for some := range slices.Chunk(tasks, len(tasks)/2) {
		wantErr(t, "InsertShardTasks", c.InsertShardTasks(t.Context(), some), nil)
	}
	for _, names := range [][]shards.ID{names[:1], names[:2], names[:60]} {
		found, err := c.GetShardTasks(t.Context(), names)
		if err != nil || len(found) != len(names) || len(found[0].Body) != 1<<20 {
			t.Errorf("GetShardTasks of %d = %d tasks, %v", len(names), len(found), err)
		}
	}
	_, err := c.GetShardTasks(t.Context(), names)
	wantErr(t, "GetShardTasks of 100 MiB", err, stint.ErrTooLarge)
}
