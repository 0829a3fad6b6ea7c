-- name: waits
--
-- Says whether a session waits for a lock of another one.
--
--   $1 waiting  integer
--   $2 holding  integer
SELECT $2::integer = ANY (pg_blocking_pids($1::integer))
