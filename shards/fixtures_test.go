package shards_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/shards"
)

func TestMain(m *testing.M) {
	if topology := os.Getenv(relayTopology); topology != "" {
		os.Exit(relayAsProcess(topology))
	}
	testdb.Main(m)
}

func wantErr(tb testing.TB, call string, got, want error) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Fatalf("%s = %v, want %v", call, got, want)
	}
}

// databases are shards with a database each.
type databases struct {
	topology shards.Topology
	stores   map[string]*stint.Store // to look at the shards without a cluster
	pools    map[string]*pgxpool.Pool
	away     sync.Map // the shards that cannot be reached
}

func newDatabases(tb testing.TB, names ...string) *databases {
	tb.Helper()
	d := &databases{stores: map[string]*stint.Store{}, pools: map[string]*pgxpool.Pool{}}
	urls := map[string]string{}
	for _, name := range names {
		pool := testdb.New(tb)
		store, err := stint.New(pool, stint.Options{MaxLosses: stint.UnlimitedLosses})
		wantErr(tb, "New", err, nil)
		tb.Cleanup(func() {
			ctx := context.WithoutCancel(tb.Context())
			found, err := store.Check(ctx)
			if err != nil || len(found) > 0 {
				tb.Errorf("Check of shard %s = %v, %v", name, found, err)
			}
			wantErr(tb, "Close", store.Close(ctx), nil)
		})
		d.stores[name], d.pools[name], urls[name] = store, pool, testdb.URL(pool)
	}
	topology, err := shards.Static(urls)
	wantErr(tb, "Static", err, nil)
	d.topology = topology
	return d
}

var errAway = errors.New("the shard is away")

// cluster returns a cluster of its own on the databases, as another process would have it.
func (d *databases) cluster(tb testing.TB, options shards.Options) *shards.Cluster {
	tb.Helper()
	c := d.process(tb, options)
	tb.Cleanup(func() {
		wantErr(tb, "Close", c.Close(context.WithoutCancel(tb.Context())), nil)
	})
	return c
}

// process is cluster, but the caller closes it.
func (d *databases) process(tb testing.TB, options shards.Options) *shards.Cluster {
	tb.Helper()
	if options.Connect == nil {
		options.Connect = d.connect
	}
	options.Logger = slog.New(slog.DiscardHandler)
	c, err := shards.New(d.topology, options)
	wantErr(tb, "New", err, nil)
	return c
}

func (d *databases) connect(ctx context.Context, shard, url string) (shards.Store, error) {
	store, err := shards.Connect(ctx, shard, url)
	if err != nil {
		return nil, err
	}
	return &distant{Store: store, away: func() bool {
		_, away := d.away.Load(shard)
		return away
	}}, nil
}

// relay runs a relay of its own until the test ends.
func (d *databases) relay(tb testing.TB, options shards.Options) (stop func()) {
	tb.Helper()
	c := d.cluster(tb, options)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		wantErr(tb, "Run", <-ended, nil)
	})
	tb.Cleanup(stop)
	return stop
}

// A distant store fails as long as its shard is away.
type distant struct {
	shards.Store
	away func() bool
}

func (d *distant) InsertTasks(ctx context.Context, tasks []stint.Task) error {
	if d.away() {
		return errAway
	}
	return d.Store.InsertTasks(ctx, tasks)
}

func (d *distant) GetTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error) {
	if d.away() {
		return nil, errAway
	}
	return d.Store.GetTasks(ctx, ids)
}

func (d *distant) ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error) {
	if d.away() {
		return stint.TaskPage{}, errAway
	}
	return d.Store.ListTasks(ctx, filter)
}

func (d *distant) Ends(
	ctx context.Context, actions []string, from stint.Cursor, wait time.Duration,
) (stint.EndPage, error) {
	if d.away() {
		return stint.EndPage{}, errAway
	}
	return d.Store.Ends(ctx, actions, from, wait)
}

