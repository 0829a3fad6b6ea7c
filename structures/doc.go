// Package structures builds tasks that depend on one another: chains, groups, chords and networks,
// nested in any way. It only builds; [stint.Store.InsertTasks] inserts what it has built.
//
//	plan, err := structures.Build("report", structures.Chord(
//		structures.Task{Action: "summarise"},
//		structures.Task{Action: "count", Body: north},
//		structures.Task{Action: "count", Body: south},
//	))
//	...
//	err = store.InsertTasks(ctx, plan.Tasks)
//	...
//	end, err := store.WaitForTask(ctx, plan.End)
//
// # Order
//
// Where a structure follows another (in a [Chain], as the callback of a [Chord], by [Node.After]),
// its first tasks wait for the last tasks of the other. The first tasks of a chain are those of its
// first part, its last tasks those of its last part; the first and last tasks of a group are those
// of all its parts; those of a network belong to the nodes that wait for none and to the nodes that
// none waits for.
//
// # When a task is aborted
//
// What follows a structure starts by its own [stint.Task.OnAbort]:
//
//   - With [stint.AbortToo] it starts when the last tasks of the structure have completed. As soon
//     as one of them is aborted, so is it, while others may still run. (Where an inner task runs
//     anyway after an abort, the last tasks may complete while others of the structure still run.)
//   - With [stint.RunAnyway] it starts when every task of the structure has ended; in a chain, when
//     every task that is before it in the chain has. (A chain within a group begins with its own
//     first part.) It is told of each last task once, completed or aborted, and besides of tasks
//     that may outlast them: where an inner task waits for several and one of these is aborted, the
//     inner task is aborted at once, and the others run on.
//
// So a callback that runs anyway is told one end for each part that is a task or a chain of tasks,
// and for a part that is a chord, one for its callback and one for each of its own parts, unless
// that callback runs anyway too.
//
// All this is about edges that are built here. A task that is ended before its turn from elsewhere
// (by AbortTasks, by its Deadline, through an edge that was added to it) does not wait for what is
// before it, and what runs anyway after it does not do so in its stead.
//
// # Joins
//
// Where several tasks wait for several others, they do so through a join, a task with the action
// [stint.Spontaneous], so that the number of edges is linear in the number of tasks. Where only one
// task waits, or is waited for, there is no join, unless more than 1,000 tasks are waited for: so
// many signals to one task would make their senders queue up, so joins of about 500 tasks each come
// in between, in several layers if need be. A join does as the tasks behind it do when one of its
// own is aborted: tasks that differ in OnAbort wait through joins of their own.
//
// # Empty structures
//
// A structure without tasks (nil, no parts, a list without items) is left out: what follows it
// follows what is before it. If nothing is left, [Build] returns one join, which completes at once.
package structures
