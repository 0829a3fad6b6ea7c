-- name: check_overrides
--
-- Returns the other roles whose commits do not wait for the disk in this database, by a setting of
-- their own.
SELECT coalesce(pg_roles.rolname::text, 'every role') AS role
FROM pg_db_role_setting AS override
LEFT JOIN pg_roles ON pg_roles.oid = override.setrole
WHERE override.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
  AND 'synchronous_commit=off' = ANY (override.setconfig)
  AND pg_roles.rolname IS DISTINCT FROM current_user
ORDER BY role
