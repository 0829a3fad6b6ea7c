// Package programs performs tasks by running programs: a task with the action save-user-data is
// performed by the executable file save-user-data in a directory, written in whatever language.
//
// # Which actions
//
// [Open] reads the directory once. A file's name is an action if the file is regular (a symbolic
// link to a regular file will do), executable, and not hidden by a leading dot. Copies that
// editors, patches and package managers leave are ignored, too: greet~, #greet#, and names that end
// with .bak, .old, .orig, .rej, .swp, .tmp, .dpkg-*, .ucf-*, .rpmnew, .rpmorig or .rpmsave. Whoever
// wants such an action names it. A task with any other action is left to other workers.
//
// # What a program is given
//
// Standard input is the task's body, with references put in (below). The environment is the
// worker's, and
//
//	STINT_TASK_ID     the task's ID
//	STINT_TASK_TOKEN  the token of this try
//	STINT_ACTION      the task's action
//	STINT_TRY         which try this is: 1 at the first
//	STINT_INPUTS      the path of a file that holds the inputs, a JSON list
//	STINT_SPENT       the path of a file for what the try has really cost (below)
//	STINT_FENCE       with [Directory.Fence], a number that grows from one owner to the next
//
// and for each header of the task STINT_HEADER_ with its name in capitals, and _ for -. Those of a
// trace also come as OpenTelemetry names them: TRACEPARENT, TRACESTATE and BAGGAGE.
//
// The list has an object for each task that this one waited for, in the order of
// [stint.Store.Inputs]; it is [] if there are none. The file is removed when the program has ended.
//
//	[{"id": "t/save", "status_code": "completed", "result": {"link": "https://download/1234"}}]
//
// The status_code is completed, aborted or skipped. Other fields, left out if empty, are
// abort_cause and status, which are as in [stint.Input]. A result that is JSON is put in as it is,
// other text as a string, anything else as {"$base64": the bytes in base64}; no result is null.
//
// By the token, which is to be kept out of logs, the program may end its task in a transaction of
// its own, with the SQL function finish_task. It then exits with the status for that end, soon
// after the commit: the worker finds that the task is returned already. A program that goes on is
// ended when the worker learns that the task is no longer its own.
//
// # References
//
// If a task that waited for others has a JSON body, each object {"$result": ID} in it, with no
// other key, is replaced by the result of the task with that ID, written as above. So a program
// whose body is [{"$result": "t/save"}] reads [{"link": "https://download/1234"}]. If the task did
// not wait for a task with that ID, the try fails. All other bodies are passed on byte for byte.
//
// # What comes of it
//
// Standard output is the task's result, at most 64 MiB: a program that writes more is killed, and
// its task aborted. Nothing written is no result. The exit status decides what becomes of the task:
//
//	0                 completed
//	65 (EX_DATAERR)   aborted
//	75 (EX_TEMPFAIL)  given back for another try, as for any other one, and for death by a signal
//
// Standard error is the log. Its last 64 KiB are the status of the task, after a first line that
// says how the program ended, unless its exit status is 0. NUL and bytes that are not UTF-8 are
// replaced.
//
// A whole number in the file STINT_SPENT, which is not there at first, is what the try has really
// cost ([worker.Task.SetSpent]), however the program ended. If it is no number, a line of the log
// says so, and the task's cost stands.
//
// If a program cannot be started (the file is gone, say), its task is given back for another try,
// too.
//
// # How a program is ended
//
// A program runs in a process group of its own. When its context ends (the task was lost,
// the time-out has passed, or the worker stops and its grace has passed: see package worker), the
// group is sent SIGTERM, and SIGKILL 5 s later, or after half a second if the worker stops. It does
// not matter then how the program exits: the task was lost anyway, or it is given back for another
// try: after a pause or, when the worker stops, at once, and then the try does not count. Only a
// second signal to stop, which kills programs at once, costs tries. If a program exits on its own,
// what is left of its group is killed.
//
// Where the system is not Unix there are no such groups, and [Open] fails with [ErrUnsupported].
//
// If the worker itself is killed, its programs run on, as orphans, while others are given their
// tasks. As always, performing a task must be idempotent.
package programs
