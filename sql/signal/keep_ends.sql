-- name: keep_ends
--
-- Keeps finished tasks from being opened again until the transaction ends (lock_ends), if one of
-- the tasks has finished. Returns a row if it does so.
--
--   $1 keys  bigint[]
--
-- It runs ahead of the statements that lock tasks, as lock_ends does, lest the two deadlock.
WITH ended AS MATERIALIZED (
    SELECT true AS found
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        -- include span_of_key: table=finished; key=named.key; columns=finished.hi
    ) AS span
    WHERE span.hi >= named.key
    LIMIT 1
)
-- The lock is shared: those who count on the end of a task do not wait for one another.
SELECT pg_advisory_xact_lock_shared('stint.finished'::regclass::oid::integer, 0)::text
FROM ended
UNION ALL
-- A transaction that is stricter than READ COMMITTED may have seen ends that were taken back since.
-- Whoever takes one back updates the row of dependency_lock (lock_dependencies). Such a transaction
-- asks for this row, too, and so fails.
SELECT seen.lock::text
FROM (
    SELECT dependency_lock.lock
    FROM stint.dependency_lock
    WHERE dependency_lock.lock AND (SELECT ended.found FROM ended)
      AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
    FOR SHARE
) AS seen
