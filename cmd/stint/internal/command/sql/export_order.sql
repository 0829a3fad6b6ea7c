-- name: export_order
--
-- Returns the next tasks by their keys: how many bytes they have that may be many, and the keys of
-- the predecessors that a blocked task still waits for, or null. A predecessor that was opened
-- again behind the start of its dependent is none of these, nor one that has left the store.
--
--   $1 after  bigint: only tasks with higher keys
--   $2 tasks  integer: how many at most
WITH next AS MATERIALIZED (
    SELECT tasks.key
    FROM stint.tasks
    WHERE tasks.key > $1::bigint
    ORDER BY tasks.key
    LIMIT $2::integer
)
SELECT next.key,
       coalesce(octet_length(task.body), 0)::bigint + coalesce(octet_length(task.result), 0)
           + coalesce(octet_length(task.status), 0) AS bytes,
       CASE WHEN task.state = 0 THEN (
           SELECT array_agg(edges.after)
           FROM stint.edges
           LEFT JOIN LATERAL (
               -- include span_of_key: table=finished; key=edges.after; columns=finished.hi
           ) AS finished ON true
           WHERE edges.run = next.key AND (finished.hi >= edges.after) IS NOT TRUE
             AND EXISTS (SELECT FROM stint.tasks WHERE tasks.key = edges.after)
       ) END AS waits_for
FROM next
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.key = next.key OFFSET 0
) AS task
ORDER BY next.key
