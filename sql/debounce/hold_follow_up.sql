-- name: hold_follow_up
--
-- If one of two tasks is in progress and the other one waits for it, locks the other, so that it
-- stays blocked until the transaction ends. Returns its key, ID and time of insertion, and the time
-- of this call; otherwise no row.
--
--   $1 id     text
--   $2 other  text
SELECT follower.key, follower.id, least(follower.inserted_at, statement_timestamp()) AS inserted_at,
       statement_timestamp() AS now
FROM (VALUES ($1::text, $2::text), ($2::text, $1::text)) AS pair (ahead, behind)
CROSS JOIN LATERAL (
    SELECT tasks.key FROM stint.tasks WHERE tasks.id = pair.ahead OFFSET 0
) AS running
CROSS JOIN LATERAL (
    -- include span_of_key: table=leased; key=running.key; columns=leased.hi
) AS span
CROSS JOIN LATERAL (
    SELECT tasks.key, tasks.id, tasks.inserted_at
    FROM stint.tasks
    WHERE tasks.id = pair.behind
    OFFSET 0
) AS follower
CROSS JOIN LATERAL (
    SELECT edges.run
    FROM stint.edges
    WHERE edges.after = running.key AND -edges.run = -follower.key
    OFFSET 0
) AS edge
CROSS JOIN LATERAL (
    -- The owner of the running task may return it meanwhile: it waits for this lock before it
    -- settles what that means for the follower, and then sees the new definition.
    SELECT blocked.key FROM stint.blocked WHERE blocked.key = follower.key FOR UPDATE
) AS waiting
WHERE span.hi >= running.key
