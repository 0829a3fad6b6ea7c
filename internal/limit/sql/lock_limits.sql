-- name: lock_limits
-- variants: lock_shared
--
-- Locks the limits of the actions $1 that count all tasks with an action, or all fetches, give
-- turns to keys or keep their order, ahead of own_limited: one fetch at a time. It is a
-- statement of its own, since what own_limited counts must have been committed before the lock was
-- there. Actions that are paused are locked, too: they may be resumed before own_limited looks.
--
--   $1 actions  text[]
--
-- lock_shared also locks all actions that share turns with them: their keys have one account.
SELECT limits.action
FROM (
    SELECT DISTINCT named.action COLLATE "C" AS action
    FROM unnest($1::text[]) AS named (action)
    -- in lock_shared: UNION
    -- in lock_shared: SELECT member.action
    -- in lock_shared: FROM unnest($1::text[]) AS named (action)
    -- in lock_shared: CROSS JOIN LATERAL (
    -- in lock_shared:     SELECT limits.fair_group FROM stint.limits
    -- in lock_shared:     WHERE limits.action = named.action AND length(limits.fair_group) > 0
    -- in lock_shared:     OFFSET 0
    -- in lock_shared: ) AS shared
    -- in lock_shared: CROSS JOIN LATERAL (
    -- in lock_shared:     SELECT limits.action FROM stint.limits
    -- in lock_shared:     WHERE limits.fair_group = shared.fair_group AND limits.fair_group <> ''
    -- in lock_shared:     OFFSET 0
    -- in lock_shared: ) AS member
    ORDER BY 1 -- as whoever sets limits of several does, so that nobody deadlocks
) AS named
CROSS JOIN LATERAL (
    SELECT limits.action
    FROM stint.limits
    WHERE limits.action = named.action
      AND (limits.concurrency IS NOT NULL OR limits.rate_tasks IS NOT NULL OR limits.fair
           OR limits.ordered)
    OFFSET 0
) AS limited
CROSS JOIN LATERAL (
    SELECT limits.action FROM stint.limits WHERE limits.action = limited.action FOR UPDATE
) AS limits
