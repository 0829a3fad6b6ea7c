-- name: lock_session
--
-- Holds the lock that shows that session $1 lives, for as long as the connection lives. The lock is
-- shared, so that a new connection need not wait until the server has noticed the end of the one
-- before. Who looks whether the session lives tries to hold the lock alone.
--
--   $1 session  bigint
SELECT pg_advisory_lock_shared($1::bigint)
