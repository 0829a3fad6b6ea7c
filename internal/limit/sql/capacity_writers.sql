-- name: capacity_writers
--
-- Returns which of the transactions $1 still run or, if $1 is null, those that may free capacity at
-- this moment, but not for what others have parked since: that fetch, take back or change tasks
-- in progress, or are in unpark_within_limits, which locks turns and may wait, ahead of that.
--
--   $1 transactions  text[]
--
-- A statement locks its tables before it takes its snapshot. So one that does not see what was
-- committed before this statement began is in a transaction that holds its lock now.
SELECT DISTINCT pg_locks.virtualtransaction
FROM pg_locks
WHERE pg_locks.locktype = 'relation'
  AND pg_locks.relation IN ('stint.leased'::regclass, 'stint.turns'::regclass)
  AND pg_locks.mode = 'RowExclusiveLock'
  AND pg_locks.database = (
      SELECT pg_database.oid FROM pg_database WHERE pg_database.datname = current_database())
  AND pg_locks.granted
  AND pg_locks.pid IS DISTINCT FROM pg_backend_pid()
  AND ($1::text[] IS NULL OR pg_locks.virtualtransaction = ANY ($1::text[]))
