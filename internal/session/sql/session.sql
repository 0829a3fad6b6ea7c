-- name: lock_session
--
-- Holds the lock that shows that session $1 lives, for as long as the connection lives. The lock is
-- shared, so that a new connection need not wait until the server has noticed the end of the one
-- before. Who looks whether the session lives tries to hold the lock alone.
--
--   $1 session  bigint
SELECT pg_advisory_lock_shared($1::bigint)

-- name: ping_session
--
-- Sends a notification all the way, to see whether one would arrive.
--
--   $1 channel  text
--   $2 payload  text
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)

-- name: prepare_session
--
-- Keeps the server from ending the session for being idle, and makes it notice within seconds that
-- the host at the other end is gone. The connection is the store's own, so the search path, which
-- is that of set_path, and the settings of read_texts are set for as long as the connection lives:
-- notifications come outside of transactions.
SELECT set_config('search_path', 'pg_catalog, pg_temp', false),
       set_config('client_encoding', 'UTF8', false),
       set_config('standard_conforming_strings', 'on', false),
       set_config('idle_session_timeout', '0', false),
       set_config('tcp_keepalives_idle', '2', false),
       set_config('tcp_keepalives_interval', '1', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('tcp_user_timeout', '5000', false)

-- name: session_process
--
-- Returns the number of the server process. It is not the one that the connection was told if a
-- pooler stands in between.
SELECT pg_backend_pid()
