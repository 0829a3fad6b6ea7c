package shards_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// A network is random tasks on random shards, with what must become of each.
type network struct {
	tasks []shards.Task
	ends  map[shards.ID]stint.StatusCode // how its performance ends, if there is one
	want  map[shards.ID]string
}

// newNetwork makes a network. A task waits for some of those before it, and is performed unless one
// of them was aborted and it does not run anyway.
func newNetwork(random *rand.Rand, name string, names []string) *network {
	const tasksMax = 10
	n := &network{
		ends: map[shards.ID]stint.StatusCode{}, want: map[shards.ID]string{},
	}
	for i := range 1 + random.IntN(tasksMax) {
		id := shards.ID{
			Shard: names[random.IntN(len(names))],
			Task:  stint.TaskID(fmt.Sprintf("%s/%d", name, i)),
		}
		task := shards.Task{Shard: id.Shard, Task: stint.Task{
			ID: id.Task, Action: "act", MaxTries: stint.UnlimitedTries,
		}}
		if random.IntN(3) == 0 {
			task.Task.OnAbort = stint.RunAnyway
		}
		code := stint.StatusCompleted
		if random.IntN(4) == 0 {
			code = stint.StatusAborted
		}
		want := string(code)
		for _, before := range n.tasks {
			if random.IntN(3) > 0 {
				continue
			}
			of := shards.ID{Shard: before.Shard, Task: before.Task.ID}
			task.After = append(task.After, of)
			if n.want[of] != "completed" && task.Task.OnAbort == stint.AbortToo {
				want = "aborted, dependency"
			}
		}
		if want == "aborted" {
			want = "aborted, returned"
		}
		n.ends[id], n.want[id] = code, want
		n.tasks = append(n.tasks, task)
	}
	return n
}

// performAll performs the tasks of all shards as their networks say, until ctx ends. Now and then a
// worker leaves a task behind, and somebody else is given it.
func (d *databases) performAll(ctx context.Context, t *testing.T, ends *sync.Map) *sync.WaitGroup {
	t.Helper()
	all := &sync.WaitGroup{}
	for name, store := range d.stores {
		all.Go(func() {
			for ctx.Err() == nil {
				lease := time.Hour
				dies := rand.IntN(20) == 0
				if dies {
					lease = 10 * time.Millisecond
				}
				owned, err := store.WaitToOwnTasks(ctx, "worker", 5, []string{"act"}, lease)
				if err != nil || dies {
					continue
				}
				returns := make([]stint.Return, len(owned))
				for i, task := range owned {
					code, _ := ends.Load(shards.ID{Shard: name, Task: task.ID})
					returns[i] = stint.Return{
						ID: task.ID, Token: task.Token, Code: code.(stint.StatusCode),
					}
				}
				if _, err := store.ReturnTasks(ctx, returns); err != nil && ctx.Err() == nil {
					t.Errorf("ReturnTasks = %v", err)
				}
			}
		})
	}
	return all
}

// disturb stops and starts relays, and takes shards away and brings them back, until ctx ends. Then
// a relay and all shards are there.
func (d *databases) disturb(ctx context.Context, t *testing.T, names []string) {
	t.Helper()
	for ctx.Err() == nil {
		relaying, stop := context.WithCancel(ctx)
		var relays sync.WaitGroup
		for range 1 + rand.IntN(2) {
			relays.Go(func() {
				c := d.process(t, shards.Options{DecideWithin: time.Second})
				if err := c.Run(relaying); err != nil {
					t.Errorf("Run = %v", err)
				}
				if err := c.Close(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("Close = %v", err)
				}
			})
		}
		away := names[rand.IntN(len(names))]
		d.away.Store(away, true)
		pause(ctx)
		d.away.Delete(away)
		pause(ctx)
		stop()
		relays.Wait()
	}
}

// pause lets the network go on for a moment.
func pause(ctx context.Context) {
	const most = 500 * time.Millisecond
	select {
	case <-time.After(rand.N(most)):
	case <-ctx.Done():
	}
}

// Whatever happens to relays, workers and shards meanwhile, networks over several shards end as
// they would in one.
func TestNetworks_EndAsTheModelSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	names := []string{"1", "2", "3"}
	d := newDatabases(t, names...)
	const most = 150
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var ends sync.Map
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	disturbing, calm := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { d.disturb(disturbing, t, names) })
	working := d.performAll(ctx, t, &ends)
	t.Cleanup(func() {
		calm()
		cancel()
		others.Wait()
		working.Wait()
	})
	sound := d.cluster(t, shards.Options{Connect: shards.Connect}) // for which none is away
	var all []*network
	for i := range testrun.Rounds(most) {
		n := newNetwork(random, fmt.Sprint(i), names)
		for id, code := range n.ends {
			ends.Store(id, code)
		}
		wantErr(t, "InsertTasks", sound.InsertTasks(t.Context(), n.tasks), nil)
		all = append(all, n)
	}
	calm()
	others.Wait()
	d.relay(t, shards.Options{DecideWithin: time.Second})
	for _, n := range all {
		d.wantEnds(t, n)
	}
	found, err := sound.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
}

// wantEnds waits until all tasks of a network have ended as they must.
func (d *databases) wantEnds(t *testing.T, n *network) {
	t.Helper()
	for id, want := range n.want {
		d.awaitState(t, id.String(), strings.Split(want, ",")[0])
		found, err := d.stores[id.Shard].GetTasks(t.Context(), []stint.TaskID{id.Task})
		wantErr(t, "GetTasks", err, nil)
		got := string(found[0].State)
		if found[0].AbortCause != "" {
			got += ", " + string(found[0].AbortCause)
		}
		if got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
}
