-- name: lock_networks
--
-- Lets one transaction at a time add edges into tasks that are in the store already (R4).
SELECT FROM stint.networks WHERE networks.lock FOR UPDATE
