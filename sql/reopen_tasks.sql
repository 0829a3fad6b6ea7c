-- name: reopen_tasks
--
-- Takes finished tasks out of their ends, as if they had been inserted just now. lock_finished has
-- locked them, and insert_network gives them their new state.
--
--   $1 keys  bigint[]
WITH reopened AS (
    DELETE FROM stint.finished WHERE finished.lo = ANY ($1::bigint[])
), unjoined AS (
    DELETE FROM stint.joined WHERE joined.key = ANY ($1::bigint[])
)
-- The deadlines are watched again. One that is still watched gets a new version, so that
-- forget_deadlines passes it over until all can see that its task has not ended.
INSERT INTO stint.deadlines (deadline, key)
SELECT tasks.deadline, tasks.key
FROM stint.tasks
WHERE tasks.key = ANY ($1::bigint[]) AND tasks.deadline IS NOT NULL
ON CONFLICT (deadline, key) DO UPDATE SET key = excluded.key
