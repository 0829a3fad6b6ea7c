-- name: hold_ownership
--
-- Locks the rows of owned tasks, so that nobody else can be given them before the transaction ends,
-- and returns key and claim of those whose key, ID and claim belong together.
--
--   $1 keys    bigint[], sorted
--   $2 claims  bigint[]
--   $3 ids     text[]
SELECT leased.key, leased.claim
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS named (key, claim, id)
CROSS JOIN LATERAL (
    SELECT leased.key, leased.claim
    FROM stint.leased
    WHERE leased.key = named.key AND leased.claim = named.claim
      AND (SELECT tasks.id FROM stint.tasks WHERE tasks.key = named.key) = named.id
    FOR NO KEY UPDATE
) AS leased
