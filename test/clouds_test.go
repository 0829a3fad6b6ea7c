//go:build unix

package stint_test

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/shards"
	"github.com/stint-tasks/stint/worker"
)

// clouds has what managed servers give to their users, a file for each.
//
//go:embed testdata/clouds
var clouds embed.FS

// managed are those servers. A test adds "least", which gives less than any of them.
var managed = []string{"rds", "cloud-sql", "azure", "supabase", "neon"}

func cloudFile(t *testing.T, name string) string {
	t.Helper()
	text, err := clouds.ReadFile("testdata/clouds/" + name + ".sql")
	wantErr(t, "ReadFile", err, nil)
	return string(text)
}

// newCloud returns an empty database as a managed server gives it, and what its provider does there
// as superuser.
func newCloud(t *testing.T, name string) (pool, provider *pgxpool.Pool) {
	t.Helper()
	provider = testdb.NewEmpty(t)
	role := "cloud_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	exec(t, provider, strings.NewReplacer(
		"cloud_role", role, "cloud_database", `"`+provider.Config().ConnConfig.Database+`"`,
	).Replace(cloudFile(t, name)))
	t.Cleanup(func() { dropRole(t, provider, role) })
	return poolOf(t, provider, func(config *pgxpool.Config) {
		config.ConnConfig.User, config.ConnConfig.Password = role, "secret"
	}), provider
}

// newCloudStore returns a store that was migrated there.
func newCloudStore(
	t *testing.T, name string, opts stint.Options,
) (store *stint.Store, pool, provider *pgxpool.Pool) {
	t.Helper()
	pool, provider = newCloud(t, name)
	wantErr(t, "MigratePool", migrations.MigratePool(t.Context(), pool), nil)
	t.Cleanup(func() { checkStore(t, provider) })
	return openStore(t, pool, opts), pool, provider
}

// A role without rights on the server, in a database without extensions, may do everything.
// Proves G337.
func TestClouds_NeedNoRightsOnTheServer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, name := range append([]string{"least"}, testrun.Some(managed)...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			store, pool, _ := newCloudStore(t, name, stint.Options{PollInterval: pollNever})
			var unseen []string
			if name == "least" {
				unseen = []string{"vacuum"} // what the transactions of other roles hold up
				if n := yields[int](t, pool, "SELECT count(*) FROM pg_extension"); n > 0 {
					t.Errorf("there are %d extensions", n)
				}
			}
			everyVerb(t, store, false, "alone ")
			tx := begin(t, pool)
			everyVerb(t, store.WithTx(tx), true, "in a transaction ")
			wantErr(t, "Commit", tx.Commit(ctx), nil)
			waitingVerbs(t, store, "waited ")
			wholeLife(t, store, nil)
			wantErr(t, "Adopt", stint.Adopt(ctx, store), nil)
			worksUnderLimits(t, store, pool)
			if got := checkedAt(t, store, pool); !slices.Equal(got, unseen) {
				t.Errorf("the check has findings about %q, want %q", got, unseen)
			}
		})
	}
}

// worksUnderLimits has a worker perform tasks of a schedule and others, one at a time.
func worksUnderLimits(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
	t.Helper()
	ctx := t.Context()
	wantErr(t, "SetLimits", store.SetLimits(ctx, "limited", stint.Limits{
		Concurrency: 1, Fair: true, Rate: stint.Rate{Tasks: 100, Per: time.Second},
	}), nil)
	putSchedules(t, store, stint.Schedule{
		Name: "hourly", Spec: "every 1h", Tasks: []stint.Task{{Action: "limited"}},
	})
	insert(t, store, stint.Task{ID: "plain", Action: "limited", PostResult: true},
		stint.Task{ID: "keyed", Action: "limited", Key: "k", PostResult: true})
	dueSince(t, pool, "hourly", time.Now().Add(-time.Minute))
	maintain(t, store)
	performed := make(chan stint.TaskID, 10)
	w, err := worker.New(store, worker.Options{Concurrency: 4},
		worker.Handle("limited", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			performed <- task.ID
			return worker.Result{}, nil
		}))
	wantErr(t, "New", err, nil)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := start(func() (any, error) { return nil, w.Run(running) })
	for range 3 {
		_, err := ends(t, "the worker", start(func() (stint.TaskID, error) {
			return <-performed, nil
		}))
		wantErr(t, "the worker", err, nil)
	}
	_, err = store.WaitForTasks(ctx, []stint.TaskID{"plain", "keyed"})
	wantErr(t, "WaitForTasks", err, nil)
	watchesTasks(t, store, "keyed")
	cancel()
	_, err = ends(t, "Run", ended)
	wantErr(t, "Run", err, nil)
}

// checkedAt returns what the command check has findings about, but for the settings of the server
// of the tests, and tasks without workers.
func checkedAt(t *testing.T, store *stint.Store, pool *pgxpool.Pool) []string {
	t.Helper()
	findings, err := doctor.Examine(t.Context(), pool, store, migrations.DefaultSchema)
	wantErr(t, "Examine", err, nil)
	var topics []string
	for _, f := range findings {
		if f.Topic != "settings" && f.Topic != "actions" {
			topics = append(topics, f.Topic)
			t.Logf("the check says of %s: %s", f.Topic, f.Text)
		}
	}
	return topics
}

