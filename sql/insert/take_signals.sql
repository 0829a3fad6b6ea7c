-- name: take_signals
--
-- Puts the signals of predecessors that have ended already, for tasks with conditions, into round
-- $2 of settling. insert_network goes ahead.
--
--   $1 batch  bigint
--   $2 round  integer
--   $3 keys   bigint[]: the tasks with conditions, each once
--   $4 own    integer: further signals for each of them: 1 if it is opened again
--
-- What the columns say is as in return_tasks, and as in settle_tasks of a skipped predecessor.
INSERT INTO stint.settling (batch, round, key, signals, completed, aborted, spoiled, verdict)
SELECT $1::bigint, $2::integer, named.key, count(before.after) + $4::integer,
       least(sum(CASE WHEN before.cause = 0 /* completed */
                      THEN coalesce(stands_for.completed, 1)
                      ELSE 0 -- least passes over null
                 END), 2147483647),
       least(sum(CASE
           WHEN before.cause IN (7 /* gone */, 8 /* skipped */) THEN 0
           WHEN before.cause > 0 THEN 1
           -- Not met, of several: only tasks that were aborted themselves count.
           WHEN before.accepts & 8 <> 0 AND NOT
                -- include condition_met: edge=before; cause=before.cause; result=before.result
           THEN 0
           ELSE coalesce(stands_for.aborted, 0)
       END), 2147483647),
       bool_or(before.cause NOT IN (0 /* completed */, 7 /* gone */, 8 /* skipped */)
               AND coalesce(before.accepts & 10, 0) = 0),
       bit_or(CASE
           WHEN before.accepts IS NULL
           THEN (before.cause = 8 /* skipped */ AND task.on_abort = 0)::integer
           ELSE
               -- include verdict_of_condition: edge=before; cause=before.cause;
               --   result=before.result
       END::smallint)
FROM unnest($3::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = named.key OFFSET 0
) AS task
LEFT JOIN LATERAL (
    SELECT edge.*, ended.cause, coalesce(ended.result, '') AS result
    FROM (
        SELECT edges.after, edges.accepts, edges.results
        FROM stint.edges
        WHERE edges.run = named.key
        OFFSET 0
    ) AS edge
    LEFT JOIN LATERAL (
        -- include span_of_key: table=finished; key=edge.after;
        --   columns=finished.hi, finished.cause, finished.result
    ) AS span ON true
    CROSS JOIN LATERAL (
        SELECT CASE WHEN span.hi >= edge.after AND span.cause <> 5 /* replaced */ THEN span.cause
                    WHEN (SELECT true FROM stint.tasks WHERE tasks.key = edge.after) IS NULL
                    THEN 7 /* gone */
               END AS cause,
               CASE WHEN span.hi >= edge.after THEN span.result END AS result
        OFFSET 0
    ) AS ended
    WHERE ended.cause IS NOT NULL
) AS before ON true
LEFT JOIN LATERAL (
    SELECT joined.completed, joined.aborted
    FROM stint.joined
    WHERE joined.key = before.after
    OFFSET 0
) AS stands_for ON true
GROUP BY named.key
HAVING count(before.after) + $4::integer > 0
