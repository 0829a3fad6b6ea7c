-- name: lock_holder
--
-- Returns the process with the oldest transaction of those that process $1 waits for, its name, and
-- how long that transaction has been open, unless that is a second or less, as in daily work. Who
-- may not see the process gets its number only; 0 is a prepared transaction, which has no process.
--
--   $1 pid  integer
SELECT holder.pid, coalesce(nullif(activity.application_name, ''), activity.backend_type),
       statement_timestamp() - activity.xact_start
FROM unnest(pg_blocking_pids($1::integer)) AS holder (pid)
LEFT JOIN pg_stat_activity AS activity ON activity.pid = holder.pid
WHERE activity.xact_start IS NULL
   OR activity.xact_start < statement_timestamp() - interval '1 s'
ORDER BY activity.xact_start, holder.pid
LIMIT 1
