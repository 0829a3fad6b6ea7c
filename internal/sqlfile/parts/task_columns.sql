-- part: task_columns
--
-- What all statements return that show tasks, of a row of task_states, in the order in which
-- readInfo reads it. The bodies and results of many tasks are left out: they may be large.
task.id, task.action, {body} AS body, task.priority, task.max_tries, task.deadline, task.on_abort,
task.post_result, task.inserted_at, task.state, task.tries, task.actor, task.until, task.owned_at,
{status} AS status, task.progress, {result} AS result,
-- include later_columns: of=task
