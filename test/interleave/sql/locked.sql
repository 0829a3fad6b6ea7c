-- name: locked
--
-- Returns the tables of which a session has locked or changed rows in its transaction, and whether
-- it has begun to write at all. A row that is locked has the transaction for its xmax.
--
--   $1 session  integer
WITH writer AS MATERIALIZED (
    SELECT backend_xid AS xid FROM pg_stat_activity WHERE pid = $1::integer
)
SELECT '(written)' AS name FROM writer WHERE xid IS NOT NULL
UNION ALL
SELECT '(advisory)' FROM pg_locks
WHERE locktype = 'advisory' AND pid = $1::integer AND mode = 'ExclusiveLock'
UNION ALL
SELECT '(shared)' FROM pg_locks
WHERE locktype = 'advisory' AND pid = $1::integer AND mode = 'ShareLock'
UNION ALL
SELECT DISTINCT name
FROM (
    SELECT 'tasks' AS name, xmax FROM stint.tasks
    UNION ALL SELECT 'ready', xmax FROM stint.ready
    UNION ALL SELECT 'scheduled', xmax FROM stint.scheduled
    UNION ALL SELECT 'blocked', xmax FROM stint.blocked
    UNION ALL SELECT 'leased', xmax FROM stint.leased
    UNION ALL SELECT 'leases', xmax FROM stint.leases
    UNION ALL SELECT 'finished', xmax FROM stint.finished
    UNION ALL SELECT 'deadlines', xmax FROM stint.deadlines
    UNION ALL SELECT 'edges', xmax FROM stint.edges
    UNION ALL SELECT 'joined', xmax FROM stint.joined
    UNION ALL SELECT 'dependency_lock', xmax FROM stint.dependency_lock
    UNION ALL SELECT 'action_stats', xmax FROM stint.action_stats
    UNION ALL SELECT 'limits', xmax FROM stint.limits
    UNION ALL SELECT 'limited_keys', xmax FROM stint.limited_keys
    UNION ALL SELECT 'slots', xmax FROM stint.slots
    UNION ALL SELECT 'key_rates', xmax FROM stint.key_rates
    UNION ALL SELECT 'turns', xmax FROM stint.turns
    UNION ALL SELECT 'spent', xmax FROM stint.spent
    UNION ALL SELECT 'schedules', xmax FROM stint.schedules
    UNION ALL SELECT 'steps', xmax FROM stint.steps
    UNION ALL SELECT 'answer_keys', xmax FROM stint.answer_keys
    UNION ALL SELECT 'fail_fast', xmax FROM stint.fail_fast
    UNION ALL SELECT 'tries', xmax FROM stint.tries
    UNION ALL SELECT 'losses', xmax FROM stint.losses
) AS locked
WHERE xmax = (SELECT xid FROM writer)
