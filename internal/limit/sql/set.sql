-- name: forget_limits
--
-- Deletes the rows of actions that have no limits and are not paused, nor any of their keys.
--
--   $1 actions  text[]
DELETE FROM stint.limits
WHERE limits.action = ANY ($1::text[]) AND limits.paused_at IS NULL AND NOT limits.fair
  AND num_nonnulls(limits.concurrency, limits.per_key, limits.rate_tasks, limits.key_tasks) = 0
  AND (SELECT true
       FROM stint.limited_keys
       WHERE limited_keys.action = limits.action AND limited_keys.paused_at IS NOT NULL
       LIMIT 1) IS NULL

-- name: forget_turns
--
-- Drops the turns of an action that is not fair any more.
--
--   $1 action  text
DELETE FROM stint.turns
WHERE turns.action = $1::text
  AND (SELECT limits.fair FROM stint.limits WHERE limits.action = $1::text) IS NOT TRUE

-- name: forget_spent
--
-- Drops what performances of an action have spent, if its limits do not count costs any more.
--
--   $1 action  text
DELETE FROM stint.spent
WHERE spent.action = $1::text
  AND (SELECT limits.by_cost FROM stint.limits WHERE limits.action = $1::text) IS NOT TRUE

-- name: leased_writers
--
-- Returns which of the transactions $1 still run, or, if $1 is null, those that fetch, take back
-- or change tasks in progress at this moment, or are about to fetch tasks under limits.
--
--   $1 transactions  text[]
--
-- A statement locks its tables before it takes its snapshot. So one that does not see what was
-- committed before this statement began is in a transaction that holds its lock now. lock_limits
-- takes such a lock, too: where it found no limits to lock, the fetch behind it may meet some
-- that it does not count under.
SELECT DISTINCT pg_locks.virtualtransaction
FROM pg_locks
WHERE pg_locks.locktype = 'relation'
  AND (pg_locks.relation = 'stint.leased'::regclass AND pg_locks.mode = 'RowExclusiveLock'
       OR pg_locks.relation = 'stint.limits'::regclass AND pg_locks.mode = 'RowShareLock')
  AND pg_locks.database = (
      SELECT pg_database.oid FROM pg_database WHERE pg_database.datname = current_database())
  AND pg_locks.granted
  AND pg_locks.pid IS DISTINCT FROM pg_backend_pid()
  AND ($1::text[] IS NULL OR pg_locks.virtualtransaction = ANY ($1::text[]))

-- name: limits_now
--
-- Returns the limits of an action; nothing if it has none and is not paused.
--
--   $1 action  text
SELECT limits.concurrency, limits.per_key, limits.rate_tasks, limits.rate_per, limits.rate_burst,
       limits.key_tasks, limits.key_per, limits.key_burst, limits.fair, limits.ordered,
       limits.fair_group, limits.by_cost
FROM stint.limits
WHERE limits.action = $1::text

-- name: lower_supported
--
-- Lets releases start that do not know of limits, if there are none and nothing is paused. It does
-- not if the schema works with later releases only for another reason.
UPDATE stint.supported
SET since = 1
WHERE supported.since = 2 AND NOT EXISTS (SELECT FROM stint.limits WHERE limits.action > '')

-- name: older_sessions
--
-- Counts the sessions of stores that do not know of limits: of releases before version 2 of the
-- schema. One that is gone counts as long as it may come back.
SELECT count(*)
FROM stint.sessions
WHERE sessions.schema_version < 2
  AND coalesce(sessions.gone_at + sessions.grace > statement_timestamp(), true)

-- name: raise_supported
--
-- Makes releases refuse to start that do not know of limits.
UPDATE stint.supported
SET since = 2
WHERE supported.since < 2
