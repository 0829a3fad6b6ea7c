-- name: note_minute
--
-- Notes for this minute what has happened since the last one that was noted, by action and of all
-- together, unless somebody has: who is first with the row of all notes the others, too.
--
--   $1 actions  text[]
--   $2 ready    bigint[]: how many tasks are ready; the action is '' for all
--   $3 oldest   interval[]: for how long the one that has waited longest has been ready
--   $4 spans    integer: how many spans that have ended to count, of completed and of aborted ones
--   $5 looked   integer: of how many of these to look up the action, about
--   $6 most     integer: how many actions to note. They are those of which most is ready or has
--               ended, and then those that were noted before
--   $7 asked    integer: of how many actions to read how often tasks were fetched, those last asked
--               for. If there are more, the sum is not known
--
-- Whoever ends tasks may take a while to commit, up to 5 s as a rule. So ends are counted that
-- long after, lest they are missed. finished holds no action, and tasks that were replaced have no
-- definition, but they have not failed either.
WITH last AS MATERIALIZED (
    -- Not what a clock has left that was ahead.
    SELECT minutes.minute, minutes.until
    FROM stint.minutes
    WHERE minutes.minute < date_trunc('minute', statement_timestamp(), 'UTC')
      AND minutes.minute > statement_timestamp() - interval '1 day'
      AND minutes.until <= statement_timestamp() AND minutes.action = ''
    ORDER BY minutes.minute DESC
    LIMIT 1
), period AS MATERIALIZED (
    SELECT coalesce(last.until, statement_timestamp() - interval '1 minute') AS since, last.minute
    FROM (SELECT 1) AS one
    LEFT JOIN last ON true
), before AS MATERIALIZED (
    SELECT minutes.action, minutes.all_tries, minutes.all_retries
    FROM stint.minutes
    WHERE minutes.minute = (SELECT period.minute FROM period)
), ended AS MATERIALIZED (
    (SELECT finished.lo, finished.hi, finished.finished_at, finished.owned_at, finished.ready_at,
            true AS completed, true AS counts
     FROM stint.finished
     WHERE finished.cause = 0 /* completed */
       AND finished.finished_at > (SELECT period.since FROM period) - interval '5 s'
       AND finished.finished_at <= statement_timestamp() - interval '5 s'
     ORDER BY finished.finished_at DESC, finished.lo DESC
     LIMIT $4::integer)
    UNION ALL
    (SELECT finished.lo, finished.hi, finished.finished_at, NULL, NULL, false,
            finished.cause IN (1 /* aborted */, 2 /* tries */, 6 /* deadline */, 9 /* lost */)
     FROM stint.finished
     WHERE finished.cause <> 0 /* completed */
       AND finished.finished_at > (SELECT period.since FROM period) - interval '5 s'
       AND finished.finished_at <= statement_timestamp() - interval '5 s'
     ORDER BY finished.finished_at DESC, finished.lo DESC
     LIMIT $4::integer)
), total AS MATERIALIZED (
    -- Where not all were read, those that were tell of the others by the time that they took.
    SELECT ended.completed, count(*) = $4::integer AS estimated,
           greatest(1, count(*) FILTER (WHERE ended.counts) / $5::integer) AS every,
           sum(ended.hi - ended.lo + 1) FILTER (WHERE ended.counts) * CASE
               WHEN count(*) < $4::integer THEN 1
               ELSE date_part('epoch',
                              statement_timestamp() - (SELECT period.since FROM period))
                   / greatest(date_part('epoch', statement_timestamp() - interval '5 s'
                                                 - min(ended.finished_at)), 0.001)
           END AS tasks
    FROM ended
    GROUP BY ended.completed
), looked AS MATERIALIZED (
    -- Each counts for its action, and for all together.
    SELECT chosen.completed, named.action, chosen.hi - chosen.lo + 1 AS tasks,
           chosen.finished_at - task.inserted_at AS took,
           -- A late owner who has returned the task was given it before it was ready again.
           greatest(chosen.owned_at - coalesce(chosen.ready_at, task.inserted_at),
                    interval '0') AS waited,
           chosen.finished_at - chosen.owned_at AS ran
    FROM (
        -- By a hash, since tasks may have been inserted in a pattern; and one in any case.
        SELECT ended.*
        FROM (
            SELECT ended.*, row_number() OVER (PARTITION BY ended.completed) AS place
            FROM ended
            WHERE ended.counts
        ) AS ended
        JOIN total ON total.completed = ended.completed
        WHERE ended.place = 1
           OR hashint8(ended.lo) & 2147483647 <= 2147483647 / total.every
        OFFSET 0
    ) AS chosen
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.inserted_at
        FROM stint.tasks
        WHERE tasks.key = chosen.lo
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (VALUES (task.action), ('')) AS named (action)
), share AS MATERIALIZED (
    SELECT looked.action, looked.completed,
           round(total.tasks * sum(looked.tasks) / sum(sum(looked.tasks))
               FILTER (WHERE looked.action = '') OVER (PARTITION BY looked.completed))::bigint
               AS tasks,
           total.estimated OR total.every > 1 AS estimated
    FROM looked
    JOIN total ON total.completed = looked.completed
    GROUP BY looked.action, looked.completed, total.tasks, total.estimated, total.every
), took AS MATERIALIZED (
    SELECT half.action,
           max(half.time) FILTER (WHERE half.kind = 0) AS median,
           max(half.most) FILTER (WHERE half.kind = 0) AS p95,
           max(half.time) FILTER (WHERE half.kind = 1) AS wait_median,
           max(half.most) FILTER (WHERE half.kind = 1) AS wait_p95,
           max(half.time) FILTER (WHERE half.kind = 2) AS run_median,
           max(half.most) FILTER (WHERE half.kind = 2) AS run_p95
    FROM (
        SELECT ranked.action, ranked.kind,
               min(ranked.time) FILTER (WHERE ranked.up_to >= 0.5 * ranked.of) AS time,
               min(ranked.time) FILTER (WHERE ranked.up_to >= 0.95 * ranked.of) AS most
        FROM (
            SELECT looked.action, part.kind, part.time,
                   sum(looked.tasks) OVER (PARTITION BY looked.action, part.kind
                                           ORDER BY part.time) AS up_to,
                   sum(looked.tasks) OVER (PARTITION BY looked.action, part.kind) AS of
            FROM looked
            CROSS JOIN LATERAL (
                VALUES (0, looked.took), (1, looked.waited), (2, looked.ran)
            ) AS part (kind, time)
            WHERE looked.completed AND part.time IS NOT NULL
        ) AS ranked
        GROUP BY ranked.action, ranked.kind
    ) AS half
    GROUP BY half.action
), asked AS MATERIALIZED (
    SELECT action_stats.action, action_stats.tries, action_stats.retries
    FROM stint.action_stats
    ORDER BY action_stats.asked_at DESC
    LIMIT $7::integer
), known AS MATERIALIZED (
    SELECT part.action, sum(part.tries) AS tries, sum(part.retries) AS retries,
           sum(part.completed) AS completed, sum(part.failed) AS failed, sum(part.ready) AS ready,
           max(part.oldest) AS oldest, bool_or(part.estimated) AS estimated
    FROM (
        SELECT asked.action, asked.tries, asked.retries, 0 AS completed, 0 AS failed, 0 AS ready,
               NULL::interval AS oldest, false AS estimated
        FROM asked
        UNION ALL
        SELECT '', coalesce(sum(asked.tries), 0), coalesce(sum(asked.retries), 0), 0, 0, 0, NULL,
               false
        FROM asked
        UNION ALL
        SELECT ready.action, 0, 0, 0, 0, ready.tasks, ready.oldest, false
        FROM unnest($1::text[], $2::bigint[], $3::interval[]) AS ready (action, tasks, oldest)
        UNION ALL
        SELECT share.action, 0, 0, CASE WHEN share.completed THEN share.tasks ELSE 0 END,
               CASE WHEN share.completed THEN 0 ELSE share.tasks END, 0, NULL, share.estimated
        FROM share
    ) AS part
    GROUP BY part.action
), noted AS MATERIALIZED (
    -- Of an action that was not noted before, the tries are new, unless there was no room for it,
    -- or nothing was noted at all. Counts begin anew when nobody has asked for long.
    SELECT known.*, took.median, took.p95, took.wait_median, took.wait_p95, took.run_median,
           took.run_p95,
           CASE
               WHEN known.action = '' AND among.asked = $7::integer THEN NULL
               WHEN before.all_tries <= known.tries THEN known.tries - before.all_tries
               WHEN known.action <> '' AND (before.all_tries IS NOT NULL OR among.fits)
                   THEN known.tries
           END AS new_tries,
           CASE
               WHEN known.action = '' AND among.asked = $7::integer THEN NULL
               WHEN before.all_retries <= known.retries THEN known.retries - before.all_retries
               WHEN known.action <> '' AND (before.all_retries IS NOT NULL OR among.fits)
                   THEN known.retries
           END AS new_retries
    FROM known
    CROSS JOIN (
        SELECT (SELECT count(*) FROM before) BETWEEN 1 AND $6::integer AS fits,
               (SELECT count(*) FROM asked) AS asked
    ) AS among
    LEFT JOIN before ON before.action = known.action
    LEFT JOIN took ON took.action = known.action
    ORDER BY known.action = '' DESC, known.ready + known.completed + known.failed DESC,
             before.action IS NULL, known.action
    LIMIT $6::integer + 1
), first AS (
    INSERT INTO stint.minutes (minute, since, until, all_tries, all_retries, tries, retries,
                               completed, failed, ready, oldest, median, p95, wait_median, wait_p95,
                               run_median, run_p95, estimated, action)
    SELECT date_trunc('minute', statement_timestamp(), 'UTC'), period.since, statement_timestamp(),
           noted.tries, noted.retries, noted.new_tries, noted.new_retries, noted.completed,
           noted.failed, noted.ready, noted.oldest, noted.median, noted.p95, noted.wait_median,
           noted.wait_p95, noted.run_median, noted.run_p95, noted.estimated, noted.action
    FROM noted
    CROSS JOIN period
    WHERE noted.action = ''
    ON CONFLICT DO NOTHING
    RETURNING minutes.minute, minutes.since, minutes.until
)
INSERT INTO stint.minutes (minute, since, until, all_tries, all_retries, tries, retries, completed,
                           failed, ready, oldest, median, p95, wait_median, wait_p95, run_median,
                           run_p95, estimated, action)
SELECT first.minute, first.since, first.until, noted.tries, noted.retries, noted.new_tries,
       noted.new_retries, noted.completed, noted.failed, noted.ready, noted.oldest, noted.median,
       noted.p95, noted.wait_median, noted.wait_p95, noted.run_median, noted.run_p95,
       noted.estimated, noted.action
FROM first
CROSS JOIN noted
WHERE noted.action <> ''
ON CONFLICT DO NOTHING
