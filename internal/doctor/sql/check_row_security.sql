-- name: check_row_security
--
-- Returns the tables with row level security, whether it applies to this role, and whether it
-- applies to the owner, whatever its policies.
--
--   $1 schema  text
SELECT pg_class.relname::text AS name, row_security_active(pg_class.oid) AS active,
       pg_class.relforcerowsecurity AS forced
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_namespace.nspname = $1::text AND pg_class.relrowsecurity
ORDER BY pg_class.relname
