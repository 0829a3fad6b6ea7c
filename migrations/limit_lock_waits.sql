-- name: limit_lock_waits
--
-- Goes ahead of the statements of a version, to the end of the transaction. Whoever asks for a
-- table that the migrator waits for waits behind it, so it gives up and asks again later, as long
-- as others hold a lock. It waits for longer than deadlock_timeout, 1 s by default: that is when
-- autovacuum makes way, and when the migrator finds that it stands in others' way for good.
SELECT pg_catalog.set_config('lock_timeout', '1200ms', true)
