-- Ends the sessions that are doing something.
SELECT count(pg_terminate_backend(pid))::integer FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND state IN ('active', 'idle in transaction')
