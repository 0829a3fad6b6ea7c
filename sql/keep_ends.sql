-- name: keep_ends
--
-- Sees to it that no finished task is opened again until the transaction ends (lock_ends). Shared:
-- those who count on the end of a task do not wait for one another.
SELECT pg_advisory_xact_lock_shared('stint.finished'::regclass::oid::integer, 0)
