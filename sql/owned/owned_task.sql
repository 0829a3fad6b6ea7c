-- name: owned_task
--
-- Returns key and claim of a task if it is owned with that claim.
--
--   $1 key    bigint
--   $2 claim  bigint
SELECT $1::bigint, span.claim
FROM (
    SELECT leased.hi, leased.claim
    FROM stint.leased
    WHERE leased.lo BETWEEN $1::bigint >> 10 << 10 AND $1::bigint
    ORDER BY leased.lo DESC
    LIMIT 1
) AS span
WHERE span.hi >= $1::bigint AND span.claim = $2::bigint
