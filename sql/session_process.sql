-- name: session_process
--
-- The number of the server process: not the one that the connection was told, if a pooler stands in
-- between.
SELECT pg_backend_pid()
