-- name: hold_schema
--
-- Takes the lock of lock_schema until the connection ends, ahead of tern's, which all projects of
-- a database share. It waits for as long as another process migrates: lock_timeout is off until the
-- end of this statement.
SELECT pg_catalog.pg_advisory_lock(6153097412580361)
FROM pg_catalog.set_config('lock_timeout', '0', true)
