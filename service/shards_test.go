package service_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/shards"
)

// startSharded starts a service whose store is shard 1 of two.
func startSharded(tb testing.TB, options service.Options) *running {
	tb.Helper()
	one, two := testdb.New(tb), testdb.New(tb)
	topology, err := shards.Static(map[string]string{"1": testdb.URL(one), "2": testdb.URL(two)})
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
	options.Cluster, options.Shard = cluster, "1"
	return startOn(tb, one, options)
}

// A service with a cluster inserts tasks on all shards, and shows them.
func TestInsertShardTasks_InsertsOnAllShards(t *testing.T) {
	t.Parallel()
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

// Whoever may insert tasks, but not control them, cannot make relays do it.
func TestInsert_OfTasksOfAClusterNeedsControl(t *testing.T) {
	t.Parallel()
	parsed, err := access.Parse([]byte(`
producer:
  - verbs: [insert]
    actions: ["*"]
half:
  - verbs: [insert, control]
    actions: ["*"]
    ids: ["shop/*"]
peer:
  - verbs: [insert, control]
    actions: ["stint.*"]
`))
	wantErr(t, "Parse", err, nil)
	for _, test := range []struct {
		principal string
		id        stint.TaskID
		action    string
		want      error
	}{
		{"producer", "a", "act", nil},
		{"producer", "stint.guard/a", "stint.Guard", stint.ErrRefused},
		{"half", "shop/a", "stint.Report/2", stint.ErrRefused},
		{"peer", "stint.guard/a", "stint.Guard", nil},
	} {
		r := startSharded(t, service.Options{Authenticate: func(
			*http.Request,
		) (*access.Principal, error) {
			return parsed.Principal(test.principal), nil
		}})
		c := testservice.Client(t, r.address, client.Options{})
		task := stint.Task{ID: test.id, Action: test.action}
		wantErr(t, "InsertTasks of "+test.principal, c.InsertTasks(t.Context(), []stint.Task{task}),
			test.want)
		if test.want != nil {
			err := c.InsertShardTasks(t.Context(), []shards.Task{{Shard: "2", Task: task}})
			wantErr(t, "InsertShardTasks of "+test.principal, err, test.want)
		}
	}
}
