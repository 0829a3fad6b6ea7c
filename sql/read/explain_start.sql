-- name: explain_start
--
-- Returns what tells when a task that is ready or scheduled will start; nothing for others. Of the
-- queue of its action it counts the tasks that are handed out first, and of the parked tasks of its
-- key those that come first, with how many rows hold them. It returns how many tasks of the action
-- have been fetched so far, and what was noted of it in the last minutes; whether the action or the
-- key is paused, the limits that a ready task is not yet held up by, and whether it is parked.
--
--   $1 id       text
--   $2 spans    integer: how many rows of the queue, and how many parked ones, are read
--   $3 minutes  integer: of how many minutes to read what was noted
SELECT ahead.tasks + CASE WHEN task.parked THEN 0 ELSE task.in_span END AS ahead,
       ahead.spans = $2::integer AS ahead_or_more,
       key_ahead.tasks + CASE WHEN task.parked THEN task.in_span ELSE 0 END AS key_ahead,
       key_ahead.spans = $2::integer AS key_ahead_or_more,
       task.parked, limits.paused, paused.key_paused, limits.by_cost, limits.fair,
       limits.ordered, limits.per_key,
       limits.rate, limits.key_rate, coalesce(limits.key_burst, 0) AS key_burst,
       asked.tries, noted.at, noted.ready, noted.tries AS noted_tries, statement_timestamp() AS now
FROM (
    -- A scheduled task comes behind all that are ready with its priority.
    SELECT tasks.action, coalesce(tasks.limit_key, '') AS limit_key, place.*
    FROM stint.tasks
    CROSS JOIN LATERAL (
        SELECT span.rank & 9223372036854775807 /* all but the sign */ AS rank, span.hi,
               span.position < 0 AS parked, tasks.key - span.lo AS in_span
        FROM (
            -- include span_of_key: table=ready; key=tasks.key;
            --   columns=ready.lo, ready.hi, ready.rank, ready.position
        ) AS span
        WHERE span.hi >= tasks.key
        UNION ALL
        SELECT (32767 - tasks.priority)::bigint << 47 | 140737488355327, 9223372036854775807,
               false, 0
        FROM stint.scheduled
        WHERE scheduled.key = tasks.key
    ) AS place
    WHERE tasks.id = $1::text AND tasks.action NOT IN ('stint.External', 'stint.Spontaneous')
    OFFSET 0
) AS task
CROSS JOIN LATERAL (
    -- Of those whose deadline has passed none is handed out.
    SELECT coalesce(sum(span.hi - span.lo + 1) FILTER (WHERE span.starts), 0)::bigint AS tasks,
           count(*) AS spans
    FROM (
        SELECT ready.lo, ready.hi,
               ready.deadline IS NULL OR ready.deadline > statement_timestamp() AS starts
        FROM stint.ready
        WHERE ready.action = task.action AND ready.rank >= 0
          AND (ready.rank, ready.hi) OPERATOR(pg_catalog.<) (task.rank, task.hi)
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT $2::integer
    ) AS span
) AS ahead
CROSS JOIN LATERAL (
    -- The sign bit is what the rank of a parked row has on top.
    SELECT coalesce(sum(span.hi - span.lo + 1) FILTER (WHERE span.starts), 0)::bigint AS tasks,
           count(*) AS spans
    FROM (
        SELECT ready.lo, ready.hi,
               ready.deadline IS NULL OR ready.deadline > statement_timestamp() AS starts
        FROM stint.ready
        WHERE ready.action = task.action AND ready.limit_key = task.limit_key
          AND ready.position < 0
          AND (ready.rank, ready.hi) OPERATOR(pg_catalog.<)
              ('-9223372036854775808'::bigint | task.rank, task.hi)
        ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
        LIMIT $2::integer
    ) AS span
) AS key_ahead
LEFT JOIN LATERAL (
    -- Rates are tasks a second.
    SELECT limits.paused_at IS NOT NULL AS paused, limits.by_cost, limits.fair, limits.ordered,
           task.limit_key <> '' AND limits.per_key IS NOT NULL AS per_key,
           limits.rate_tasks / date_part('epoch', limits.rate_per) AS rate,
           CASE WHEN task.limit_key <> '' THEN
               limits.key_tasks / date_part('epoch', limits.key_per)
           END AS key_rate, limits.key_burst
    FROM stint.limits
    WHERE limits.action = task.action
    OFFSET 0
) AS limits ON true
LEFT JOIN LATERAL (
    SELECT limited_keys.paused_at IS NOT NULL AS key_paused
    FROM stint.limited_keys
    WHERE limited_keys.action = task.action AND limited_keys.limit_key = task.limit_key
    OFFSET 0
) AS paused ON true
LEFT JOIN LATERAL (
    SELECT action_stats.tries
    FROM stint.action_stats
    WHERE action_stats.action = task.action
    OFFSET 0
) AS asked ON true
CROSS JOIN LATERAL (
    -- A look-up for each minute: a scan would read the rows of all actions.
    SELECT array_agg(minute.until ORDER BY minute.until) AS at,
           array_agg(minute.ready ORDER BY minute.until) AS ready,
           array_agg(minute.all_tries ORDER BY minute.until) AS tries
    FROM generate_series(0, $3::integer) AS back (minutes)
    CROSS JOIN LATERAL (
        SELECT minutes.until, minutes.ready, minutes.all_tries
        FROM stint.minutes
        WHERE minutes.minute = date_trunc('minute', statement_timestamp(), 'UTC')
                               - make_interval(mins => back.minutes)
          AND minutes.action = task.action
        OFFSET 0
    ) AS minute
) AS noted
