-- name: count_tries
--
-- Returns how many tasks were fetched so far, by action, and how many of these fetches were
-- not a task's first, for the $1 actions that were last asked for.
--
--   $1 actions  integer
SELECT action_stats.action, action_stats.tries, action_stats.retries
FROM stint.action_stats
WHERE action_stats.tries > 0
ORDER BY action_stats.asked_at DESC
LIMIT $1::integer

-- name: count_lost
--
-- Counts the last $1 tasks that were aborted since their owners lost them, by action.
--
--   $1 tasks  integer
SELECT task.action, count(*) AS tasks
FROM (
    SELECT losses.key
    FROM stint.losses
    WHERE losses.ended_at IS NOT NULL
    ORDER BY losses.ended_at DESC
    LIMIT $1::integer
) AS lost
CROSS JOIN LATERAL (
    SELECT tasks.action FROM stint.tasks WHERE tasks.key = lost.key OFFSET 0
) AS task
GROUP BY task.action

-- name: limited_actions
--
-- Returns the first $1 actions that have limits or are paused: whether they have limits, how many
-- tasks these let be in progress at once (null: any number), and whether they are paused.
--
--   $1 actions  integer
SELECT limited.action, limited.limited, limited.concurrency, limited.paused
FROM (
    SELECT limits.action, limits.concurrency, limits.paused_at IS NOT NULL AS paused,
           limits.fair OR num_nonnulls(limits.concurrency, limits.per_key, limits.rate_tasks,
                                       limits.key_tasks) > 0 AS limited
    FROM stint.limits
) AS limited
WHERE limited.limited OR limited.paused
ORDER BY limited.action
LIMIT $1::integer

-- name: pruning_behind
--
-- Returns how far pruning is behind, plus the time that has passed since somebody noted it. Returns
-- no row if nobody ever did.
SELECT greatest(
    -- The clock may have been set back since.
    pruning.behind + (statement_timestamp() - pruning.told_at), '0'::interval
) FROM stint.pruning
