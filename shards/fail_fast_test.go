package shards_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

func failFast(id string, after ...string) shards.Task {
	t := task(id, after...)
	t.Task.FailFast = true
	return t
}

// A failed end takes with it what only it needs on other shards, and these what only they need; a
// retry of these brings all back.
// Proves G152.
func TestFailFast_GoesFromShardToShardAndBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	kept := task("1/kept", "3/shared")
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{
		task("3/first"), task("1/room", "3/first"), task("2/flight"), task("3/shared"), kept,
		task("3/done"), failFast("2/trip", "1/room", "2/flight", "3/shared", "3/done"),
	}), nil)
	d.awaitState(t, "3/shared", "ready")
	d.end(t, "3/done", stint.StatusCompleted)
	d.end(t, "2/flight", stint.StatusAborted)
	for _, id := range []string{"2/trip", "1/room", "3/first"} {
		d.awaitState(t, id, "aborted")
	}
	if got := d.state(t, "3/shared"); got != "ready" {
		t.Errorf("what another task needs is %s", got)
	}
	retried, err := c.RetryTasks(t.Context(), []shards.ID{
		idOf("2/flight"), idOf("1/room"), idOf("3/first"),
	})
	wantErr(t, "RetryTasks", err, nil)
	wantInWords(t, "RetryTasks", retried.Tasks, nil)
	for _, id := range []string{"2/flight", "3/shared", "3/first", "1/room", "2/trip"} {
		d.awaitState(t, id, "ready")
		d.end(t, id, stint.StatusCompleted)
	}
	found, err := c.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
}

// A refusing store fails to retry tasks as long as it is told to.
type refusing struct {
	shards.Store
	refuses *atomic.Bool
}

func (r *refusing) RetryTasks(
	ctx context.Context, ids []stint.TaskID,
) (stint.Affected, error) {
	if r.refuses.Load() {
		return stint.Affected{}, errAway
	}
	return r.Store.RetryTasks(ctx, ids)
}

// A retry of several shards that fails on one of them is complete when it is repeated, whichever
// shard that is.
// Proves G152.
func TestFailFast_ARetryThatFailedHalfwayIsRepeated(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, failing := range []string{"1", "2"} {
		t.Run("fails on "+failing, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t, "1", "2")
			d.relay(t, shards.Options{})
			refuses := &atomic.Bool{}
			c := d.cluster(t, shards.Options{Connect: func(
				ctx context.Context, shard, url string,
			) (shards.Store, error) {
				store, err := shards.Connect(ctx, shard, url)
				if shard == failing {
					store = &refusing{store, refuses}
				}
				return store, err
			}})
			insert(t, c, task("1/flight"), task("2/room"), failFast("1/trip", "1/flight", "2/room"))
			d.awaitDecided(t)
			d.end(t, "1/flight", stint.StatusAborted)
			for _, id := range []string{"1/trip", "2/room"} {
				d.awaitState(t, id, "aborted")
			}
			ids := []shards.ID{idOf("1/flight"), idOf("2/room")}
			refuses.Store(true)
			_, err := c.RetryTasks(t.Context(), ids)
			wantErr(t, "RetryTasks", err, errAway)
			refuses.Store(false)
			_, err = c.RetryTasks(t.Context(), ids)
			wantErr(t, "RetryTasks", err, nil)
			wantSound(t, c)
			for _, id := range []string{"1/flight", "2/room", "1/trip"} {
				d.end(t, id, stint.StatusCompleted)
			}
		})
	}
}

// end ends a task that is ready.
func (d *databases) end(t *testing.T, id string, code stint.StatusCode) {
	t.Helper()
	named := idOf(id)
	store := d.stores[named.Shard]
	d.awaitState(t, id, "ready")
	all, err := store.OwnTasks(t.Context(), "worker", 100, []string{"act"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	var returns []stint.Return
	for _, owned := range all {
		r := stint.Return{
			ID: owned.ID, Token: owned.Token, Code: stint.StatusPending, Release: true,
		}
		if owned.ID == named.Task {
			r.Code, r.Release = code, false
		}
		returns = append(returns, r)
	}
	_, err = store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", err, nil)
}

// A failed end takes with it what only a task on another shard needed that came down with it.
func TestFailFast_ReachesWhatIsBehindTasksWithoutIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{
		task("1/room"), task("2/flight"), task("2/seat", "1/room", "2/flight"),
		task("2/bag", "2/seat"), failFast("3/trip", "2/bag"),
	}), nil)
	d.end(t, "2/flight", stint.StatusAborted)
	for _, id := range []string{"2/seat", "2/bag", "3/trip", "1/room"} {
		d.awaitState(t, id, "aborted")
	}
}

