-- name: first_calls
--
-- Returns keys and times of insertion of the tasks with these IDs, in no particular order, each
-- with the time of this call; and one row with nothing but that time if there is none.
--
--   $1 ids  text[]
SELECT task.key, task.inserted_at, statement_timestamp() AS now
FROM (VALUES (true)) AS answer (one)
LEFT JOIN (
    SELECT task.key, task.inserted_at
    FROM unnest($1::text[]) AS named (id)
    CROSS JOIN LATERAL (
        -- What was inserted in the future, since the clock was ahead, is of now.
        SELECT tasks.key, least(tasks.inserted_at, statement_timestamp()) AS inserted_at
        FROM stint.tasks
        WHERE tasks.id = named.id
        OFFSET 0
    ) AS task
) AS task ON true
