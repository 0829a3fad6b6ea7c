-- name: still_needed
--
-- Returns whether one of the tasks with the keys $1, which nobody else can change any more, has a
-- dependent that was not aborted and is not among them.
--
--   $1 keys  bigint[]
SELECT EXISTS (
    SELECT
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = named.key OFFSET 0
    ) AS edge
    WHERE edge.run <> ALL ($1::bigint[])
      AND (SELECT last.cause <> 0 AND last.hi >= edge.run
           FROM (
               SELECT finished.hi, finished.cause
               FROM stint.finished
               WHERE finished.lo BETWEEN edge.run >> 10 << 10 AND edge.run
               ORDER BY finished.lo DESC
               LIMIT 1
           ) AS last) IS NOT true
) AS needed
