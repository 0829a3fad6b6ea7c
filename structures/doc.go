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
// If a structure follows another (in a [Chain], as the callback of a [Chord], by [Node.After]), its
// first tasks wait for the last tasks of the other. The first tasks of a chain are those of its
// first part, its last tasks those of its last part. The first and last tasks of a group are those
// of all its parts. The first tasks of a network are those of the nodes that wait for none, its
// last tasks those of the nodes that none waits for.
//
// # When a task is aborted
//
// A task that follows a structure starts according to its own [stint.Task.OnAbort]:
//
//   - With [stint.AbortToo] it starts when the last tasks of the structure have completed. As soon
//     as one of them is aborted, it is aborted too, while others may still run. (If an inner task
//     runs anyway after an abort, the last tasks may complete while others of the structure still
//     run.)
//   - With [stint.RunAnyway] it starts when every task of the structure has ended; in a chain, when
//     every task before it in the chain has ended. (A chain within a group begins with its own
//     first part.) It is told of each last task once, completed or aborted, and also of tasks that
//     may end after the last tasks: if an inner task waits for several and one of these is aborted,
//     the inner task is aborted at once, and the others continue.
//
// So a callback that runs anyway counts one end for each part that is a task or a chain of tasks.
// For a part that is a chord, it counts one end for the callback of that chord and one for each of
// its parts, unless that callback runs anyway too.
//
// All this applies to edges that this package builds. A task may also end earlier: by AbortTasks,
// by its Deadline, or because of an edge that was added. Then it does not wait for the tasks before
// it, and a task that runs anyway after it does not wait for them either.
//
// When a task of a structure in [FailFast] is aborted, the other tasks of the structure are
// aborted, too, instead of continuing.
//
// # Joins
//
// Several tasks wait for several others through a join, a task with the action [stint.Spontaneous],
// so that the number of edges is linear in the number of tasks. If only one task waits, or is
// waited for, there is no join, unless it waits for more than 1,000 tasks. The senders of so many
// signals to one task would wait for each other, so there are joins of about 500 tasks each in
// between, in several layers if necessary. A join has the OnAbort of the tasks that wait for it, so
// tasks that differ in OnAbort wait through different joins.
//
// # Conditions
//
// [When] makes a task wait for an expression over the ends of others, such as that one of two has
// completed and a third has not been aborted. A task of a structure may have conditions, too
// ([stint.Task.When]); what follows a task that is skipped is skipped, unless it runs anyway.
//
// # Empty structures
//
// A structure without tasks (nil, no parts, a list without items) is left out: the structure after
// it follows the structure before it. If nothing is left, [Build] returns one join, which completes
// at once.
package structures
