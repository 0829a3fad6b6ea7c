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
// On the shard of the task that waits, a placeholder stands for the other one: an external task
// ([stint.External]), which nobody is given. On the shard of the other one, a task that waits for
// it reports its end: a relay owns such tasks, in bulk, and answers the placeholders with the
// outcome, the status and the result. So an end is reported as often as needed and takes effect
// once, a result lies where it is read, and it is kept until then. An aborted task aborts its
// dependents on other shards, and a retry that completes it retries them.
//
// # Looks across shards
//
// [Cluster.Graph], [Cluster.Explain], [Cluster.ListTasks] and [Cluster.Stats] show the tasks of all
// shards. A shard that is away is named in what they return, beside the tasks of the others.
//
// # Names
//
// A database is marked with the name of its shard when it is first used as one, so that a topology
// that swaps or renames shards is refused with [ErrWrongShard]. docs/operations/shards.md says how to
// rename one.
//
// # Within a shard
//
// Within a shard everything is as without a cluster: workers, verbs and tools need not know of it.
// Between shards it is the same but for this:
//
//   - An end takes effect on another shard a moment later, or when that shard is back. What only an
//     aborted task with [stint.Task.FailFast] needs on other shards is aborted some seconds later.
//   - That goes from a task to its predecessor on another shard if the task has FailFast, or its
//     abort brings down one of the same call that has it. Otherwise the predecessor stays, also
//     where other tasks that need it fail fast.
//   - A task that is told how many tasks it waited for ([stint.OwnedTask]) counts a join of another
//     shard as one, and one more where it waited for the insert to be decided.
//   - A retry reaches other shards when the task is completed: until then, tasks there that it
//     aborted stay aborted, and those that can be owned are not blocked again. If the task is
//     deleted instead, they stay as they are.
//   - Limits, pauses and weights ([stint.Store.SetLimits]) are those of a shard: no database knows
//     what the others hand out, so a limit across shards could not be exact. Set them on each
//     shard, each limit to its part.
//   - [stint.Store.Debounce] is a verb of a shard: call it on the one that the ID belongs to.
package shards
