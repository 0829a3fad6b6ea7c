-- name: reset
--
-- Returns to the settings that the connection was made with, as tern does between versions.
RESET ALL
