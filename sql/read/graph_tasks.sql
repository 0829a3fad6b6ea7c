-- name: graph_tasks
--
-- Returns the network around the task with ID $1: the $2 tasks that are nearest to it along edges
-- in either direction, each in the form of get_tasks without body and result, with its key, the
-- keys of its predecessors, the conditions of these edges, or null if there are none, and whether
-- the network goes on beyond the $2 tasks.
--
--   $1 id     text
--   $2 tasks  integer
WITH RECURSIVE around (key) AS (
    -- The recursion goes outwards step by step. It ends one task behind the LIMIT. OFFSET 0 is a
    -- fence: UNION would have rows in order, which a walk through tasks_pkey has.
    SELECT task.key
    FROM (SELECT tasks.key FROM stint.tasks WHERE tasks.id = $1::text OFFSET 0) AS task
    UNION
    SELECT next.key
    FROM around
    CROSS JOIN LATERAL (
        SELECT edges.run AS key FROM stint.edges WHERE edges.after = around.key
        UNION ALL
        SELECT edges.after FROM stint.edges WHERE edges.run = around.key
        OFFSET 0
    ) AS next
), chosen AS MATERIALIZED (
    SELECT around.key FROM around LIMIT $2::integer
)
SELECT
       -- include task_columns: body=NULL::bytea; status=task.status; result=NULL::bytea
       , task.key,
       coalesce(edge.predecessors, '{}'), edge.conditions,
       EXISTS (SELECT FROM around OFFSET $2::integer) AS cut
FROM chosen
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.key = chosen.key OFFSET 0
) AS task
CROSS JOIN LATERAL (
    SELECT array_agg(edges.after) AS predecessors,
           jsonb_agg(jsonb_build_object(
               'after', edges.after, 'accepts', edges.accepts, 'results', (
                   SELECT jsonb_agg(encode(result.bytes, 'base64'))
                   FROM unnest(edges.results) AS result (bytes)
               )
           )) FILTER (WHERE edges.accepts IS NOT NULL) AS conditions
    FROM stint.edges
    WHERE edges.run = chosen.key
    OFFSET 0
) AS edge
ORDER BY task.key
