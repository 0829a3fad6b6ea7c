// Package stint keeps tasks in PostgreSQL, owned by token.
//
// A [Task] has an ID, the name of an action and a body. [Store.InsertTasks] adds tasks atomically,
// also within the caller's own transaction ([Store.WithTx]). Worker loops call [Store.OwnTasks],
// which hands out ready tasks, each with a performance [Token] and for the time of a lease. The
// caller with the newest token of a task owns it: only this token is accepted when the lease is
// extended ([Store.ExtendTasksOwnership]), the status is set ([Store.SetStatus]) and the task is
// returned ([Store.ReturnTask]), as completed, as aborted, or for another try. When a lease
// expires, the task is ready for others; a late owner may still return it until another caller is
// given it.
//
//	InsertTasks → pending → OwnTasks → in-progress → ReturnTask → completed or aborted
//	                 ↑                      |
//	                 +--- ReturnTask, or the lease expires
//
// # The verbs
//
// Begin with these ten:
//
//	InsertTasks           adds tasks            AddDependencies  makes tasks wait for others
//	OwnTasks              hands out tasks       WaitForTask      waits for the end of a task
//	WaitToOwnTasks        waits, then the same  AbortTasks       cancels tasks and dependents
//	ExtendTasksOwnership  extends leases        GetTasks         returns tasks by their IDs
//	ReturnTask            ends a hand-out       ListTasks        lists tasks
//
// The package worker calls those on the left. There are more verbs
//
//   - for streams: InsertTasksFrom;
//   - for tasks that change: ReplaceTasks, Debounce, DeleteTasks, RetryTasks;
//   - for owners: SetStatus, HoldOwnership, Inputs, OwnershipContext;
//   - for processes: RegisterActor;
//   - for looking at tasks: Stats, Explain, Graph, Problems, ListActors;
//   - for operators: Maintain, Prune, Check;
//   - for limits: SetLimits, ListLimits, SetWeights, Pause, Resume, PauseKeys, ResumeKeys;
//   - for tasks that are performed outside: AnswerTasks.
//
// [Store] says what happens if the connection breaks during a call. The numbers R1 to R22 are rules
// in [docs/design/rules.md].
//
// # Dependencies
//
// A task may wait for others ([Task.After], [Task.ToSignalAfter], [Store.AddDependencies]). When a
// task ends, its dependents are signalled in the same transaction: the last signal makes a
// dependent ready, or completes it if its action is [Spontaneous], and an abort aborts it unless it
// runs anyway ([OnAbort]). Its owner is told how its predecessors ended, and [Store.Inputs] gives
// their results. The package structures builds chains, groups, chords and networks.
//
// # Waiting
//
// [Store.WaitForTask], [Store.WaitToOwnTasks] and [Store.OwnershipContext] are woken within
// milliseconds by notifications, for which a store has one connection of its own. They also poll
// once a second. [Store.RegisterActor] binds the tasks of an actor to that connection: if the
// process dies, they are handed on within about a second.
//
// # Being performed more than once
//
// An owner may die after its work and before it has returned the task, or be so late that another
// caller has been given the task. So make the work idempotent, or do it in the transaction that
// returns the task, where the token protects it.
//
// # The database
//
// The database is the only clock: it measures leases, schedules and deadlines, from the call and
// not from the start of a transaction. The clocks of workers may be wrong.
//
// The package migrations makes the tables, in a schema of their own. Statements name that schema,
// so search_path does not matter, and nothing depends on the state of a session: a transaction
// pooler may be used, if the pool's default query mode does not prepare statements.
//
// [docs/design/rules.md]: https://github.com/stint-tasks/stint/blob/main/docs/design/rules.md
package stint
