-- The table that somebody waits to have for itself.
SELECT relation::regclass::text FROM pg_locks
WHERE mode = 'AccessExclusiveLock' AND NOT granted
