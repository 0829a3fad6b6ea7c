// Package worker performs tasks: it owns them, calls a handler for each, keeps their leases alive
// meanwhile, and returns them.
//
//	w, err := worker.New(store, worker.Options{},
//		worker.Handle("copy", copyFile, worker.WithConcurrency(4)),
//		worker.HandleJSON("mail", sendMail, worker.WithTimeout(time.Minute)))
//	...
//	err = w.Run(ctx) // until ctx ends
//
// A worker uses only the exported verbs of package stint, so a service with other needs can write a
// loop of its own. Some of the examples do: they ask for an action only while there is budget for
// it, or while the load on the machine is low.
//
// [Worker.PerformNext] performs a single task in the calling goroutine instead.
//
// In the repository, examples/service is a whole service around a worker, and
// docs/guides/recipes.md has recipes.
//
// # Slots
//
// A worker performs [Options.Concurrency] tasks at once, and no more tasks of one action than
// [WithConcurrency] says. It asks for no more tasks than it has free slots, and only for actions
// with a free slot, so it starts every task that it owns immediately. (There is an exception if
// some actions have a concurrency of their own: if the last slot is taken while a request for other
// actions is under way, the task that this request gets is given back at once, as if nobody had
// owned it.) Tasks of actions without a concurrency of their own come in the order of priority and
// age. An action with a concurrency of its own gets its turn even if others keep the worker busy.
//
// A handler that waits for another task keeps its slot. If handlers that wait have all slots that
// the task could have, they wait for ever. The worker warns of that after ten seconds if they call
// WaitForTask or WaitForTasks of a store or a client with their context. It is better to insert a
// task that comes after the other one ([stint.Task.After]), and to end.
//
// # Ownership
//
// A worker extends all its leases with one statement at regular intervals. The context of a handler
// ends, and [context.Cause] says why, when
//
//   - its task was lost, which means aborted, deleted or given to somebody else:
//     [stint.ErrInvalidToken];
//   - the database could not be reached until the lease had expired: [ErrLeaseExpired];
//   - the time-out of the handler passed: [ErrTimeout];
//   - the worker stops and its StopGrace has passed: [ErrStopping].
//
// A handler should return soon after its context has ended. A handler that does not return keeps
// its slot, however it goes on with its task. If the task was lost, somebody else may be performing
// it by then: see "Being performed more than once" in package stint.
//
// After a time-out ([WithTimeout]) the worker keeps the task for a grace ([WithTimeoutGrace], 30 s
// by default), and the handler ends it as ever. Then the task is overdue, once and for all: the
// worker gives it back as failed, whatever the handler returns later, and somebody else may
// perform it. A handler that has called [Task.ReturnIn] keeps it until the lease expires, which is
// no longer extended. A handler without a time-out may take any time, and keeps its task for as
// long.
//
// The actor of a worker is registered ([stint.Store.RegisterActor]), so if the worker dies, its
// tasks are handed on about a second later.
//
// # Returning
//
// The worker returns a task at once when its handler has returned. Tasks that end while others are
// being returned are then returned together, in one statement and one commit; so a worker with
// thousands of slots for short tasks needs few round trips. A task whose return must wait for
// somebody's transaction is returned separately and does not hold up others.
//
// # Outcomes
//
// A handler that returns no error completes its task, even if its context has ended, unless the
// task was lost. An error gives the task back for another try, after a pause that grows with the
// tries ([Retry]), unless the error says otherwise ([Abort], [RetryAfter], [Snooze]). A panic is an
// error, and so is one in a method of the error or of another value that the handler has returned:
// these are called where the handler is called, and not afterwards. Loggers, metrics and tracers
// that panic have no effect on tasks. (No worker survives a stack that overflows: Go ends the
// process.) [stint.Task.MaxTries] limits how often a task is tried. The text of the error becomes
// the status of the task. [Task.ReturnIn] completes a task in the handler's transaction.
//
// # Batches
//
// [HandleBatch] makes the handler of an action perform several tasks in one call, for example to
// write their rows with one statement. Each task has a slot, a lease, a try and an end of its own;
// only the call is shared. Tasks that were fetched wait in their slots until there are as many
// as a [Batch] says, or the first has waited long enough, or waiting would only keep slots from
// others: if all slots of the worker, or of the action, are taken by tasks that gather, or have
// been taken for 10 ms without one coming free, the fullest call begins.
//
// # Cycles
//
// A slot is free as soon as its handler has returned. While there are more tasks, one transaction
// returns what has ended and owns what comes next, for all slots. Where there are none, a return
// waits up to a millisecond for other handlers that are about to end, by how long they took so
// far. If handlers take no longer than some tens of milliseconds, the worker also owns tasks
// ahead: as many as it will start within 25 ms, by how long handlers took so far, at most its
// slots and 64. What it has not started 50 ms after the fetch it begins to give back, without a
// try, and does not cease until that is known; another worker gets it when that call has ended.
// Tasks on their last try are not owned ahead: such as come with others are given back at once.
//
// So if the process is killed, the tasks that it was performing are tried again, those whose
// handlers had returned in the last moments, and those that it had not started yet. For all of
// them it was a try, since nothing tells which had started. So a task on its last try is aborted
// unbegun if its fetch was on its way to the worker at that moment, or if it gathered for a
// batch. Nothing else that fails, dies or is stopped costs a task that has not begun a try. A
// worker that is kept from the database until a lease has expired is as good as killed.
//
// # Stopping
//
// When the context of [Worker.Run] ends, the worker owns no more tasks, and handlers have
// [Options.StopGrace] to finish. Then their contexts end, and a task whose handler returns an error
// is ready for others at once. If handlers still do not return, their tasks are given back as well,
// and Run returns [ErrStillRunning]. A try that a stop cuts short does not count, so deploys do not
// use up the tries of a long task; but a task with a single try is aborted. The try counts as well
// if the worker cannot return the task: its process was killed, the database cannot be reached, or
// the handler has called ReturnIn. Tasks that have not begun are given back without a try, also if
// that takes several attempts, for as long as handlers may take.
//
// # Connections
//
// Besides what handlers use, a worker needs a few connections of the store's pool: two for owning
// and returning, and one for the heartbeat; actions with slots of their own need one more each,
// while they are busy. If handlers hold every connection of the pool, the
// store opens up to two besides it for heartbeats and returns, so no task is lost; but handlers
// wait for one another, and so does the fetch. So give a worker no more slots than its handlers
// have connections, or a larger pool. It says at its start if it has more slots than the pool has
// connections; handlers that do not use the pool may.
//
// # Logs
//
// Debug: a task begins, is completed or snoozed, or was lost. Info: the worker starts, stops, and
// gives a task back because it stops. Warn: a handler failed or aborted its task, or still runs a
// second after its time-out; the database cannot be reached, and will be tried again; there are
// more slots than connections; handlers that wait for other tasks have taken all slots. Error: a
// handler panicked, a task is overdue since its handler did not return within the grace of its
// time-out, or a task could not be returned. Records about a task have the attributes task, action
// and try. Tokens are never logged. Without [Options.Logger], warnings and errors go to the
// default logger of log/slog.
//
// Of warnings and errors about tasks, the first of each kind and action is logged at once. Those of
// the next minute are counted, and logged together at its end or when the worker stops: one record
// about the last of them, with the attributes failures, since and for if there were several. Each
// by itself is logged at the level Debug, and its text is in the status and the history of its
// task.
//
// # Telemetry
//
// Each performance is a span named after its action, such as "perform mail", of the kind consumer,
// with the attributes stint.task.id, stint.task.action, stint.task.try, stint.actor and
// stint.outcome. If the headers of the task say in which span it was inserted
// ([Options.Propagator]), the span of each try links to that one; baggage that comes with it is in
// the context of the handler. Samplers see the action, the actor and the link. Each step that is
// called ([Step], [StepIn]) is a span named stint.step below it, with the attributes stint.task.id,
// stint.task.action and stint.step; a step whose value is recorded already has none. A call for
// several tasks is a span such as "perform_batch mail", which links to those of the tasks. An
// ending that is an error has the status Error, error.type and an event exception; a task that is
// put off, or given back since the worker stops, is no error.
//
// The spans of performances and calls also have the attributes of OpenTelemetry's conventions for
// messages: messaging.system, which is stint, messaging.operation.name, which begins the name of
// the span, messaging.operation.type, which is process, messaging.destination.name, which is the
// action, and messaging.client.id, which is the actor; of a performance messaging.message.id, which
// is the ID, and of a call messaging.batch.message_count.
//
// All instruments have the attribute stint.task.action, and all except the
// last one have stint.outcome:
//
//	stint.worker.performances  counter    performances that have ended
//	stint.worker.duration      histogram  seconds that they took until the task was returned
//	stint.worker.running       up-down    performances under way
//
// Outcomes are completed, retried (given back for another try), snoozed (given back until later,
// without a try), aborted (also when no tries are left), stopped (given back because the worker
// stops), overdue (given back, or aborted on the last try, because the handler did not return
// within the grace of its time-out) and lost (nothing was returned).
//
// [Options.Metrics] gets the same data. The package stintprom turns it into metrics for Prometheus.
package worker
