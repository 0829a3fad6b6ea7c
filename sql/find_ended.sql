-- name: find_ended
--
-- Those of the tasks that are final, and what was aborted because of them, at whatever distance:
-- the key, how it ended, and of a completed spontaneous one what it stands for. A completed one has
-- aborted nothing, even if what aborted its dependent has left the store.
--
--   $1 keys  bigint[]
WITH RECURSIVE reached (key, cause) AS (
    SELECT named.key, span.cause
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT finished.hi, finished.cause
        FROM stint.finished
        WHERE finished.lo BETWEEN named.key >> 10 << 10 AND named.key
        ORDER BY finished.lo DESC
        LIMIT 1
    ) AS span
    WHERE span.hi >= named.key
    UNION
    SELECT edge.run, span.cause
    FROM reached
    CROSS JOIN LATERAL (
        SELECT edges.run
        FROM stint.edges
        WHERE edges.after = reached.key AND reached.cause <> 0
        OFFSET 0
    ) AS edge
    CROSS JOIN LATERAL (
        SELECT finished.hi, finished.cause
        FROM stint.finished
        WHERE finished.lo BETWEEN edge.run >> 10 << 10 AND edge.run
        ORDER BY finished.lo DESC
        LIMIT 1
    ) AS span
    WHERE span.hi >= edge.run AND span.cause = 3 /* a predecessor */
)
SELECT reached.key, reached.cause, task.on_abort, joined.completed, joined.aborted
FROM reached
CROSS JOIN LATERAL (
    SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = reached.key OFFSET 0
) AS task
LEFT JOIN LATERAL (
    SELECT joined.completed, joined.aborted
    FROM stint.joined
    WHERE joined.key = reached.key
    OFFSET 0
) AS joined ON true