func (d *distant) Graph(ctx context.Context, id stint.TaskID) (*stint.Graph, error) {
	if d.away() {
		return nil, errAway
	}
	return d.Store.Graph(ctx, id)
}

func (d *distant) Stats(ctx context.Context) (stint.Stats, error) {
	if d.away() {
		return stint.Stats{}, errAway
	}
	return d.Store.Stats(ctx)
}

func (d *distant) DeleteTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	if d.away() {
		return stint.Affected{}, errAway
	}
	return d.Store.DeleteTasks(ctx, ids)
}

func (d *distant) AnswerTasks(
	ctx context.Context, actor stint.ActorID, answers []stint.Answer,
) ([]error, error) {
	if d.away() {
		return nil, errAway
	}
	return d.Store.AnswerTasks(ctx, actor, answers)
}

func (d *distant) WaitToOwnTasks(
	ctx context.Context, actor stint.ActorID, n int, actions []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	if d.away() {
		return nil, errAway
	}
	return d.Store.WaitToOwnTasks(ctx, actor, n, actions, lease)
}

// task is a task that waits for tasks of any shard, named like "eu/save".
func task(id string, after ...string) shards.Task {
	named := idOf(id)
	t := shards.Task{Shard: named.Shard, Task: stint.Task{ID: named.Task, Action: "act"}}
	for _, before := range after {
		t.After = append(t.After, idOf(before))
	}
	return t
}

// own waits for a task of a shard, and owns it.
func (d *databases) own(t *testing.T, shard string) stint.OwnedTask {
	t.Helper()
	owned, err := d.stores[shard].WaitToOwnTasks(
		t.Context(), "worker", 1, []string{"act"}, time.Hour)
	wantErr(t, "WaitToOwnTasks", err, nil)
	return owned[0]
}

// perform owns a task of a shard, which must be the one named, and returns it.
func (d *databases) perform(t *testing.T, id string, with stint.Return) stint.OwnedTask {
	t.Helper()
	named, err := shards.ParseID(id)
	wantErr(t, "ParseID", err, nil)
	owned := d.own(t, named.Shard)
	if owned.ID != named.Task {
		t.Fatalf("shard %s gave %q, want %q", named.Shard, owned.ID, named.Task)
	}
	if with.Code == "" {
		with.Code = stint.StatusCompleted
	}
	with.ID, with.Token = owned.ID, owned.Token
	verdicts, err := d.stores[named.Shard].ReturnTasks(t.Context(), []stint.Return{with})
	wantErr(t, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
	return owned
}

// state is where a task is, "none" if there is none of the ID.
func (d *databases) state(t *testing.T, id string) string {
	t.Helper()
	named, err := shards.ParseID(id)
	wantErr(t, "ParseID", err, nil)
	found, err := d.stores[named.Shard].GetTasks(t.Context(), []stint.TaskID{named.Task})
	if errors.Is(err, stint.ErrTaskNotFound) {
		return "none"
	}
	wantErr(t, "GetTasks", err, nil)
	return string(found[0].State)
}

// awaitState waits until a task is in a state.
func (d *databases) awaitState(t *testing.T, id, want string) {
	t.Helper()
	const tooLong = time.Minute
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		got := d.state(t, id)
		if got == want {
			return
		}
		if time.Since(began) > tooLong {
			of := idOf(id)
			why, err := d.stores[of.Shard].Explain(t.Context(), of.Task)
			t.Fatalf("%s is %s, want %s: %v, %v", id, got, want, why, err)
		}
	}
}

// wantNothing fails if there are tasks on any shard but decisions.
func (d *databases) wantNothing(t *testing.T) {
	t.Helper()
	for name, store := range d.stores {
		page, err := store.ListTasks(t.Context(), stint.Filter{Limit: 1000})
		wantErr(t, "ListTasks", err, nil)
		for _, info := range page.Tasks {
			if !strings.HasPrefix(string(info.ID), "stint.") {
				t.Errorf("%s/%s is there, %s", name, info.ID, info.State)
			}
		}
	}
}
