-- name: set_aside
--
-- Puts task $1 off by $2, if it is scheduled or was owned and is ready again.
--
--   $1 id  text
--   $2 by  interval
WITH named AS MATERIALIZED (
    SELECT tasks.key
    FROM stint.tasks
    WHERE tasks.id = $1::text
), later AS (
    UPDATE stint.scheduled
    SET not_before = scheduled.not_before + $2::interval
    FROM named
    WHERE scheduled.key = named.key
), ready AS (
    DELETE FROM stint.ready
    USING named
    WHERE ready.lo = named.key AND ready.hi = named.key
    RETURNING ready.*
)
INSERT INTO stint.scheduled (key, not_before, claim, tries, completed, aborted, status)
SELECT ready.lo, statement_timestamp() + $2::interval, ready.claim, ready.tries, ready.completed,
       ready.aborted, ready.status
FROM ready
