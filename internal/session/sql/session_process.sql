-- name: session_process
--
-- Returns the number of the server process. It is not the one that the connection was told if a
-- pooler stands in between.
SELECT pg_backend_pid()
