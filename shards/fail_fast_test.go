package shards_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testrun"
	"github.com/stint-tasks/stint/shards"
)

func failFast(id string, after ...string) shards.Task {
	t := task(id, after...)
	t.Task.FailFast = true
	return t
}

// A failed end takes with it what only it needs on other shards, and these what only they need; a
// retry of these brings all back.
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

// Random networks over shards, of which some tasks are aborted, come to what they come to in one
// database.
func TestFailFast_DoesOverShardsWhatItDoesInOneDatabase(t *testing.T) {
	t.Parallel()
	const most = 60
	if testrun.Rounds(most) < most { // as often as it takes to find one of the rare cases
		t.Skip("runs with all repetitions only")
	}
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
	for round := range most {
		var tasks []shards.Task
		var same []stint.Task
		var aborted []shards.ID
		var abortedSame []stint.TaskID
		for i := range 2 + random.IntN(8) {
			shard := names[random.IntN(len(names))]
			of := shards.Task{Shard: shard, Task: stint.Task{
				ID: stint.TaskID(fmt.Sprintf("%d-%d", round, i)), Action: "rest",
				FailFast: random.IntN(3) == 0, PostResult: random.IntN(10) == 0,
			}}
			if random.IntN(6) == 0 {
				of.Task.OnAbort = stint.RunAnyway
			}
			alone := of.Task
			for _, before := range tasks {
				if random.IntN(2) == 0 {
					named := shards.ID{Shard: before.Shard, Task: before.Task.ID}
					of.After = append(of.After, named)
					alone.After = append(alone.After, before.Task.ID)
				}
			}
			tasks, same = append(tasks, of), append(same, alone)
			id := shards.ID{Shard: shard, Task: of.Task.ID}
			want[id] = of.Task.ID
			if i == 0 || random.IntN(8) == 0 {
				aborted, abortedSame = append(aborted, id), append(abortedSame, of.Task.ID)
			}
		}
		wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
		wantErr(t, "InsertTasks", one.InsertTasks(t.Context(), same), nil)
		_, err := c.AbortTasks(t.Context(), aborted, "")
		wantErr(t, "AbortTasks", err, nil)
		_, err = one.AbortTasks(t.Context(), abortedSame, "")
		wantErr(t, "AbortTasks", err, nil)
	}
	awaitSettled(t, pool)
	const tooLong = 3 * time.Minute
	for began := time.Now(); ; <-time.After(200 * time.Millisecond) {
		differ := d.differ(t, one, want)
		if len(differ) == 0 {
			break
		}
		if time.Since(began) > tooLong {
			t.Fatalf("%d tasks differ: %s", len(differ), strings.Join(differ, "; "))
		}
	}
	for _, shard := range names {
		awaitSettled(t, d.pools[shard])
	}
	if differ := d.differ(t, one, want); len(differ) > 0 {
		t.Errorf("%d tasks differ in the end: %s", len(differ), strings.Join(differ, "; "))
	}
	found, err := c.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
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
