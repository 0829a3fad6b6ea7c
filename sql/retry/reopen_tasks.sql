-- name: reopen_tasks
--
-- Takes finished tasks out of their ends, as if they had been inserted just now. lock_finished has
-- locked them, and insert_network gives them their new state.
--
--   $1 keys     bigint[]
--   $2 history  boolean: keep the tries that ended them
--   $3 waiting  bigint[]: the tasks, these and others, that wait for some now
WITH reopened AS (
    DELETE FROM stint.finished
    WHERE finished.lo = ANY ($1::bigint[])
    RETURNING finished.*
), remembered AS (
    -- In the form of list_tries. One whose log is kept is in the history already.
    INSERT INTO stint.tries (key, claim, owned_at, ended_at, tries, outcome, actor, status)
    SELECT reopened.lo,
           CASE WHEN reopened.claim & 32768 = 0 THEN ~reopened.claim ELSE reopened.claim END,
           reopened.owned_at, reopened.finished_at, reopened.tries,
           CASE reopened.cause
               WHEN 2 /* tries */ THEN CASE WHEN reopened.claim & 32768 = 0 THEN 4 ELSE 2 END
               WHEN 9 /* lost */ THEN CASE WHEN reopened.claim & 32768 = 0 THEN 4 ELSE 2 END
               WHEN 4 /* cancelled */ THEN 5
               ELSE reopened.cause -- of one that was owned, 0, 1 or 6
           END,
           reopened.actor, reopened.status
    FROM reopened
    WHERE $2::boolean AND reopened.actor IS NOT NULL
      AND (SELECT true
           FROM stint.tries
           WHERE tries.key = reopened.lo AND tries.claim IN (reopened.claim, ~reopened.claim)
           LIMIT 1) IS NULL
), unjoined AS (
    DELETE FROM stint.joined WHERE joined.key = ANY ($1::bigint[])
), forgiven AS (
    DELETE FROM stint.losses WHERE losses.key = ANY ($1::bigint[])
), loose AS (
    -- None that waits holds its key in strict order: it may wait for others of the key.
    DELETE FROM stint.slots
    USING (
        SELECT slot.tid, named.key
        FROM unnest($3::bigint[]) AS named (key)
        CROSS JOIN LATERAL (
            SELECT tasks.action, tasks.limit_key
            FROM stint.tasks
            WHERE tasks.key = named.key
            OFFSET 0
        ) AS task
        CROSS JOIN LATERAL (
            SELECT slots.ctid AS tid
            FROM stint.slots
            WHERE slots.action = task.action AND slots.limit_key = task.limit_key
              AND slots.key = named.key
            OFFSET 0
        ) AS slot
    ) AS held
    WHERE slots.ctid = held.tid AND slots.key = held.key
)
-- The deadlines are watched again. One that is still watched gets a new version, so that
-- scan_task_deadlines passes it over until all can see that its task has not ended.
INSERT INTO stint.deadlines (deadline, key)
SELECT tasks.deadline, tasks.key
FROM stint.tasks
WHERE tasks.key = ANY ($1::bigint[]) AND tasks.deadline IS NOT NULL
ON CONFLICT (deadline, key) DO UPDATE SET key = excluded.key
