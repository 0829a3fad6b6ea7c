-- name: abort_overdue
--
-- Aborts up to $1 tasks whose absolute deadline has passed (R6), whatever their state: they go into
-- round $3 of settling.
--
--   $1 tasks  integer
--   $2 batch  bigint
--   $3 round  integer
--
-- The row of deadlines goes when its task is final or gone. One that is being handed out or
-- returned at this moment is locked: it is passed over and stays for the next time.
WITH passed AS MATERIALIZED (
    SELECT deadlines.deadline, deadlines.key, deadlines.ctid AS tid
    FROM stint.deadlines
    WHERE deadlines.deadline <= statement_timestamp()
    ORDER BY deadlines.deadline, deadlines.key
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED
), queued AS MATERIALIZED (
    SELECT ready.lo AS key, ready.tries, ready.status
    FROM passed
    CROSS JOIN LATERAL (
        SELECT ready.*
        FROM stint.ready
        WHERE ready.lo = passed.key
        FOR UPDATE SKIP LOCKED
    ) AS ready
), later AS MATERIALIZED (
    SELECT scheduled.*
    FROM passed
    CROSS JOIN LATERAL (
        SELECT scheduled.key, scheduled.tries, scheduled.status
        FROM stint.scheduled
        WHERE scheduled.key = passed.key
        FOR UPDATE SKIP LOCKED
    ) AS scheduled
), owned AS MATERIALIZED (
    SELECT leased.*
    FROM passed
    CROSS JOIN LATERAL (
        SELECT leased.key, leased.tries, leased.status
        FROM stint.leased
        WHERE leased.key = passed.key
        FOR UPDATE SKIP LOCKED
    ) AS leased
), waiting AS MATERIALIZED (
    SELECT blocked.*
    FROM passed
    CROSS JOIN LATERAL (
        SELECT blocked.key, blocked.tries, blocked.status
        FROM stint.blocked
        WHERE blocked.key = passed.key
        FOR UPDATE SKIP LOCKED
    ) AS blocked
), unqueued AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT queued.key FROM queued))
), unscheduled AS (
    DELETE FROM stint.scheduled
    WHERE scheduled.key = ANY (ARRAY(SELECT later.key FROM later))
), disowned AS (
    DELETE FROM stint.leased
    WHERE leased.key = ANY (ARRAY(SELECT owned.key FROM owned))
), unblocked AS (
    DELETE FROM stint.blocked
    WHERE blocked.key = ANY (ARRAY(SELECT waiting.key FROM waiting))
), ended AS (
    INSERT INTO stint.settling (batch, round, key, cause, tries, status)
    SELECT $2::bigint, $3::integer, ended.key, 6, ended.tries, ended.status
    FROM (
        SELECT key, tries, status FROM queued
        UNION ALL SELECT key, tries, status FROM later
        UNION ALL SELECT key, tries, status FROM owned
        UNION ALL SELECT key, tries, status FROM waiting
    ) AS ended
)
DELETE FROM stint.deadlines
USING passed
WHERE deadlines.ctid = passed.tid
  AND (SELECT true FROM stint.ready
       WHERE ready.lo = passed.key
         AND ready.lo <> ALL (ARRAY(SELECT queued.key FROM queued))) IS NULL
  AND (SELECT true FROM stint.scheduled
       WHERE scheduled.key = passed.key
         AND scheduled.key <> ALL (ARRAY(SELECT later.key FROM later))) IS NULL
  AND (SELECT true FROM stint.leased
       WHERE leased.key = passed.key
         AND leased.key <> ALL (ARRAY(SELECT owned.key FROM owned))) IS NULL
  AND (SELECT true FROM stint.blocked
       WHERE blocked.key = passed.key
         AND blocked.key <> ALL (ARRAY(SELECT waiting.key FROM waiting))) IS NULL
