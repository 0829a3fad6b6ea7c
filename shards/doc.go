// Package shards runs networks of tasks over several databases.
//
// A [Cluster] has a store for each shard of a [Topology]: databases of different servers, schemas
// of one, or services. A task is inserted on a shard, for example where its data lies, and
// performed by the workers of that shard. It may wait for tasks of any shard:
//
//	topology, err := shards.ParseTopology("static:eu=postgres://a/app,us=postgres://b/app")
//	cluster, err := shards.New(topology, shards.Options{})
//	go cluster.Run(ctx) // a relay, in every process that has the cluster
//	err = cluster.InsertTasks(ctx, []shards.Task{
//		{Shard: "eu", Task: stint.Task{ID: "save", Action: "save"}},
//		{Shard: "us", Task: stint.Task{ID: "mail", Action: "mail"},
//			After: []shards.ID{{Shard: "eu", Task: "save"}}},
//	})
//
// # Edges between shards
//
// On the shard of a task that waits, a placeholder stands for the task of the other shard: an
// external task ([stint.External]), which is not fetched. On the other shard, a task that waits
// for the same task reports its end: a relay owns such tasks, in bulk, and answers the placeholders
// with the outcome, the status and the result. So an end is reported as often as needed and takes
// effect once, and a result is on the shard that reads it, and is kept until then. An aborted task
// aborts its dependents on other shards, and a retry that completes it retries them.
//
// # Looks across shards
//
// [Cluster.Graph], [Cluster.Explain], [Cluster.ListTasks] and [Cluster.Stats] show the tasks of all
// shards. If a shard is away, they name it and return the tasks of the others. [Cluster.Merged] has
// the same as verbs of a store, for what knows nothing of shards, such as package ui.
//
// # Names
//
// A database is marked with the name of its shard when it is first used as one, so that a topology
// that swaps or renames shards is refused with [ErrWrongShard]. docs/operations/shards.md says how
// to rename one.
//
// # Within a shard
//
// Within a shard everything works as without a cluster: workers, verbs and tools need not know the
// cluster. Between shards there are these differences:
//
//   - An end takes effect on another shard a moment later, or when that shard is back. Tasks of
//     other shards that only an aborted task with [stint.Task.FailFast] needs are aborted some
//     seconds later.
//   - FailFast reaches the predecessor of a task on another shard if the task has FailFast, or if
//     its abort also aborts a task of the same call that has it. Otherwise the predecessor stays,
//     even if other tasks that need it fail fast.
//   - The number of tasks that a task waited for ([stint.OwnedTask]) includes a join of another
//     shard as one, and one more if the task waited for the insert to be decided.
//   - A retry reaches other shards when the task is completed: until then, tasks there that it
//     aborted stay aborted, and those that can be owned are not blocked again. If the task is
//     deleted instead, they stay as they are.
//   - Limits, pauses and weights ([stint.Store.SetLimits]) apply to one shard: no database knows
//     which tasks the others fetch, so a limit across shards could not be exact. Set them on
//     each shard, each limit to the share of that shard.
//   - [stint.Store.Debounce] is a verb of a shard: call it on the shard of the ID.
package shards
