-- name: identity
--
-- Who a session acts as: the migrating connection acts as the caller's does, so that the tables
-- get the same owner after SET ROLE.
SELECT session_user::pg_catalog.text, pg_catalog.current_setting('role')
