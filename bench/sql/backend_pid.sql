-- The process of this session, whose parent has all the others of the server.
SELECT pg_backend_pid()
