// Package worker performs tasks: it owns them, calls a handler for each, keeps their leases alive
// meanwhile, and returns them.
//
//	w, err := worker.New(store, worker.Options{})
//	...
//	err = w.Handle("copy", copyFile, worker.WithConcurrency(4))
//	err = worker.HandleJSON(w, "mail", sendMail, worker.WithTimeout(time.Minute))
//	err = w.Run(ctx) // until ctx ends
//
// Everything it does is done with the exported verbs of package stint. A service whose needs are
// other than these writes a loop of its own; the examples have some that ask for an action only
// while there is budget for it, or while the machine has little to do.
//
// [Worker.PerformNext] performs a single task in the calling goroutine instead.
//
// # Slots
//
// A worker performs [Options.Concurrency] tasks at once, and of one action no more than
// [WithConcurrency] says. It asks for no more than it has slots for, and not for actions without a
// free slot, so whatever it owns it begins with at once. (If some actions have a concurrency of
// their own and the last slot is taken while a question about others is on its way, the task that
// comes of it is given back at once, as if nobody had owned it.) Tasks of actions without a
// concurrency of their own come in the order of priority and age; an action that has one gets its
// turn while others keep the worker busy.
//
// # Ownership
//
// One statement at an interval extends all leases of the worker, whatever it performs. The context
// of a handler ends, and [context.Cause] says why, when
//
//   - its task was lost, which means aborted, deleted or given to somebody else:
//     [stint.ErrInvalidToken];
//   - the database could not be reached until the lease had expired: [ErrLeaseExpired];
//   - the time-out of the handler passed: [ErrTimeout];
//   - the worker stops and its StopGrace has passed: [ErrStopping].
//
// A worker that dies is noticed by others, since its actor is registered
// ([stint.Store.RegisterActor]): what it owned is handed on about a second later.
//
// A handler should return soon after that. One that does not keeps its slot. As always, somebody
// else may be performing the task by then: see "Being performed more than once" in package stint.
//
// # Returning
//
// A task whose handler has returned is returned at once. Those whose handlers return while others
// are being returned are returned together, in one statement and one commit; so a worker with
// thousands of slots for short tasks needs few round trips. What must wait for a transaction of
// somebody's is then returned by itself, and holds up nobody else.
//
// # Outcomes
//
// A handler that returns no error completes its task, also if its context has ended for another
// reason than loss. An error gives the task back for another try, after a pause that grows with the
// tries ([Retry]), unless the error says otherwise ([Abort], [RetryAfter]). A panic is an error.
// [stint.Task.MaxTries] limits how often a task is tried. The text of the error is the status of
// the task. [Task.ReturnIn] completes a task in a transaction of the handler's.
//
// # Stopping
//
// When the context of [Worker.Run] ends, the worker owns nothing more, and handlers have
// [Options.StopGrace] to finish. Then their contexts end, and what they return with an error is
// ready for others at once. What was owned but not begun is given back with its try refunded. Tasks
// of handlers that do not even return then are given back as well, and Run returns
// [ErrStillRunning].
//
// # Connections
//
// Besides what handlers use, a worker needs a few connections of the store's pool: two for owning,
// two for returning, and one for the heartbeat. Handlers that hold every connection of the pool
// keep the heartbeat from getting through, so give the pool some more than they use.
//
// # Logs
//
// Debug: a task begins, is completed or was lost. Info: the worker starts and stops. Warn: a
// handler failed or aborted its task; the database cannot be reached, and will be tried again.
// Error: a handler panicked, or a task could not be returned. Records about a task have the
// attributes task, action and try. Tokens are never logged.
//
// # Telemetry
//
// Each performance is a span named stint.perform, of the kind consumer, with the attributes
// stint.task.id, stint.task.action, stint.task.try, stint.actor and stint.outcome. Samplers see the
// action and the actor. The instruments have the attribute stint.task.action, and all but the last
// one stint.outcome:
//
//	stint.worker.performed  counter    performances that have ended
//	stint.worker.duration   histogram  how long they took until the task was returned, in seconds
//	stint.worker.running    up-down    performances under way
//
// Outcomes are completed, retried (given back for another try), aborted (also for want of tries),
// stopped (given back because the worker stops) and lost (nothing was returned).
package worker
