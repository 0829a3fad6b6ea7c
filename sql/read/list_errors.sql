-- name: list_errors
--
-- Groups the tasks that list_problems calls failing and failed, up to $1 of each, by action and by
-- what their last owners said: the first line, in which numbers do not count. Returns up to $2
-- groups, the largest first: action, how many tasks, what was said of the latest that failed, and
-- that task.
--
--   $1 tasks   integer
--   $2 groups  integer
WITH said AS MATERIALIZED (
    (SELECT ready.lo AS key, ready.status, NULL::timestamptz AS finished_at
     FROM stint.ready
     WHERE ready.tries > 0
     ORDER BY ready.tries DESC
     LIMIT $1::integer)
    UNION ALL
    (SELECT scheduled.key, scheduled.status, NULL
     FROM stint.scheduled
     WHERE scheduled.tries > 0
     ORDER BY scheduled.tries DESC
     LIMIT $1::integer)
    UNION ALL
    (SELECT finished.lo, finished.status, finished.finished_at
     FROM stint.finished
     WHERE finished.cause IN (1 /* returned */, 2 /* tries */, 6 /* expired */)
     ORDER BY finished.finished_at DESC
     LIMIT $1::integer)
    UNION ALL
    (SELECT losses.key, finished.status, losses.ended_at
     FROM stint.losses
     CROSS JOIN LATERAL (
         SELECT finished.status, finished.cause
         FROM stint.finished
         WHERE finished.lo = losses.key
         OFFSET 0
     ) AS finished
     WHERE losses.ended_at IS NOT NULL AND finished.cause = 9 /* lost */
     ORDER BY losses.ended_at DESC
     LIMIT $1::integer)
), line AS MATERIALIZED (
    SELECT said.key, said.finished_at, task.id, task.action,
           left(split_part(said.status, E'\n', 1), 500) AS text
    FROM said
    CROSS JOIN LATERAL (
        SELECT tasks.id, tasks.action FROM stint.tasks WHERE tasks.key = said.key OFFSET 0
    ) AS task
    WHERE said.status <> ''
)
SELECT line.action, count(*) AS tasks,
       (array_agg(line.text ORDER BY line.finished_at DESC NULLS LAST, line.key DESC))[1] AS text,
       (array_agg(line.id ORDER BY line.finished_at DESC NULLS LAST, line.key DESC))[1] AS example
FROM line
GROUP BY line.action, regexp_replace(line.text, '[0-9]+', '0', 'g')
ORDER BY count(*) DESC, line.action, text
LIMIT $2::integer
