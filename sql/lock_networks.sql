-- name: lock_networks
--
-- Lets one transaction at a time add edges into tasks that are in the store already (R4).
--
-- An update, so that a transaction that is stricter than READ COMMITTED, and does not see the edges
-- of the one before, fails.
UPDATE stint.networks SET lock = true WHERE networks.lock
