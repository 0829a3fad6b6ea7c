-- name: lock_dependencies
--
-- Lets one transaction at a time add edges into tasks that are in the store already (R4).
--
-- An update, so that a transaction that is stricter than READ COMMITTED, and does not see the edges
-- of the one before, fails.
UPDATE stint.dependency_lock SET lock = true WHERE dependency_lock.lock
