-- name: try_keep_ends
--
-- Keeps finished tasks from being opened again until the transaction ends, unless somebody is about
-- to open some, and returns whether it does so. It is keep_ends for those who need not wait.
--
-- It does not do so in a transaction that is stricter than READ COMMITTED, which would overlook
-- tasks that were inserted behind finished ones since its snapshot, and tasks that were opened
-- again.
SELECT CASE WHEN current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
            THEN pg_try_advisory_xact_lock_shared('stint.finished'::regclass::oid::integer, 0)
            ELSE false
       END
