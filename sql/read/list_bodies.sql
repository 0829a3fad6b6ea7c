-- name: list_bodies
--
-- Returns the bodies of those tasks with keys $1 of which the ones before have less than $2 bytes
-- together, in the order of the keys: the place of the key in $1, and the body, which may be null.
-- The length of a body is beside the pointer to it, so the others are not read.
--
--   $1 keys   bigint[]
--   $2 bytes  bigint
SELECT sized.place, task.body
FROM (
    SELECT named.place, named.key,
           sum(task.bytes) OVER (ORDER BY named.place) - task.bytes AS before
    FROM unnest($1::bigint[]) WITH ORDINALITY AS named (key, place)
    CROSS JOIN LATERAL (
        SELECT coalesce(octet_length(tasks.body), 0) AS bytes
        FROM stint.tasks
        WHERE tasks.key = named.key
        OFFSET 0
    ) AS task
) AS sized
CROSS JOIN LATERAL (
    SELECT tasks.body FROM stint.tasks WHERE tasks.key = sized.key OFFSET 0
) AS task
WHERE sized.before < $2::bigint
ORDER BY sized.place
