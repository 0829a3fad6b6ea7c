// Package stint keeps tasks in PostgreSQL, owned by token.
//
// A [Task] has an ID, the name of an action and a body. [Store.InsertTasks] adds tasks atomically,
// also within the caller's own transaction ([Store.WithTx]). Worker loops call [Store.OwnTasks],
// which hands out tasks that are ready, each with a performance [Token] and under a lease. Whoever
// holds the newest token of a task owns it: only with it can the task be extended
// ([Store.ExtendTasksOwnership]), touched ([Store.SetStatus]) and returned ([Store.ReturnTask]),
// as completed, as aborted, or for another try. When a lease expires, the task is ready for others;
// a late owner may still return it until somebody else was given it.
//
//	InsertTasks → pending → OwnTasks → in-progress → ReturnTask → completed or aborted
//	                 ↑                      |
//	                 +--- ReturnTask, or the lease expires
//
// # The verbs
//
// Ten to start with:
//
//	InsertTasks           adds tasks            AddDependencies  lets tasks wait for others
//	OwnTasks              hands out tasks       WaitForTask      waits for the end of a task
//	WaitToOwnTasks        waits for some first  AbortTasks       cancels tasks, and dependents
//	ExtendTasksOwnership  puts leases off       GetTasks         tells what is known of tasks
//	ReturnTask            ends a hand-out       ListTasks        lists tasks
//
// The package worker calls the ones on the left. The others are for streams (InsertTasksFrom), for
// tasks that change (ReplaceTasks, DeleteTasks, RetryTasks), for owners (SetStatus, HoldOwnership,
// Inputs, OwnershipContext), for processes (RegisterActor), for people (Stats, Explain, Graph,
// Problems, ListActors) and for operators (Maintain, Prune, Check).
//
// # Dependencies
//
// A task may wait for others ([Task.After], [Task.ToSignalAfter], [Store.AddDependencies]).
// Whatever ends a task signals its dependents in the same transaction: the last signal makes a
// dependent ready, or completes it if its action is [Spontaneous], and an abort aborts it unless it
// runs anyway ([OnAbort]). Its owner is told how its predecessors ended, and [Store.Inputs] gives
// their results. The package structures builds chains, groups, chords and networks.
//
// # Waiting
//
// [Store.WaitForTask] waits until a task has finished, [Store.WaitToOwnTasks] until one is ready to
// be owned, [Store.OwnershipContext] until one is lost. They are woken within milliseconds by
// notifications, for which a store has one connection of its own, and look for themselves once a
// second. [Store.RegisterActor] binds what an actor owns to that connection: if the process dies,
// its tasks are handed on within about a second instead of when their leases expire.
//
// The package worker has a loop that does all this.
//
// # Being performed more than once
//
// An owner may die after it has done its work and before it has returned the task, or be so late
// that somebody else was given the task meanwhile. Performing a task must therefore be idempotent,
// or be done in the transaction that returns it, where the token protects it.
//
// # Time
//
// The database is the only clock: leases, schedules and deadlines are measured on it, from the call
// and not from the start of a transaction. The clocks of workers may be wrong.
//
// # When a call is cut off
//
// Every verb is one transaction. If its context ends or its connection breaks, it has taken effect
// wholly or not at all, and the caller cannot know which. So each verb can be called again without
// harm, and says how. Calls of few tasks that many goroutines make at once share a statement; each
// gets its own answer and its own error.
//
// # Schema
//
// The package migrations makes the tables, in a schema of their own. Statements name that schema,
// so search_path does not matter, and nothing depends on the state of a session: a transaction
// pooler may stand in between, with a pool whose default mode of execution does not prepare
// statements.
package stint
