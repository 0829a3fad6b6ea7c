-- name: make_due
--
-- Makes the tasks with IDs $1 forget their NotBefore or the pause before their next try. Returns
-- the IDs of those that were scheduled, or are blocked and would have been.
--
--   $1 ids  text[]
WITH named AS MATERIALIZED (
    SELECT tasks.key, tasks.id
    FROM stint.tasks
    WHERE tasks.id = ANY ($1::text[])
), scheduled AS (
    UPDATE stint.scheduled
    SET not_before = least(scheduled.not_before, statement_timestamp())
    FROM named
    WHERE scheduled.key = named.key
    RETURNING named.id
), blocked AS (
    UPDATE stint.blocked
    SET not_before = NULL
    FROM named
    WHERE blocked.key = named.key AND blocked.not_before IS NOT NULL
    RETURNING named.id
)
SELECT scheduled.id FROM scheduled
UNION ALL
SELECT blocked.id FROM blocked
