-- name: check_process
--
-- Returns the number of the process that serves this transaction. Behind a pooler it is not the one
-- that the client was told when it connected, and not always the same.
SELECT pg_catalog.pg_backend_pid()
