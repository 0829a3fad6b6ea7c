-- name: check_server
--
-- Returns what the server is, and how many of its connections are taken.
SELECT current_setting('server_version_num')::integer AS version,
       current_setting('server_version') AS version_text,
       pg_is_in_recovery() AS standby,
       -- Everybody sees the counts of pg_stat_database, but not the rows of pg_stat_activity.
       (SELECT sum(numbackends) FROM pg_stat_database)::bigint AS connections,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
       current_user::text AS role
