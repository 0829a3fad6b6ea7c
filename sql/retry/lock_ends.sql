-- name: lock_ends
--
-- Lets one transaction at a time open finished tasks again, and waits for those that count on an
-- end (keep_ends). Returns whether the transaction is stricter than READ COMMITTED: it would
-- overlook what they did.
--
-- It is an advisory lock, since a role that may insert tasks may not change finished ones, and so
-- cannot lock their rows either.
SELECT current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
FROM pg_advisory_xact_lock('stint.finished'::regclass::oid::integer, 0)
