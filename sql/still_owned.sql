-- name: still_owned
--
-- Which of the performances are still good: the task is owned with that claim, or its lease expired
-- and nobody was given it since (R8).
--
--   $1 keys    bigint[]
--   $2 claims  bigint[]
SELECT named.key, named.claim
FROM unnest($1::bigint[], $2::bigint[]) AS named (key, claim)
WHERE (SELECT leased.claim FROM stint.leased WHERE leased.key = named.key) = named.claim
   OR (SELECT ready.claim
       FROM stint.ready
       WHERE ready.lo = named.key AND ready.late) = named.claim
