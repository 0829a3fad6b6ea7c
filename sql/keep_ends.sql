-- name: keep_ends
--
-- Sees to it that no finished task is opened again until the transaction ends (lock_ends). Shared:
-- those who count on the end of a task do not wait for one another.
--
-- A transaction that is stricter than READ COMMITTED may have seen ends that were taken back since.
-- Whoever does that updates the row of networks (lock_networks), so asking for that row, too, makes
-- such a transaction fail.
SELECT pg_advisory_xact_lock_shared('stint.finished'::regclass::oid::integer, 0)::text
UNION ALL
SELECT seen.lock::text
FROM (
    SELECT networks.lock
    FROM stint.networks
    WHERE networks.lock
      AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
    FOR SHARE
) AS seen
