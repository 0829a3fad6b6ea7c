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

-- name: lock_finished
--
-- Keeps finished tasks in the store until the transaction ends. Returns the keys of those that it
-- has locked: some may have been pruned.
--
--   $1 keys  bigint[]; the tasks must have been split off their spans
SELECT finished.lo
FROM stint.finished
WHERE finished.lo = ANY ($1::bigint[]) AND finished.hi = finished.lo
ORDER BY finished.lo
FOR UPDATE

-- name: take_back_signals
--
-- Lowers the numbers of completed and aborted tasks that blocked tasks were told of, by those of
-- predecessors that are opened again.
--
--   $1 keys       bigint[], each once
--   $2 completed  integer[]
--   $3 aborted    integer[]
UPDATE stint.blocked
SET completed = greatest(blocked.completed - told.completed, 0),
    aborted = greatest(blocked.aborted - told.aborted, 0)
FROM (
    SELECT waiting.tid, told.completed, told.aborted
    FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS told (key, completed, aborted)
    CROSS JOIN LATERAL (
        SELECT blocked.ctid AS tid FROM stint.blocked WHERE blocked.key = told.key OFFSET 0
    ) AS waiting
) AS told
WHERE blocked.ctid = told.tid
