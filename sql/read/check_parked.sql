-- name: check_parked
--
-- Returns keys of which tasks are parked though nothing holds them up, with one of the tasks, in
-- the form of check_store. There may be some for a short time, when a process has died between two
-- transactions: maintainers bring them back.
--
--   $1 rows  integer: how many to return at most
--
-- Only keys are looked at of which no task is in progress or about to be fetched, or holds its
-- key in strict order, and which are not paused and have a full bucket, so that there must be
-- capacity. It reads whole tables, so it runs with the planner's own choice of plans.
WITH parked AS MATERIALIZED (
    SELECT ready.action, ready.limit_key,
           min(ready.lo) FILTER (WHERE ready.position < 0) AS key
    FROM stint.ready
    WHERE ready.limit_key IS NOT NULL
    GROUP BY ready.action, ready.limit_key
    HAVING bool_and(ready.position < 0)
), held AS MATERIALIZED (
    SELECT DISTINCT slots.action, slots.limit_key
    FROM stint.slots
    JOIN (
        SELECT span.key, leased.claim
        FROM stint.leased
        CROSS JOIN LATERAL generate_series(leased.lo, leased.hi) AS span (key)
    ) AS owned ON owned.key = slots.key AND owned.claim = slots.claim
    UNION
    SELECT holders.action, holders.limit_key FROM stint.holders
), turn AS (
    SELECT DISTINCT turns.action, turns.limit_key FROM stint.turns
)
SELECT CASE WHEN limits.action IS NULL THEN 'only tasks of actions with limits are parked'
            WHEN limits.fair THEN 'a key whose tasks are parked has a turn'
            ELSE 'a task is parked for want of capacity'
       END AS rule,
       parked.key, tasks.id, format('key "%s" of %s', parked.limit_key, parked.action) AS found
FROM parked
LEFT JOIN stint.tasks ON tasks.key = parked.key
LEFT JOIN stint.limits ON limits.action = parked.action
LEFT JOIN held ON held.action = parked.action AND held.limit_key = parked.limit_key
LEFT JOIN turn ON turn.action = parked.action AND turn.limit_key = parked.limit_key
LEFT JOIN stint.limited_keys
       ON limited_keys.action = parked.action AND limited_keys.limit_key = parked.limit_key
LEFT JOIN stint.key_rates
       ON key_rates.action = parked.action AND key_rates.limit_key = parked.limit_key
WHERE held.action IS NULL AND limited_keys.paused_at IS NULL
  AND (key_rates.full_at IS NULL OR key_rates.full_at <= statement_timestamp())
  AND (limits.fair IS NOT TRUE OR turn.action IS NULL)
LIMIT $1::integer
