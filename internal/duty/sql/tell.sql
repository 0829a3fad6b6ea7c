-- name: tell
--
-- Tells the other stores what this one has done. It is only a hint, so it need not be on disk.
--
--   $1 channel  text
--   $2 news     text
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)
