-- name: remember_claim
--
-- Keeps claim $1 known for ten minutes, if tasks were handed out under it, whatever becomes of
-- them. Without it a claim is forgotten with its last task, and a call that something on the way
-- has kept, and delivers after its repetition, would hand out tasks that nobody knows of. So it
-- follows own_tasks where the caller has made the call before.
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
