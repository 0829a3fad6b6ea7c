-- Ends the session of somebody else.
SELECT pg_terminate_backend(victim.pid)
FROM (
    SELECT pid FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
    ORDER BY random() LIMIT 1
) AS victim
