-- name: try_keep_ends
--
-- Sees to it that no finished task is opened again until the transaction ends, unless somebody is
-- about to, and tells whether it does: keep_ends for those who need not wait.
SELECT pg_try_advisory_xact_lock_shared('stint.finished'::regclass::oid::integer, 0)
