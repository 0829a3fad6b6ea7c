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

-- name: list_ids
--
-- Returns the first $4 tasks in the order of their IDs: key, no time, no rank, and the ID, which is
-- the place that the next scan begins behind.
--
--   $1 from    text: the least ID
--   $2 before  text: the ID that the answer ends before, or null
--   $3 after   text: the ID that the answer begins behind
--   $4 tasks   integer
SELECT tasks.key, NULL::timestamptz AS at, NULL::bigint AS rank, tasks.id
FROM stint.tasks
WHERE tasks.id >= $1::text
  AND tasks.id > $3::text
  AND tasks.id < coalesce($2::text, repeat(chr(1114111), 129)) -- behind all IDs
ORDER BY tasks.id
LIMIT $4::integer

-- name: list_newest
--
-- Returns the last $2 tasks before $1, by key, the greatest first, in the form of list_ids. Keys
-- are given out in the order of time, to within a minute.
--
--   $1 key    bigint
--   $2 tasks  integer
SELECT tasks.key, NULL::timestamptz AS at, NULL::bigint AS rank, NULL::text AS id
FROM stint.tasks
WHERE tasks.key < $1::bigint
ORDER BY tasks.key DESC
LIMIT $2::integer

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
