-- name: try_keep_ends
--
-- Sees to it that no finished task is opened again until the transaction ends, unless somebody is
-- about to, and tells whether it does: keep_ends for those who need not wait.
--
-- A transaction that is stricter than READ COMMITTED would overlook tasks inserted behind finished
-- ones since its snapshot, and tasks that were opened again.
SELECT CASE WHEN current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
            THEN pg_try_advisory_xact_lock_shared('stint.finished'::regclass::oid::integer, 0)
            ELSE false
       END