// Where a managed server lets its user make roles, they can separate services.
// Proves G337.
func TestClouds_AdministratorsSetUpRoles(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, name := range testrun.Some(managed) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pool, provider := newCloudStore(t, name, stint.Options{})
			for _, file := range []string{"functions.sql", "finish_task.sql"} {
				text, err := os.ReadFile("migrations/" + file)
				wantErr(t, "ReadFile", err, nil)
				exec(t, pool, string(text))
			}
			roles := newRolesBy(t, pool, provider)
			exec(t, pool, roles.script) // as after an upgrade
			working := roles.login(t, "worker")
			wholeLife(t, openStore(t, working, stint.Options{}), nil)
			_, err := working.Exec(t.Context(), "DROP TABLE stint.minutes")
			wantRefused(t, "DROP TABLE", err)
			exec(t, roles.login(t, "enqueuer"), "SELECT stint.add_task('act', 'body')")
		})
	}
}

// Through the pooler of a managed server everything works, also if a store is not told of it.
// Proves G337, R20.
func TestClouds_WorkThroughTheirPoolers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, name := range append([]string{"least"}, testrun.Some(managed)...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pool, _ := newCloudStore(t, name, stint.Options{})
			pooled := behindPooler(t, pool, "transaction", 8)
			store := openStore(t, pooled, stint.Options{
				PollOnly: name == "least", PollInterval: 50 * time.Millisecond,
				Logger: slog.New(slog.DiscardHandler), // which would tell of the pooler
			})
			everyVerb(t, store, false, "pooled ")
			poolerWaits(t, store)
			worksUnderLimits(t, store, pool)
		})
	}
}

// Databases of different providers are joined as shards: a task of one waits for one of the other.
// Proves G337.
func TestClouds_AreJoinedAsShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	_, eu, _ := newCloudStore(t, "least", stint.Options{Maintenance: stint.MaintainNever})
	_, us, _ := newCloudStore(t, "supabase", stint.Options{Maintenance: stint.MaintainNever})
	topology, err := shards.Static(map[string]string{"eu": testdb.URL(eu), "us": testdb.URL(us)})
	wantErr(t, "Static", err, nil)
	cluster, err := shards.New(topology, shards.Options{})
	wantErr(t, "New", err, nil)
	running, cancel := context.WithCancel(ctx)
	ended := start(func() (any, error) { return nil, cluster.Run(running) })
	wantErr(t, "InsertTasks", cluster.InsertTasks(ctx, []shards.Task{
		{Shard: "eu", Task: stint.Task{ID: "save", Action: "act"}},
		{
			Shard: "us", Task: stint.Task{ID: "mail", Action: "act"},
			After: []shards.ID{{Shard: "eu", Task: "save"}},
		},
	}), nil)
	for _, shard := range []string{"eu", "us"} {
		store, err := cluster.Store(ctx, shard)
		wantErr(t, "Store", err, nil)
		owned, err := ends(t, "WaitToOwnTasks", start(func() ([]stint.OwnedTask, error) {
			return store.WaitToOwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
		}))
		wantErr(t, "WaitToOwnTasks", err, nil)
		verdicts, err := store.ReturnTasks(ctx, completed(owned))
		wantErr(t, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
	}
	cancel()
	_, err = ends(t, "Run", ended)
	wantErr(t, "Run", err, nil)
	wantErr(t, "Close", cluster.Close(ctx), nil)
}

// A producer may insert through a pooler, and wait there: the commits wake workers that connect to
// the server itself.
// Proves G337.
func TestClouds_ProducersBehindAPoolerWakeWorkers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	_, pool, _ := newCloudStore(t, "neon", stint.Options{Maintenance: stint.MaintainNever})
	working := newHeardStoreOn(t, pool, stint.Options{})
	producing := openStore(t, behindPooler(t, pool, "transaction", 8), stint.Options{
		PollInterval: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	for _, id := range []stint.TaskID{"before it has waited", "afterwards"} {
		owning := working.await(ctx, t, 1)
		insert(t, producing, stint.Task{ID: id, Action: "act", PostResult: true})
		owned, err := ends(t, "WaitToOwnTasks", owning)
		wantErr(t, "WaitToOwnTasks", err, nil)
		waiting := start(func() (stint.TaskInfo, error) { return producing.WaitForTask(ctx, id) })
		complete(t, working.Store, owned...)
		_, err = ends(t, "WaitForTask", waiting)
		wantErr(t, "WaitForTask", err, nil)
	}
}

// When the server of a serverless database was suspended, sessions and unlogged tables are gone.
// Who waited goes on, and no task is lost.
// Proves G337.
func TestClouds_GoOnAfterASuspension(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	var log lockedBuffer
	store, pool, provider := newCloudStore(t, "neon", stint.Options{
		PollInterval: pollNever, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	ctx := t.Context()
	insert(t, store, stint.Task{ID: "awaited", Action: "act", PostResult: true},
		stint.Task{ID: "then", Action: "act", After: []stint.TaskID{"awaited"}})
	waiting := start(func() (stint.TaskInfo, error) { return store.WaitForTask(ctx, "awaited") })
	eventually(t, soon, "the session listens", func() bool {
		return listeners(t, provider, "finished") > 0
	})
	task := ownOne(t, store)
	exec(t, provider, cloudFile(t, "suspend"))
	pool.Reset() // what a call finds broken fails
	returnWith(t, store, task, stint.Return{Code: stint.StatusCompleted, Result: []byte("r")})
	if got, err := ends(t, "WaitForTask", waiting); err != nil || string(got.Result) != "r" {
		t.Errorf("WaitForTask = %+v, %v", got, err)
	}
	complete(t, store, ownOne(t, store))
	wantState(t, store, stint.StateCompleted, "awaited", "then")
}
