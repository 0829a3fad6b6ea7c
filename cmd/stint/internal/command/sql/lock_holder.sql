-- name: lock_holder
--
-- Returns the process with the oldest transaction of those that whoever migrates waits for, its
-- name, and how long that transaction has been open, unless that is a second or less, as in daily
-- work. Who may not see the process gets its number only; 0 is a prepared transaction, which has no
-- process. Whoever migrates holds the lock of migrations/hold_schema.sql.
SELECT holder.pid, coalesce(nullif(activity.application_name, ''), activity.backend_type),
       statement_timestamp() - activity.xact_start
FROM pg_locks AS migrating
CROSS JOIN unnest(pg_blocking_pids(migrating.pid)) AS holder (pid)
LEFT JOIN pg_stat_activity AS activity ON activity.pid = holder.pid
WHERE migrating.locktype = 'advisory'
  AND migrating.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND migrating.classid::bigint << 32 | migrating.objid::bigint = 6153097412580361
  AND migrating.objsubid = 1
  AND migrating.granted
  AND (activity.xact_start IS NULL
       OR activity.xact_start < statement_timestamp() - interval '1 s')
ORDER BY activity.xact_start, holder.pid
LIMIT 1
