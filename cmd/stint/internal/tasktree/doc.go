// Package tasktree reads a file that describes tasks which depend on one another, makes tasks of
// it, and waits for them.
//
// # The file
//
// The file is YAML, of which JSON is a part: a list of tasks, each with some of these fields.
//
//	name        names the task within the file; needed
//	action      names the procedure, or the program that a worker runs; needed
//	value       the task's body, as JSON; default: no body
//	after       a list of names: tasks that this one waits for, besides those it refers to
//	when        a list of conditions of [stint.Task.When]: {after: NAME, states: [completed],
//	            results: [heads]}; states and results may be left out
//	when_any    the same, of [stint.Task.WhenAny]
//	priority    tasks with a higher one come first, from -32768 to 32767; default: 0
//	max_tries   how often the task is tried at most; default: 25; -1: no limit
//	not_before  the earliest time to start, such as 2026-12-31T08:00:00Z
//	deadline    the time at which an unfinished task is aborted, written the same way
//	on_abort    abort-too (the default) or run-anyway: what happens when a task is aborted that
//	            this one waits for
//
// A single task is a list of one:
//
//	# one.yaml
//	- name: mytask
//	  action: process-user-data
//	  value: [{uid: 1234}]
//
// # References
//
// Within a value, {$result: NAME} stands for the result of another task of the file, which the task
// therefore waits for.
//
//	# tree.yaml
//	- name: save
//	  action: save-user-data
//	  value: [{uid: 1234}]
//	- name: email
//	  action: send-mail
//	  value: [{$result: save}]
//
// In the body, the name becomes the ID of the task. The package programs puts the result there
// before it runs a program, so send-mail reads [{"link": "https://download/1234"}]; a worker in Go
// finds it by [stint.Store.Inputs]. A program is also offered all inputs in a file of its own.
//
// # The form of enq
//
// A file may instead have the form of enq, another queue whose workers run programs. Then its tasks
// have these fields, of which args may be left out.
//
//	task_id     names the task: {"shard": "1", "id": "save"} is the name 1/save
//	method      is the action
//	args        is a list, which makes the value, also a list: each item makes one item
//
//	{"type": "VALUE", "value_json": "eyJ1aWQiOjEyMzR9"}              {"uid":1234}
//	{"type": "TASKREF", "task_id": {"shard": "1", "id": "save"}}     {$result: 1/save}
//
// A value_json is JSON in base64, or JSON: the documentation of enq has both, and also commas after
// last items, which YAML allows.
//
// # What is refused
//
// Unknown and repeated fields, names that come twice or that no task has, tasks that wait for
// themselves through one another, further documents; and, in values, everything that JSON does not
// have: keys that are not text, infinite numbers, tags, aliases (*name). Also fields of both forms
// in one file, a shard with a slash, and the key $result in a value_json.
package tasktree
