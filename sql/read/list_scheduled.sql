-- name: list_scheduled
--
-- Returns the first $3 scheduled tasks behind the place $1, $2, in the order in which they are due,
-- in the form of list_ids.
--
--   $1 not_before  timestamptz
--   $2 key         bigint
--   $3 tasks       integer
SELECT scheduled.key, scheduled.not_before AS at, NULL::bigint AS rank, NULL::text AS id
FROM stint.scheduled
WHERE (scheduled.not_before, scheduled.key + 0)
      OPERATOR(pg_catalog.>) ($1::timestamptz, $2::bigint)
ORDER BY scheduled.not_before, scheduled.key + 0
LIMIT $3::integer
