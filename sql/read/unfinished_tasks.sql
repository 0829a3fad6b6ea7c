-- name: unfinished_tasks
--
-- Returns those of the tasks that have not finished, and whether it is an end: none of the others
-- that have not waits for it.
--
--   $1 ids  text[]
WITH unfinished AS MATERIALIZED (
    SELECT task.key, task.id
    FROM (SELECT DISTINCT named.id FROM unnest($1::text[]) AS named (id)) AS named
    CROSS JOIN LATERAL (
        SELECT tasks.key, tasks.id FROM stint.tasks WHERE tasks.id = named.id OFFSET 0
    ) AS task
    LEFT JOIN LATERAL (
        -- include span_of_key: table=finished; key=task.key; columns=finished.hi
    ) AS finished ON true
    WHERE (finished.hi >= task.key) IS NOT TRUE
), keys AS (
    SELECT array_agg(unfinished.key ORDER BY unfinished.key) AS sorted FROM unfinished
)
SELECT unfinished.id, waiting.found IS NULL AS is_end
FROM unfinished
LEFT JOIN LATERAL (
    SELECT true AS found
    FROM stint.edges
    WHERE edges.after = unfinished.key
      AND edges.run + 0 = ANY ((SELECT keys.sorted FROM keys)::bigint[]) -- not by edges_run
    LIMIT 1
) AS waiting ON true
ORDER BY unfinished.id
