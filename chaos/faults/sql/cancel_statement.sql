-- Cancels the statement of somebody else.
SELECT pg_cancel_backend(victim.pid)
FROM (
    SELECT pid FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
    ORDER BY state IS DISTINCT FROM 'active', random() LIMIT 1
) AS victim
