-- name: networks
--
-- Returns the tasks with the IDs $1 and all that depend on them, directly or through others, as
-- edges: the keys of both ends. A task of $1 itself comes as its key and its place in $1.
--
--   $1 ids  text[]
WITH RECURSIVE planned (key, place) AS MATERIALIZED (
    SELECT task.key, named.place
    FROM unnest($1::text[]) WITH ORDINALITY AS named (id, place)
    CROSS JOIN LATERAL (
        SELECT tasks.key FROM stint.tasks WHERE tasks.id = named.id OFFSET 0
    ) AS task
), reached (key) AS (
    SELECT planned.key FROM planned
    UNION
    SELECT edge.run
    FROM reached
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = reached.key OFFSET 0
    ) AS edge
)
SELECT planned.key, NULL::bigint AS run, planned.place FROM planned
UNION ALL
SELECT reached.key, edge.run, NULL
FROM reached
CROSS JOIN LATERAL (
    SELECT edges.run FROM stint.edges WHERE edges.after = reached.key OFFSET 0
) AS edge
