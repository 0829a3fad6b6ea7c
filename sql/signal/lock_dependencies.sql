-- name: lock_dependencies
--
-- Lets one transaction at a time add edges into tasks that are in the store already (R4).
--
-- It is an update, so that a transaction that is stricter than READ COMMITTED fails: it does not
-- see the edges of the transaction before.
UPDATE stint.dependency_lock SET lock = true WHERE dependency_lock.lock
