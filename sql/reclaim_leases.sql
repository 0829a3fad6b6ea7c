-- name: reclaim_leases
--
-- Takes back what up to $1 expired leases still hold. Tasks with tries left become ready, ahead of
-- the others of their priority and marked late, so that their owner may still return them until
-- somebody else is given them (R8); the others are aborted (R13): they go into round $3 of settling.
--
--   $1 leases  integer
--   $2 batch   bigint
--   $3 round   integer
--
-- SKIP LOCKED passes over leases that are being extended and tasks that are being returned; the
-- lease then stays for the next time.
WITH expired AS MATERIALIZED (
    SELECT leases.*, leases.ctid AS tid
    FROM stint.leases
    WHERE leases.deadline <= statement_timestamp()
    ORDER BY leases.deadline
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT leased.*, expired.actor
    FROM expired
    CROSS JOIN LATERAL generate_subscripts(expired.spans, 1) AS span (n)
    CROSS JOIN LATERAL (
        SELECT leased.*
        FROM stint.leased
        WHERE leased.key BETWEEN expired.spans[span.n][1] AND expired.spans[span.n][2]
          AND leased.claim = expired.claim
          AND leased.part = expired.part
        FOR UPDATE SKIP LOCKED
    ) AS leased
), ended AS (
    DELETE FROM stint.leased
    WHERE leased.key = ANY (ARRAY(SELECT held.key FROM held))
), judged AS MATERIALIZED (
    SELECT held.*, task.action, task.priority, task.deadline,
           task.max_tries > 0 AND held.tries >= task.max_tries AS exhausted
    FROM held
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.priority, tasks.deadline, tasks.max_tries
        FROM stint.tasks
        WHERE tasks.key = held.key
        OFFSET 0
    ) AS task
), again AS (
    INSERT INTO stint.ready
        (position, lo, hi, claim, tries, completed, aborted, late, action, priority, deadline,
         actor, status)
    SELECT 0, judged.key, judged.key, judged.claim, judged.tries, judged.completed,
           judged.aborted, true, judged.action, judged.priority, judged.deadline, judged.actor,
           judged.status
    FROM judged
    WHERE NOT judged.exhausted
), aborted AS (
    INSERT INTO stint.settling (batch, round, key, cause, claim, tries, actor, status)
    SELECT $2::bigint, $3::integer, judged.key, 2, judged.claim, judged.tries, judged.actor,
           judged.status
    FROM judged
    WHERE judged.exhausted
)
DELETE FROM stint.leases
USING expired
WHERE leases.ctid = expired.tid
  AND NOT EXISTS (
      SELECT
      FROM generate_subscripts(expired.spans, 1) AS span (n)
      JOIN stint.leased
        ON leased.key BETWEEN expired.spans[span.n][1] AND expired.spans[span.n][2]
      WHERE leased.claim = expired.claim
        AND leased.part = expired.part
        AND leased.key <> ALL (ARRAY(SELECT held.key FROM held))
  )
