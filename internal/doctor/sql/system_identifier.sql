-- name: system_identifier
--
-- A number that the server was given when it was made, and that its standbys share; nobody learns
-- it who does not reach the database.
SELECT control.system_identifier
FROM pg_catalog.pg_control_system() AS control
