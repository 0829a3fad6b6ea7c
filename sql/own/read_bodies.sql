-- name: read_bodies
--
-- Returns the bodies of tasks in pieces, so that the caller sees that there is progress, however
-- slow the line: the key, where in the body the piece begins, and the piece.
--
--   $1 keys   bigint[]
--   $2 piece  integer
SELECT task.key, piece.begins, substring(task.body, piece.begins + 1, $2::integer)
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    -- || reads and unpacks the body once, for all of its pieces.
    SELECT tasks.key, tasks.body || ''::bytea AS body
    FROM stint.tasks
    WHERE tasks.key = named.key
    OFFSET 0
) AS task
CROSS JOIN LATERAL generate_series(0, octet_length(task.body) - 1, $2::integer) AS piece (begins)
