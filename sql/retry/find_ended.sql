-- name: find_ended
--
-- Returns those of the tasks that are final, and the tasks that were aborted or skipped because of
-- them, at whatever distance: key, cause, whether it runs anyway (on_abort), and for a completed
-- spontaneous task how many completed and aborted tasks it stands for.
--
--   $1 keys  bigint[], sorted
WITH RECURSIVE reached (key, cause) AS (
    SELECT named.key, span.cause
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        -- include span_of_key: table=finished; key=named.key; columns=finished.hi, finished.cause
    ) AS span
    WHERE span.hi >= named.key
    UNION
    SELECT edge.run, span.cause
    FROM reached
    CROSS JOIN LATERAL (
        SELECT edges.run
        FROM stint.edges
        WHERE edges.after = reached.key
          -- The tasks given are there already. A binary search: = ANY would go through all keys.
          AND ($1::bigint[])[width_bucket(edges.run, $1::bigint[])] IS DISTINCT FROM edges.run
        OFFSET 0
    ) AS edge
    CROSS JOIN LATERAL (
        -- What a predecessor aborts, or what is skipped, is alone in its span.
        SELECT finished.cause FROM stint.finished WHERE finished.lo = edge.run OFFSET 0
    ) AS span
    -- A completed task has aborted nothing, even if the task that aborted its dependent has left
    -- the store; and neither has a skipped one.
    WHERE span.cause = 3 /* a predecessor */
          AND reached.cause NOT IN (0 /* completed */, 8 /* skipped */)
       OR span.cause = 8 /* skipped */
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
