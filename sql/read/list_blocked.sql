-- name: list_blocked
--
-- Returns the first $2 blocked tasks behind $1, by key, in the form of list_ids.
--
--   $1 key    bigint
--   $2 tasks  integer
SELECT blocked.key, NULL::timestamptz AS at, NULL::bigint AS rank, NULL::text AS id
FROM stint.blocked
WHERE blocked.key > $1::bigint
ORDER BY blocked.key
LIMIT $2::integer
