-- name: state
--
-- Returns all that can be seen of the tasks and settings, a line each, in an order that does not
-- depend on keys.
SELECT concat_ws(' ', kind, name, line)
FROM (
    SELECT 'task' AS kind, id AS name,
           concat_ws(' ', action, 'state', state, 'tries', tries, 'of', max_tries, 'actor',
               coalesce(actor, '-'),
               CASE WHEN state < 10 THEN saved.away(until) END, 'status', quote_nullable(status),
               'progress', progress, 'result', result, 'priority', priority, 'key', limit_key,
               on_abort, post_result, 'deadline', saved.away(deadline), body, headers) AS line
    FROM stint.task_states
    UNION ALL
    SELECT 'ready', tasks.id,
           concat_ws(' ', CASE WHEN late THEN 'late' END, 'claim', saved.name_of(claim),
               'actor', actor, completed, aborted)
    FROM stint.ready JOIN stint.tasks ON tasks.key BETWEEN lo AND hi
    UNION ALL
    SELECT 'scheduled', saved.id_of(key),
           concat_ws(' ', 'claim', saved.name_of(claim), completed, aborted)
    FROM stint.scheduled
    UNION ALL
    SELECT 'blocked', saved.id_of(key),
           concat_ws(' ', 'claim', saved.name_of(claim), 'missing', missing, completed, aborted)
    FROM stint.blocked
    UNION ALL
    SELECT 'leased', tasks.id,
           concat_ws(' ', 'claim', saved.name_of(claim), completed, aborted)
    FROM stint.leased JOIN stint.tasks ON tasks.key BETWEEN lo AND hi
    UNION ALL
    SELECT 'finished', tasks.id, concat_ws(' ', 'claim', saved.name_of(claim))
    FROM stint.finished JOIN stint.tasks ON tasks.key BETWEEN lo AND hi
    UNION ALL
    SELECT 'edge', saved.id_of(after) || ' -> ' || saved.id_of(run),
           concat_ws(' ', accepts, results)
    FROM stint.edges
    -- Those from tasks that are gone mean nothing any more.
    WHERE (SELECT true FROM stint.tasks WHERE tasks.key = edges.after)
    UNION ALL
    SELECT 'joined', saved.id_of(key), concat_ws(' ', completed, aborted) FROM stint.joined
    UNION ALL
    SELECT 'deadline', id, saved.away(deadlines.deadline)
    FROM stint.deadlines JOIN stint.task_states USING (key)
    WHERE state < 10
    UNION ALL
    SELECT 'settling', saved.id_of(key), 'left over' FROM stint.settling
    UNION ALL
    SELECT 'slot', concat_ws(' ', slots.action, slots.limit_key), saved.id_of(slots.key)
    FROM stint.slots JOIN stint.leased
        ON slots.key BETWEEN lo AND hi AND slots.claim = leased.claim
    UNION ALL
    SELECT 'holder', concat_ws(' ', action, limit_key), saved.id_of(key) FROM stint.holders
    UNION ALL
    SELECT 'limit', action, concat_ws(' ', paused_at IS NOT NULL, concurrency, per_key, rate_tasks,
               key_tasks, fair, ordered)
    FROM stint.limits
    UNION ALL
    SELECT 'bucket', action, round(tokens)::text FROM stint.limits WHERE by_cost
    UNION ALL
    SELECT 'bucket', concat_ws(' ', key_rates.action, limit_key), saved.away(full_at)
    FROM stint.key_rates JOIN stint.limits USING (action)
    WHERE by_cost
    UNION ALL
    SELECT 'spent', saved.id_of(spent.key), more::text FROM stint.spent
    UNION ALL
    SELECT 'limited key', concat_ws(' ', action, limit_key),
           concat_ws(' ', paused_at IS NOT NULL, weight)
    FROM stint.limited_keys
    UNION ALL
    SELECT 'step', saved.id_of(key), concat_ws(' ', steps.name, result)
    FROM stint.steps JOIN stint.tasks USING (key)
    UNION ALL
    SELECT 'answer key', id, encode(hash, 'hex') FROM stint.answer_keys JOIN stint.tasks USING (key)
    UNION ALL
    SELECT 'fail fast', id, concat_ws(' ', settled_at IS NOT NULL, shared)
    FROM stint.fail_fast JOIN stint.tasks USING (key)
    UNION ALL
    SELECT 'try', id,
           concat_ws(' ', 'claim', saved.name_of(claim), tries, outcome, actor, status)
    FROM stint.tries JOIN stint.tasks USING (key)
    UNION ALL
    SELECT 'loss', id, concat_ws(' ', losses.tries, losses, ended_at IS NOT NULL)
    FROM stint.losses JOIN stint.tasks USING (key)
    WHERE losses > 0
    UNION ALL
    SELECT 'schedule', schedules.name, concat_ws(' ', saved.away(next_at), paused_at IS NOT NULL,
               missed, skipped, spec, last_ids)
    FROM stint.schedules
    UNION ALL
    SELECT 'WRONG', id, 'is in ' || states || ' states'
    FROM (
        SELECT id, (SELECT count(*) FROM stint.task_states WHERE task_states.key = tasks.key)
            AS states
        FROM stint.tasks
    ) AS counted
    WHERE states <> 1
    UNION ALL
    SELECT 'change', verb, concat_ws(' ', items, others, action, names) FROM stint.changes
) AS seen
ORDER BY 1
