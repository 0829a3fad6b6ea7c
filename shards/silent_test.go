package shards_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// freezing makes the way to a shard one that swallows what is sent, from when freeze is called.
func (d *databases) freezing(t *testing.T, name string) (freeze func()) {
	t.Helper()
	address, err := d.topology.URL(name)
	wantErr(t, "URL", err, nil)
	target, err := url.Parse(address)
	wantErr(t, "Parse", err, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	wantErr(t, "Listen", err, nil)
	var frozen atomic.Bool
	var open sync.Map
	t.Cleanup(func() {
		_ = listener.Close()
		open.Range(func(conn, _ any) bool {
			_ = conn.(net.Conn).Close()
			return true
		})
	})
	pass := func(from, to net.Conn) {
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				_ = to.Close()
				return
			}
			if !frozen.Load() {
				_, _ = to.Write(buffer[:n])
			}
		}
	}
	network, at := "tcp", target.Host
	if host := target.Query().Get("host"); host != "" {
		network, at = "unix", host+"/.s.PGSQL."+target.Query().Get("port")
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Store(client, true)
			server, err := net.Dial(network, at)
			if err != nil {
				continue
			}
			open.Store(server, true)
			go pass(client, server)
			go pass(server, client)
		}
	}()
	query := target.Query()
	query.Del("host")
	query.Del("port")
	target.Host, target.RawQuery = listener.Addr().String(), query.Encode()
	urls := map[string]string{}
	for _, other := range d.topology.Names() {
		urls[other], err = d.topology.URL(other)
		wantErr(t, "URL", err, nil)
	}
	urls[name] = target.String()
	d.topology, err = shards.Static(urls)
	wantErr(t, "Static", err, nil)
	return func() { frozen.Store(true) }
}

// Nothing waits for ever behind a shard that is connected and says nothing; what the others have to
// say is said.
// Proves G149.
func TestCluster_NamesASilentShardAndGoesOn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, from := range []string{"the first connection", "later"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t, "1", "2", "3")
			freeze := d.freezing(t, "2")
			c := d.cluster(t, shards.Options{Connect: shards.Connect})
			prepareSilent(t, d, c)
			if from == "the first connection" {
				c = d.cluster(t, shards.Options{Connect: shards.Connect})
			}
			freeze()
			askAll(t, c)
		})
	}
}

func prepareSilent(t *testing.T, d *databases, c *shards.Cluster) {
	t.Helper()
	waited := task("2/b", "1/a")
	waited.Task.PostResult = true
	beside := task("1/beside")
	beside.Task.PostResult = true
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), waited, beside, task("1/c", "2/b"), task("3/d", "1/a"), task("1/x", "3/d"),
		task("2/e", "3/d"), task("1/z"),
	}), nil)
	page, err := d.stores["3"].ListTasks(t.Context(), stint.Filter{IDPrefix: "stint.report/"})
	wantErr(t, "ListTasks", err, nil)
	for _, info := range page.Tasks { // so nothing reports to a placeholder on 1
		if info.Action == "stint.Report/1" {
			_, err := d.stores["3"].DeleteTasks(t.Context(), []stint.TaskID{info.ID})
			wantErr(t, "DeleteTasks", err, nil)
		}
	}
}

// A silentCall is a call of a verb, one shard of which is silent: its error, and whether it says
// what the others have.
type silentCall func(ctx context.Context) (error, bool)

