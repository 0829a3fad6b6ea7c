-- name: postpone_blocked
--
-- Sets the time before which a blocked task does not start once it no longer waits.
--
--   $1 key         bigint
--   $2 not_before  timestamptz
UPDATE stint.blocked SET not_before = $2::timestamptz WHERE blocked.key = $1::bigint
