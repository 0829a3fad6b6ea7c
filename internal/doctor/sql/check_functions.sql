-- name: check_functions
--
-- Returns of which versions the functions add_task and finish_task are, as far as they are there; 0
-- of one that does not say. Their texts begin with the version.
--
--   $1 schema  text
SELECT pg_proc.proname::text AS name,
       coalesce(substring(pg_proc.prosrc FROM '-- Version ([0-9]{1,9}) '), '0')::integer AS version
FROM pg_proc
JOIN pg_namespace ON pg_namespace.oid = pg_proc.pronamespace
WHERE pg_namespace.nspname = $1::text AND pg_proc.proname IN ('add_task', 'finish_task')
