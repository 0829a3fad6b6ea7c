-- name: list_errors
--
-- Groups the tasks that list_problems calls failing and failed, up to $1 of each, by action and by
-- what their last owners said: the first line, in which what is in quotes and numbers, also
-- hexadecimal ones, do not count, as the package alike has it. Returns up to $2 groups, the largest
-- first: action, how many tasks, what was said of the latest that failed, that task, and whether
-- there may be more tasks than were counted; without groups a row with only the last of these.
--
--   $1 tasks   integer
--   $2 groups  integer
WITH said AS MATERIALIZED (
    (SELECT 0 AS kind, ready.lo AS key, left(ready.status, 2000) AS status,
            NULL::timestamptz AS finished_at
     FROM stint.ready
     WHERE ready.tries > 0
     ORDER BY ready.tries DESC
     LIMIT $1::integer)
    UNION ALL
    (SELECT 1, scheduled.key, left(scheduled.status, 2000), NULL
     FROM stint.scheduled
     WHERE scheduled.tries > 0
     ORDER BY scheduled.tries DESC
     LIMIT $1::integer)
    UNION ALL
    (SELECT 2, finished.lo, left(finished.status, 2000), finished.finished_at
     FROM stint.finished
     WHERE finished.cause IN (1 /* returned */, 2 /* tries */, 6 /* expired */)
     ORDER BY finished.finished_at DESC
     LIMIT $1::integer)
    UNION ALL
    (SELECT 3, losses.key, left(finished.status, 2000), losses.ended_at
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
), digits AS MATERIALIZED (
    -- To have all digits alike is quick, and leaves fewer texts for the expressions.
    SELECT line.action, translate(line.text, '123456789', '000000000') COLLATE "C" AS plain,
           count(*) AS tasks, max(line.finished_at) AS finished_at, max(line.key) AS key,
           (array_agg(line.text ORDER BY line.finished_at DESC NULLS LAST, line.key DESC))[1]
               AS text,
           (array_agg(line.id ORDER BY line.finished_at DESC NULLS LAST, line.key DESC))[1] AS id
    FROM line
    GROUP BY line.action, plain
)
SELECT groups.action, groups.tasks, groups.text, groups.example, counted.cut
FROM (
    SELECT coalesce(bool_or(kind.tasks >= $1::integer), false) AS cut
    FROM (SELECT count(*) AS tasks FROM said GROUP BY said.kind) AS kind
) AS counted
LEFT JOIN (
    SELECT digits.action, sum(digits.tasks)::bigint AS tasks,
           (array_agg(digits.text ORDER BY digits.finished_at DESC NULLS LAST, digits.key DESC))[1]
               AS text,
           (array_agg(digits.id ORDER BY digits.finished_at DESC NULLS LAST, digits.key DESC))[1]
               AS example
    FROM digits
    GROUP BY digits.action,
             regexp_replace(
                 regexp_replace(
                     regexp_replace(
                         digits.plain, '"[^"]*"|`[^`]*`', '""', 'g'
                     ), '(^|[^0-9A-Za-z])''[^'']*''', '\1""', 'g'
                 ), '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}'
                    || '|(0x)?[0-9A-Fa-f]*[0-9][0-9A-Fa-f]*', '0', 'g'
             )
    ORDER BY sum(digits.tasks) DESC, digits.action, text
    LIMIT $2::integer
) AS groups ON true
ORDER BY groups.tasks DESC, groups.action, groups.text
