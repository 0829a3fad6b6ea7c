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
