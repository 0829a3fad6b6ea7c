-- name: claim_spent
--
-- Returns a row if claim $1 is spent. It follows remember_claim, which waits for a spend_claim that
-- is about to commit.
--
--   $1 claim  bigint
SELECT true
FROM stint.leases
WHERE leases.claim = $1::bigint AND leases.part = -1 AND leases.size < 0

-- name: claim_taken
--
-- Returns a row if claim $1 is known: tasks were fetched under it, or it was barred. own_tasks
-- then fetches nothing, as if there were no tasks; this follows it, and so sees what another call
-- has committed meanwhile.
--
--   $1 claim  bigint
SELECT true
FROM stint.leases
WHERE leases.claim = $1::bigint
LIMIT 1

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

-- name: remember_claim
--
-- Keeps claim $1 known for ten minutes, if tasks were fetched under it, whatever becomes of
-- them. Without it a claim is forgotten with its last task, and a call that something on the way
-- has kept, and delivers after its repetition, would fetch tasks that nobody knows of. A
-- repeated call makes it behind bar_claim, in the place of own_tasks.
--
-- The row is a part of the claim's lease that holds no tasks. Its number keeps it apart from the
-- parts that hold some, which are deleted as they become empty; maintenance drops it once it has
-- expired. It is -1 if the caller has repeated the call, who is then responsible for the tasks, and
-- -2 if only the call itself has. Where spend_claim has made it, it is -1, and size is less than 0.
--
--   $1 claim  bigint
--   $2 part   integer
INSERT INTO stint.leases (claim, part, actor, deadline, size, spans)
SELECT lease.claim, $2::integer, lease.actor, statement_timestamp() + '10 minutes'::interval, 0,
       '{}'::bigint[]
FROM (
    SELECT leases.claim, leases.actor
    FROM stint.leases
    WHERE leases.claim = $1::bigint
    ORDER BY leases.claim, leases.part
    LIMIT 1
) AS lease
ON CONFLICT DO NOTHING
