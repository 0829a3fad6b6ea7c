package shards

import (
	"context"
	"fmt"
	"strings"

	"github.com/stint-tasks/stint"
)

// An Explanation is why a task does not run.
type Explanation struct {
	stint.Explanation

	// Remote are the tasks of other shards among WaitsFor, in the same order. There they have IDs
	// as [ID.String] writes them, and what is known of the placeholders of them.
	Remote []RemoteTask
}

// A RemoteTask is a task of another shard that a task waits for.
type RemoteTask struct {
	ID ID
	// Info is what its shard knows of it. If the shard does not say, Err is why.
	Info stint.TaskInfo
	Err  error
}

// Explain is [stint.Store.Explain] on the task's shard, and asks the shards of the tasks that it
// waits for how these are. A shard that is away is no error: the explanation names it.
func (c *Cluster) Explain(ctx context.Context, id ID) (Explanation, error) {
	var why stint.Explanation
	err := c.ask(ctx, id.Shard, func(ctx context.Context, store Store) (err error) {
		why, err = store.Explain(ctx, id.Task)
		return err
	})
	if err != nil {
		return Explanation{}, said("explain", err)
	}
	all := Explanation{Explanation: why}
	all.WaitsFor, all.BecauseOf = inNames(why.WaitsFor), inNames(why.BecauseOf)
	for _, before := range why.WaitsFor {
		of, ok := StandsFor(before.ID)
		if !ok {
			continue
		}
		remote := RemoteTask{ID: of}
		remote.Info, remote.Err = c.get(ctx, of)
		all.Remote = append(all.Remote, remote)
	}
	return all, nil
}

// inNames returns tasks by the names that the caller knows, without the others.
func inNames(tasks []stint.TaskInfo) (all []stint.TaskInfo) {
	for _, task := range tasks {
		if task.ID = inName(task.ID); !IsOwn(task.ID) {
			all = append(all, task)
		}
	}
	return all
}

// get looks a task up, but not for long: its shard may be away.
func (c *Cluster) get(ctx context.Context, id ID) (stint.TaskInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	found, err := c.GetTasks(ctx, []ID{id})
	if err != nil {
		return stint.TaskInfo{}, err
	}
	return found[0], nil
}

// String explains in a line or two, and then each task of another shard in a line.
func (e Explanation) String() string {
	var text strings.Builder
	text.WriteString(e.Explanation.String())
	for _, remote := range e.Remote {
		if remote.Err != nil {
			fmt.Fprintf(&text, "\nwaits for %s: %v", remote.ID, remote.Err)
		} else {
			fmt.Fprintf(&text, "\nwaits for %s, which is %s", remote.ID, remote.Info.State)
		}
	}
	return text.String()
}
