-- name: forget_deadlines
--
-- Drops up to $1 absolute deadlines that have passed and whose tasks have ended. A task with a
-- deadline is alone in its span.
--
--   $1 deadlines  integer
WITH passed AS MATERIALIZED (
    SELECT deadlines.ctid AS tid
    FROM stint.deadlines
    WHERE deadlines.deadline <= statement_timestamp()
      AND (SELECT true FROM stint.ready WHERE ready.lo = deadlines.key) IS NULL
      AND (SELECT true FROM stint.scheduled WHERE scheduled.key = deadlines.key) IS NULL
      AND (SELECT true FROM stint.leased WHERE leased.lo = deadlines.key) IS NULL
      AND (SELECT true FROM stint.blocked WHERE blocked.key = deadlines.key) IS NULL
    ORDER BY deadlines.deadline, deadlines.key
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM stint.deadlines
USING passed
WHERE deadlines.ctid = passed.tid
