-- name: take_signals
--
-- Puts the signals of predecessors that have ended already, for tasks with conditions, into round
-- $2 of settling. insert_network goes ahead.
--
--   $1 batch  bigint
--   $2 round  integer
--   $3 keys   bigint[]: the tasks with conditions, each once
--
-- What the columns say is as in return_tasks, and as in settle_tasks of a skipped predecessor.
INSERT INTO stint.settling (batch, round, key, signals, completed, aborted, spoiled, verdict)
SELECT $1::bigint, $2::integer, edge.run, count(*),
       least(sum(CASE WHEN ended.cause = 0 /* completed */
                      THEN coalesce(stands_for.completed, 1)
                 END), 2147483647),
       least(sum(CASE
           WHEN ended.cause = 8 /* skipped */ THEN 0
           WHEN ended.cause > 0 THEN 1
           -- Not met, of several: only tasks that were aborted themselves count.
           WHEN edge.accepts & 8 <> 0 AND (edge.accepts & 1 = 0 OR '' <> ALL (edge.results)) THEN 0
           ELSE coalesce(stands_for.aborted, 0)
       END), 2147483647),
       bool_or(ended.cause NOT IN (0 /* completed */, 8 /* skipped */)
               AND coalesce(edge.accepts & 10, 0) = 0),
       bit_or(CASE
           WHEN edge.accepts IS NULL
           THEN (ended.cause = 8 /* skipped */ AND task.on_abort = 0)::integer
           WHEN edge.accepts & CASE ended.cause WHEN 0 /* completed */ THEN 1
                                                WHEN 8 /* skipped */ THEN 4
                                                ELSE 2 END <> 0
                AND (ended.cause > 0 OR edge.results IS NULL
                     OR coalesce(ended.result, '') = ANY (edge.results))
           THEN edge.accepts & 8 >> 2
           WHEN edge.accepts & 8 <> 0 THEN 4
           ELSE 1
       END::smallint)
FROM unnest($3::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = named.key OFFSET 0
) AS task
CROSS JOIN LATERAL (
    SELECT edges.after, edges.run, edges.accepts, edges.results
    FROM stint.edges
    WHERE edges.run = named.key
    OFFSET 0
) AS edge
CROSS JOIN LATERAL (
    SELECT finished.lo, finished.hi, finished.cause, finished.result
    FROM stint.finished
    WHERE finished.lo BETWEEN edge.after >> 10 << 10 AND edge.after
    ORDER BY finished.lo DESC
    LIMIT 1
) AS ended
LEFT JOIN LATERAL (
    SELECT joined.completed, joined.aborted
    FROM stint.joined
    WHERE joined.key = edge.after
    OFFSET 0
) AS stands_for ON true
WHERE ended.hi >= edge.after
GROUP BY edge.run
-- One that is opened again has a signal of its own.
ON CONFLICT (batch, key) DO UPDATE
SET signals = settling.signals + excluded.signals,
    completed = excluded.completed,
    aborted = excluded.aborted,
    spoiled = excluded.spoiled,
    verdict = excluded.verdict
