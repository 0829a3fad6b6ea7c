-- Ends the connections that have the name $1, as the death of their process does.
SELECT count(pg_terminate_backend(pid))::integer FROM pg_stat_activity
 WHERE application_name = $1 AND datname = current_database()
