package shards_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// relayTopology is the environment that makes the test binary a relay of these shards.
const relayTopology = "STINT_TEST_RELAY_TOPOLOGY"

// relayAsProcess is the process of a relay. It says when it begins, and ends with whoever started
// it.
func relayAsProcess(text string) int {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other end is gone
		stop()
	}()
	topology, err := shards.ParseTopology(text)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c, err := shards.New(topology, shards.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("relays")
	if err := c.Run(ctx); err != nil {
		return 1
	}
	return 0
}

// startRelay starts the process of a relay. To kill it is to end it without a word.
func (d *databases) startRelay(t *testing.T) (kill func()) {
	t.Helper()
	program, err := os.Executable()
	wantErr(t, "Executable", err, nil)
	var urls []string
	for _, name := range d.topology.Names() {
		url, err := d.topology.URL(name)
		wantErr(t, "URL", err, nil)
		urls = append(urls, name+"="+url)
	}
	command := exec.CommandContext(t.Context(), program)
	command.Env = append(os.Environ(), relayTopology+"=static:"+strings.Join(urls, ","))
	command.Stderr = os.Stderr
	_, err = command.StdinPipe()
	wantErr(t, "StdinPipe", err, nil)
	out, err := command.StdoutPipe()
	wantErr(t, "StdoutPipe", err, nil)
	wantErr(t, "Start", command.Start(), nil)
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "relays\n" {
		t.Fatalf("the relay says %q, %v", line, err)
	}
	return func() {
		t.Helper()
		wantErr(t, "Kill", command.Process.Kill(), nil)
		_ = command.Wait()
	}
}

// newMesh makes tasks on random shards, each of which waits for three of the ones shortly before
// it. It returns how many edges lead from shard to shard.
func newMesh(name string, shardNames []string, n int) (tasks []shards.Task, across int) {
	const reach, edges = 8, 3
	var ids []string
	for i := range n {
		id := fmt.Sprintf("%s/%s-%d", shardNames[rand.IntN(len(shardNames))], name, i)
		var after []string
		for _, j := range rand.Perm(min(reach, i)) {
			if len(after) < edges {
				before := ids[i-1-j]
				after = append(after, before)
				if idOf(before).Shard != idOf(id).Shard {
					across++
				}
			}
		}
		ids = append(ids, id)
		tasks = append(tasks, task(id, after...))
	}
	return tasks, across
}

// Relays are processes that are killed at any moment, one after the other, while networks are
// performed. All tasks are completed all the same, each in one try.
// Proves G143.
func TestRelayProcess_KilledIsSurvived(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const kills, size = 20, 50
	names := []string{"1", "2", "3"}
	d := newDatabases(t, names...)
	performed := d.work(t)
	c := d.cluster(t, shards.Options{})
	var all []shards.Task
	edges, unfinished := 0, 0
	for i := range testrun.Rounds(kills) {
		kill := d.startRelay(t)
		tasks, across := newMesh(fmt.Sprint("m", i), names, size)
		wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), tasks), nil)
		all, edges = append(all, tasks...), edges+across
		pause(t.Context())
		kill()
		last := tasks[len(tasks)-1]
		if _, ok := performed.Load(last.Shard + "/" + string(last.Task.ID)); !ok {
			unfinished++
		}
	}
	d.startRelay(t)
	for _, one := range all {
		d.awaitState(t, shards.ID{Shard: one.Shard, Task: one.Task.ID}.String(), "completed")
		found, err := d.stores[one.Shard].GetTasks(t.Context(), []stint.TaskID{one.Task.ID})
		wantErr(t, "GetTasks", err, nil)
		if found[0].Tries != 1 {
			t.Errorf("%s was tried %d times", one.Task.ID, found[0].Tries)
		}
	}
	found, err := c.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
	t.Logf("%d tasks with %d edges between shards; of %d kills, %d were within a network",
		len(all), edges, testrun.Rounds(kills), unfinished)
}
