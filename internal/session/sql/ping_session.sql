-- name: ping_session
--
-- Sends a notification all the way, to see whether one would arrive.
--
--   $1 channel  text
--   $2 payload  text
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)
