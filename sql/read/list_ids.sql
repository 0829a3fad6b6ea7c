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
