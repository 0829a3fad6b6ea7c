-- name: leased_writers
--
-- Returns which of the transactions $1 still run, or, if $1 is null, those that hand out, take back
-- or change tasks in progress at this moment, or are about to hand out tasks under limits.
--
--   $1 transactions  text[]
--
-- A statement locks its tables before it takes its snapshot. So one that does not see what was
-- committed before this statement began is in a transaction that holds its lock now. lock_limits
-- takes such a lock, too: where it found no limits to lock, the hand-out behind it may meet some
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
