-- name: lock_ends
--
-- Lets one transaction at a time open finished tasks again, and waits for those that count on an end
-- (keep_ends).
--
-- An advisory lock, since whoever may insert tasks may not change finished ones, and so cannot lock
-- their rows either.
SELECT pg_advisory_xact_lock('stint.finished'::regclass::oid::integer, 0)
