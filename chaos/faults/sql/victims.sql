-- Processes of the sessions of others, in random order: busy ones first.
SELECT pid FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
ORDER BY state IS DISTINCT FROM 'active', random()
