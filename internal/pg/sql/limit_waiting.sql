-- name: limit_waiting
--
-- Makes a statement of this transaction fail that waits for a lock for longer than a quarter of a
-- second: maintenance shall not stand still because of what somebody else does.
SELECT set_config('lock_timeout', '250ms', true)
