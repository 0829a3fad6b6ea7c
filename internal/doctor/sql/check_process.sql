-- name: check_process
--
-- The process that serves this transaction. Behind a pooler it is not the one that the client was
-- told of when it connected, and not always the same.
SELECT pg_catalog.pg_backend_pid()
