-- name: drop_tries
--
-- Deletes tries of tasks that are gone, those that are too old, and the oldest of tasks that have
-- too many. It looks at the next tasks that have some, in the order of their keys, and returns how
-- many these were and the key of the last one. So whoever keeps a try looks at no other.
--
--   $1 after  bigint: the key of the last task that was looked at
--   $2 most   integer: how many tasks to look at
--   $3 tries  integer: how many a task may have
--   $4 age    interval, null: any
WITH RECURSIVE walk (key) AS (
    (SELECT tries.key FROM stint.tries WHERE tries.key > $1::bigint ORDER BY tries.key LIMIT 1)
    UNION ALL
    -- From one task to the next, however many tries each has.
    SELECT (
        SELECT tries.key FROM stint.tries WHERE tries.key > walk.key ORDER BY tries.key LIMIT 1
    )
    FROM walk
    WHERE walk.key IS NOT NULL
), looked AS MATERIALIZED (
    SELECT walk.key, (SELECT true FROM stint.tasks WHERE tasks.key = walk.key) AS is_there
    FROM walk
    WHERE walk.key IS NOT NULL
    LIMIT $2::integer
), gone AS (
    DELETE FROM stint.tries
    USING (
        SELECT tries.tid
        FROM looked
        CROSS JOIN LATERAL (
            SELECT tries.ctid AS tid, tries.ended_at,
                   row_number() OVER (ORDER BY tries.ended_at DESC, tries.tries DESC) AS place
            FROM stint.tries
            WHERE tries.key = looked.key
            OFFSET 0
        ) AS tries
        WHERE looked.is_there IS NULL OR tries.place > $3::integer
           OR tries.ended_at < statement_timestamp() - $4::interval
    ) AS old
    WHERE tries.ctid = old.tid
)
SELECT count(*) AS looked, max(looked.key) AS last FROM looked
