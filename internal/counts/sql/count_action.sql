-- name: count_action
--
-- Counts the ready tasks with an action in up to $2 spans, and returns whether there are more.
--
--   $1 action  text
--   $2 spans   integer
SELECT coalesce(sum(head.hi - head.lo + 1), 0)::bigint AS tasks, count(*) > $2::integer AS more
FROM (
    SELECT ready.lo, ready.hi
    FROM stint.ready
    WHERE ready.action = $1::text
    ORDER BY ready.action, ready.rank, ready.hi
    LIMIT $2::integer + 1
) AS head
