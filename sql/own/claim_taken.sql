-- name: claim_taken
--
-- Returns a row if claim $1 is known: tasks were handed out under it, or it was barred. own_tasks
-- then hands out nothing, as if there were no tasks; this follows it, and so sees what another call
-- has committed meanwhile.
--
--   $1 claim  bigint
SELECT true
FROM stint.leases
WHERE leases.claim = $1::bigint
LIMIT 1
