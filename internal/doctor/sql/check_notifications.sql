-- name: check_notifications
--
-- Returns how much of the server's queue of notifications is in use, and the transactions that have
-- been open for longest, in any of its databases: a session that listens and stays in a transaction
-- keeps what was sent since in the queue. The server does not say who listens. A role sees no more
-- of the sessions of others than that they are there, unless it may read all statistics.
SELECT pg_notification_queue_usage() AS used,
       ARRAY(SELECT format('process %s of %s in database %s, open for %s s', activity.pid,
                           activity.usename, activity.datname,
                           extract(epoch FROM statement_timestamp() - activity.xact_start)::bigint)
             FROM pg_stat_activity AS activity
             WHERE activity.pid <> pg_backend_pid()
               AND activity.backend_type = 'client backend'
               AND activity.xact_start IS NOT NULL
             ORDER BY activity.xact_start
             LIMIT 3) AS oldest
