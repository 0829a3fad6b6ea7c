-- name: splittable_tasks
--
-- Returns the keys, sorted, of those of the tasks with these IDs that are owned and share a row of
-- leased with others.
--
--   $1 ids  text[]
SELECT task.key
FROM (SELECT DISTINCT named.id FROM unnest($1::text[]) AS named (id)) AS named
CROSS JOIN LATERAL (
    SELECT tasks.key FROM stint.tasks WHERE tasks.id = named.id OFFSET 0
) AS task
CROSS JOIN LATERAL (
    -- include span_of_key: table=leased; key=task.key; columns=leased.lo, leased.hi
) AS span
WHERE span.hi >= task.key AND span.lo < span.hi
ORDER BY task.key
