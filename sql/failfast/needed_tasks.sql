-- name: needed_tasks
--
-- Returns the unfinished tasks that an aborted one waits for, through aborted and unfinished ones,
-- each with the tasks that need it: its dependents that were neither aborted nor skipped, and its
-- own key if somebody may wait for its result. Ahead of them comes a row with the IDs of the
-- aborted task and of the one of which the abort brought it down, if it is still known: one that
-- failed rather than one that was cancelled, the first that did.
--
--   $1 key  bigint
--
-- Where it stops is what completed, since all that this waited for has ended, and what was skipped.
WITH RECURSIVE above (key, cause, finished_at) AS (
    SELECT $1::bigint, span.cause, span.finished_at
    FROM (
        -- include span_of_key: table=finished; key=$1::bigint;
        --   columns=finished.hi, finished.cause, finished.finished_at
    ) AS span
    WHERE span.hi >= $1::bigint
    UNION
    SELECT edge.after, span.cause, span.finished_at
    FROM above
    CROSS JOIN LATERAL (
        SELECT edges.after FROM stint.edges WHERE edges.run = above.key OFFSET 0
    ) AS edge
    LEFT JOIN LATERAL (
        -- include span_of_key: table=finished; key=edge.after;
        --   columns=finished.hi, finished.cause, finished.finished_at
    ) AS last ON true
    CROSS JOIN LATERAL (
        SELECT CASE WHEN last.hi >= edge.after THEN last.cause END AS cause,
               CASE WHEN last.hi >= edge.after THEN last.finished_at END AS finished_at
    ) AS span
    WHERE above.cause IS NULL OR above.cause NOT IN (0 /* completed */, 8 /* skipped */)
), culprit AS MATERIALIZED (
    SELECT above.key
    FROM above
    WHERE above.cause NOT IN (0 /* completed */, 3 /* a predecessor */, 5 /* replaced */,
                              8 /* skipped */)
    ORDER BY above.cause NOT IN (1 /* returned */, 2 /* tries */, 6 /* expired */, 9 /* lost */),
             above.finished_at, above.key
    LIMIT 1
), unfinished AS MATERIALIZED (
    SELECT task.key, task.post_result
    FROM above
    CROSS JOIN LATERAL (
        SELECT tasks.key, tasks.post_result
        FROM stint.tasks
        WHERE tasks.key = above.key
        OFFSET 0
    ) AS task
    WHERE above.cause IS NULL
)
SELECT NULL::bigint AS key,
       (SELECT tasks.id FROM stint.tasks WHERE tasks.key = $1::bigint) AS id,
       (SELECT tasks.id
        FROM stint.tasks
        WHERE tasks.key = (SELECT culprit.key FROM culprit)) AS culprit,
       NULL::bigint[] AS needed_by
UNION ALL
SELECT unfinished.key, NULL, NULL,
       ARRAY(
           SELECT edge.run
           FROM (
               SELECT edges.run FROM stint.edges WHERE edges.after = unfinished.key OFFSET 0
           ) AS edge
           WHERE (SELECT last.cause <> 0 AND last.hi >= edge.run
                  FROM (
                      -- include span_of_key: table=finished; key=edge.run;
                      --   columns=finished.hi, finished.cause
                  ) AS last) IS NOT true
           UNION ALL
           SELECT unfinished.key WHERE unfinished.post_result
       ) AS needed_by
FROM unfinished
