-- name: list_unwatched
--
-- Returns up to $1 tasks in progress of owners whose process nobody watches, in the form of
-- list_tasks, those first whose leases expire last: the owner is not registered, or no longer, or
-- its session is gone.
--
--   $1 tasks  integer
WITH watched AS MATERIALIZED (
    SELECT actors.session, actors.actor
    -- include attended_actors
), chosen AS MATERIALIZED (
    SELECT span.key, row_number() OVER (ORDER BY lease.deadline DESC, span.key) AS place
    FROM (
        -- Leases are read from end to end, as in list_problems.
        SELECT leases.claim, leases.part, leases.deadline, leases.spans
        FROM stint.leases
        WHERE NOT EXISTS (SELECT FROM watched
                          WHERE watched.session = leases.session
                            AND watched.actor = leases.actor)
        ORDER BY leases.deadline DESC, leases.claim, leases.part
    ) AS lease
    -- include keys_of_lease
    ORDER BY place
    LIMIT $1::integer
)
SELECT
       -- include task_columns: body=NULL::bytea; status=task.status; result=NULL::bytea
FROM chosen
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.key = chosen.key OFFSET 0
) AS task
ORDER BY chosen.place