func looksOf(c *shards.Cluster) map[string]silentCall {
	return map[string]silentCall{
		"Check": func(ctx context.Context) (error, bool) {
			found, err := c.Check(ctx)
			return err, len(found) == 1 && found[0].Shard == "1"
		},
		"Stats": func(ctx context.Context) (error, bool) {
			all, err := c.Stats(ctx)
			if err != nil || len(all) != 3 {
				return err, false
			}
			return all[1].Err, all[0].Err == nil && all[2].Err == nil
		},
		"ListTasks": func(ctx context.Context) (error, bool) {
			page, err := c.ListTasks(ctx, stint.Filter{Limit: 1000})
			if err != nil || len(page.Away) != 1 {
				return err, false
			}
			return page.Away[0], len(page.Tasks) > 6
		},
		"Ends": func(ctx context.Context) (error, bool) {
			page, err := c.Ends(ctx, nil, "", time.Hour)
			if err != nil || len(page.Away) != 1 {
				return err, false
			}
			return page.Away[0], page.Next != ""
		},
		"Graph": func(ctx context.Context) (error, bool) {
			graph, err := c.Graph(ctx, idOf("1/a"))
			if err != nil || len(graph.Away) != 1 {
				return err, false
			}
			return graph.Away[0], slices.ContainsFunc(graph.Tasks, func(info shards.TaskInfo) bool {
				return info.Shard == "3" && info.ID == "d" // also that lies behind 1/a
			})
		},
		"Explain": func(ctx context.Context) (error, bool) {
			why, err := c.Explain(ctx, idOf("1/c"))
			if err != nil || len(why.Remote) != 1 {
				return err, false
			}
			return why.Remote[0].Err, true
		},
		"GetTasks": func(ctx context.Context) (error, bool) {
			found, err := c.GetTasks(ctx, []shards.ID{idOf("1/a"), idOf("2/b"), idOf("3/d")})
			return err, len(found) == 2
		},
		"History": func(ctx context.Context) (error, bool) {
			_, err := c.History(ctx, idOf("2/b"))
			return err, true
		},
		"WaitForTask": func(ctx context.Context) (error, bool) {
			_, err := c.WaitForTask(ctx, idOf("2/b"))
			return err, true
		},
		"WaitForTasks": func(ctx context.Context) (error, bool) {
			_, err := c.WaitForTasks(ctx, []shards.ID{idOf("1/beside"), idOf("2/b")})
			return err, true
		},
	}
}

func changesOf(c *shards.Cluster) map[string]silentCall {
	return map[string]silentCall{
		"DeleteTasks": func(ctx context.Context) (error, bool) {
			_, err := c.DeleteTasks(ctx, []shards.ID{idOf("1/a")}) // what waits is on 2
			return err, true
		},
		"AbortTasks": func(ctx context.Context) (error, bool) {
			changed, err := c.AbortTasks(ctx, []shards.ID{idOf("1/z"), idOf("2/e")}, "")
			return err, len(changed.Tasks) == 1
		},
		"ChangeTasks": func(ctx context.Context) (error, bool) {
			changed, err := c.ChangeTasks(ctx, []shards.ID{idOf("1/beside"), idOf("2/e")},
				stint.TaskChanges{Priority: new(int16(1))})
			return err, len(changed.Tasks) == 1
		},
		"RetryTasks": func(ctx context.Context) (error, bool) {
			_, err := c.RetryTasks(ctx, []shards.ID{idOf("2/b")})
			return err, true
		},
		"AddDependencies": func(ctx context.Context) (error, bool) {
			err := c.AddDependencies(ctx, []shards.Dependency{
				{Predecessor: idOf("2/b"), Dependent: idOf("3/d")},
			})
			return err, true
		},
		"InsertTasks": func(ctx context.Context) (error, bool) {
			err := c.InsertTasks(ctx, []shards.Task{task("1/new"), task("2/new", "1/new")})
			return err, true
		},
	}
}

// askAll calls all verbs, of which each must end.
func askAll(t *testing.T, c *shards.Cluster) {
	t.Helper()
	calls := looksOf(c)
	maps.Copy(calls, changesOf(c))
	var all sync.WaitGroup
	for name, call := range calls {
		all.Go(func() {
			err, rest := call(context.Background()) // which never ends
			var at *shards.ShardError
			if !errors.As(err, &at) || at.Shard != "2" {
				t.Errorf("%s = %v, want an error of shard 2", name, err)
			}
			if !rest {
				t.Errorf("%s does not say what the other shards have", name)
			}
		})
	}
	all.Wait()
}
