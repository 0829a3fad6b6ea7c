-- name: forget_asked
--
-- Deletes the rows of actions that nobody has asked for in a week.
DELETE FROM stint.action_stats
WHERE action_stats.asked_at < statement_timestamp() - interval '7 days'

-- name: forget_minutes
--
-- Deletes what was noted of minutes more than a day ago, and what a clock has left that was ahead.
DELETE FROM stint.minutes
WHERE minutes.ctid = ANY (ARRAY(
    SELECT minutes.ctid
    FROM stint.minutes
    WHERE minutes.minute < statement_timestamp() - interval '1 day'
    UNION ALL
    SELECT minutes.ctid
    FROM stint.minutes
    WHERE minutes.minute > statement_timestamp() + interval '1 minute'
))

-- name: forget_pruning
--
-- Drops the note how far pruning is behind if nobody has pruned for a day. A store that keeps
-- everything does so: the stores that pruned before seem to keep everything by now, too.
UPDATE stint.pruning
SET behind = NULL
WHERE pruning.told_at < statement_timestamp() - interval '1 day' AND pruning.behind IS NOT NULL

-- name: forget_unattended
--
-- Forgets remote actors that were attended by stores without a session, a day ago and before:
-- nothing else tells that such a store is gone. If it is not, it notes the actor anew within a
-- minute.
DELETE FROM stint.actors
WHERE actors.attendant = 0 AND actors.since < statement_timestamp() - interval '1 day'

-- name: note_pruning
--
-- Notes how far pruning is behind.
--
--   $1 behind  interval
INSERT INTO stint.pruning (told_at, behind)
VALUES (statement_timestamp(), $1::interval)
ON CONFLICT (single) DO UPDATE SET told_at = excluded.told_at, behind = excluded.behind

-- name: note_pruned
--
-- Notes that tasks are pruned that ended up to $1, in the transaction that prunes them, behind
-- everything else that it locks.
--
--   $1 pruned_to  timestamptz
INSERT INTO stint.pruning (told_at, behind, pruned_to)
VALUES (statement_timestamp(), NULL, $1::timestamptz)
ON CONFLICT (single) DO UPDATE SET pruned_to = excluded.pruned_to
WHERE pruning.pruned_to >= excluded.pruned_to IS NOT true

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
