-- name: bar_claim
--
-- Keeps own_tasks from handing out anything more under claim $1, after its answer was lost. It
-- inserts a lease with this claim: that waits for an own_tasks that is about to commit, and makes
-- an own_tasks that comes later fail. The lease holds no tasks, so maintenance drops it once it has
-- expired.
--
--   $1 claim  bigint
--   $2 actor  text
INSERT INTO stint.leases (claim, actor, deadline, size, spans)
VALUES ($1::bigint, $2::text, statement_timestamp() + '1 minute'::interval, 0, '{}'::bigint[])
ON CONFLICT DO NOTHING
