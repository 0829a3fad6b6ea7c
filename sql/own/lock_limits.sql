-- name: lock_limits
--
-- Locks the limits of the actions $1 that count all tasks with an action, or all hand-outs, give
-- turns to keys or keep their order, ahead of own_limited: one hand-out at a time. It is a
-- statement of its own, since what own_limited counts must have been committed before the lock was
-- there. Actions that are paused are locked, too: they may be resumed before own_limited looks.
--
--   $1 actions  text[]
SELECT limits.action
FROM (
    SELECT DISTINCT named.action COLLATE "C" AS action
    FROM unnest($1::text[]) AS named (action)
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
