-- name: claim_taken
--
-- Returns a row if tasks were handed out under claim $1. It runs ahead of own_tasks where a caller
-- repeats a hand-out whose answer was lost: own_tasks fails on a claim that is taken, but not if it
-- finds no tasks.
--
--   $1 claim  bigint
SELECT true
FROM stint.leases
WHERE leases.claim = $1::bigint
LIMIT 1
