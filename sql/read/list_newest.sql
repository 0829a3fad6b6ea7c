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
