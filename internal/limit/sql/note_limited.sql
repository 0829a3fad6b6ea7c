-- name: note_limited
--
-- Returns the actions of those of the tasks that count towards limits, with what limits their keys
-- have now, and whether the end of a task leaves capacity to others: rates and turns do not depend
-- on it, but for what was spent, where they count costs. It runs ahead of return_tasks in the place
-- of unpark_within_limits, which takes five times as long, where no action is known to have limits
-- of its keys.
--
--   $1 lo      bigint[]
--   $2 hi      bigint[]: of tasks; what shares its row with others must have been split off
--   $3 claims  bigint[]: of owned tasks
SELECT limited.action, coalesce(limits.keyed, false), coalesce(limits.rates, false),
       coalesce(limits.turns, 0), coalesce(limits.keyed OR limits.counts, true)
FROM (
    SELECT DISTINCT leased.limited_action AS action
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS named (lo, hi, claim)
    CROSS JOIN LATERAL (
        SELECT leased.limited_action
        FROM stint.leased
        WHERE leased.lo BETWEEN named.lo AND named.hi AND leased.hi <= named.hi
          AND leased.claim = named.claim
        OFFSET 0
    ) AS leased
    WHERE leased.limited_action IS NOT NULL
) AS limited
LEFT JOIN LATERAL (
    SELECT limits.per_key IS NOT NULL OR limits.key_tasks IS NOT NULL OR (
               SELECT true
               FROM stint.limited_keys
               WHERE limited_keys.action = limits.action AND limited_keys.paused_at IS NOT NULL
               LIMIT 1
           ) IS NOT NULL AS keyed,
           limits.key_tasks IS NOT NULL AS rates,
           limits.fair::integer << (limits.fair_group <> '')::integer
               | (limits.by_cost::integer << 2) AS turns,
           limits.concurrency IS NOT NULL OR limits.by_cost AS counts
    FROM stint.limits
    WHERE limits.action = limited.action
    OFFSET 0
) AS limits ON true