// Random networks over shards, of which some tasks are aborted, come to what they come to in one
// database.
// Proves G152.
func TestFailFast_DoesOverShardsWhatItDoesInOneDatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const most = 60
	names := []string{"1", "2", "3"}
	d := newDatabases(t, names...)
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	pool := testdb.New(t)
	one, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainAlways})
	wantErr(t, "New", err, nil)
	t.Cleanup(func() {
		wantErr(t, "Close", one.Close(context.WithoutCancel(t.Context())), nil)
	})
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	want := map[shards.ID]stint.TaskID{}
	for round := range testrun.Rounds(most) {
		drawn := drawFast(random, round, names)
		wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), drawn.tasks), nil)
		wantErr(t, "InsertTasks", one.InsertTasks(t.Context(), drawn.alone), nil)
		var ids []stint.TaskID
		for _, of := range drawn.tasks {
			want[shards.ID{Shard: of.Shard, Task: of.Task.ID}] = of.Task.ID
		}
		for _, id := range drawn.aborted {
			ids = append(ids, id.Task)
		}
		_, err := c.AbortTasks(t.Context(), drawn.aborted, "")
		wantErr(t, "AbortTasks", err, nil)
		_, err = one.AbortTasks(t.Context(), ids, "")
		wantErr(t, "AbortTasks", err, nil)
	}
	awaitSettled(t, pool)
	var differ []string
	for tries := 300; ; tries-- {
		if differ = d.differ(t, one, want); len(differ) == 0 || tries == 0 {
			break
		}
		for _, store := range d.stores { // which background work does twice a minute
			wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
		}
		<-time.After(200 * time.Millisecond)
	}
	for _, shard := range names {
		awaitSettled(t, d.pools[shard])
	}
	if differ = d.differ(t, one, want); len(differ) > 0 {
		t.Errorf("%d tasks differ in the end: %s", len(differ), strings.Join(differ, "; "))
	}
	found, err := c.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
}

// A drawnFast is a network over shards, the same in one database, and what is aborted of it.
type drawnFast struct {
	tasks   []shards.Task
	alone   []stint.Task
	aborted []shards.ID
}

// drawFast draws a network whose tasks all lead to one with FailFast, the last one. What runs
// anyway waits for tasks of its shard only: what it does when others are aborted does not go from
// shard to shard.
func drawFast(random *rand.Rand, round int, shardNames []string) drawnFast {
	var drawn drawnFast
	n := 2 + random.IntN(8)
	for i := range n {
		of := shards.Task{Shard: shardNames[random.IntN(len(shardNames))], Task: stint.Task{
			ID: stint.TaskID(fmt.Sprintf("%d-%d", round, i)), Action: "rest",
			FailFast: i == n-1 || random.IntN(3) == 0, PostResult: random.IntN(10) == 0,
		}}
		if i < n-1 && random.IntN(6) == 0 {
			of.Task.OnAbort = stint.RunAnyway
		}
		alone := of.Task
		for _, before := range drawn.tasks {
			runsAnyway := of.Task.OnAbort == stint.RunAnyway
			if i < n-1 && random.IntN(2) == 0 || runsAnyway && before.Shard != of.Shard {
				continue
			}
			of.After = append(of.After, shards.ID{Shard: before.Shard, Task: before.Task.ID})
			alone.After = append(alone.After, before.Task.ID)
		}
		drawn.tasks, drawn.alone = append(drawn.tasks, of), append(drawn.alone, alone)
		if i == 0 || random.IntN(8) == 0 {
			drawn.aborted = append(drawn.aborted, shards.ID{Shard: of.Shard, Task: of.Task.ID})
		}
	}
	return drawn
}

// awaitSettled waits until everything was aborted that only aborted tasks with FailFast needed.
func awaitSettled(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for left := 1; left > 0; <-time.After(50 * time.Millisecond) {
		err := pool.QueryRow(t.Context(), `
			SELECT count(*)
			FROM stint.fail_fast
			JOIN stint.finished ON fail_fast.key BETWEEN finished.lo AND finished.hi
			WHERE finished.cause <> 0
			  AND fail_fast.settled_at IS DISTINCT FROM finished.finished_at`).Scan(&left)
		wantErr(t, "QueryRow", err, nil)
	}
}

// differ names the tasks that are not as in one database.
func (d *databases) differ(
	t *testing.T, one *stint.Store, want map[shards.ID]stint.TaskID,
) (all []string) {
	t.Helper()
	states := func(store *stint.Store) map[stint.TaskID]string {
		found := map[stint.TaskID]string{}
		page, err := store.ListTasks(t.Context(), stint.Filter{
			Actions: []string{"rest"}, Limit: 10_000,
		})
		wantErr(t, "ListTasks", err, nil)
		for _, info := range page.Tasks {
			found[info.ID] = string(info.StatusCode)
		}
		return found
	}
	alone := states(one)
	for name, store := range d.stores {
		here := states(store)
		for id, same := range want {
			if id.Shard == name && here[id.Task] != alone[same] {
				all = append(all, fmt.Sprintf("%s is %s, want %s", id, here[id.Task], alone[same]))
			}
		}
	}
	return all
}
