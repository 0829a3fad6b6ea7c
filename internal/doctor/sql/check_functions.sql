-- name: check_functions
--
-- Returns of which version the function add_task is, if it is there; 0 if it does not say. Its text
-- begins with the version.
--
--   $1 schema  text
SELECT coalesce(substring(pg_proc.prosrc FROM '-- Version ([0-9]{1,9}) '), '0')::integer
FROM pg_proc
JOIN pg_namespace ON pg_namespace.oid = pg_proc.pronamespace
WHERE pg_namespace.nspname = $1::text AND pg_proc.proname = 'add_task'
