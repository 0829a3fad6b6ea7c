-- name: reclaim_leases
--
-- Takes back what up to $1 expired leases still hold. Tasks with tries left become ready, ahead of
-- the others of their priority and marked late, so that their owner may still return them until
-- somebody else is given them (R8). The others are left to end_due_tasks (R13): settling them may
-- have to wait for somebody.
-- Returns how many leases are gone, and the actions of what is ready again.
--
--   $1 leases  integer
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
    SELECT leased.*, expired.actor, task.action, task.priority, task.deadline
    FROM expired
    CROSS JOIN LATERAL generate_subscripts(expired.spans, 1) AS span (n)
    CROSS JOIN LATERAL (
        SELECT leased.*
        FROM stint.leased
        WHERE leased.key BETWEEN expired.spans[span.n][1] AND expired.spans[span.n][2]
          AND leased.claim = expired.claim
          AND leased.part = expired.part
          AND (SELECT tasks.max_tries = 0 OR leased.tries < tasks.max_tries
               FROM stint.tasks
               WHERE tasks.key = leased.key)
        FOR UPDATE SKIP LOCKED
    ) AS leased
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.priority, tasks.deadline
        FROM stint.tasks
        WHERE tasks.key = leased.key
        OFFSET 0
    ) AS task
), ended AS (
    DELETE FROM stint.leased
    WHERE leased.key = ANY (ARRAY(SELECT held.key FROM held))
), again AS (
    INSERT INTO stint.ready
        (position, lo, hi, claim, tries, completed, aborted, late, action, priority, deadline,
         actor, status)
    SELECT 0, held.key, held.key, held.claim, held.tries, held.completed, held.aborted, true,
           held.action, held.priority, held.deadline, held.actor, held.status
    FROM held
), emptied AS (
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
    RETURNING leases.claim
)
SELECT (SELECT count(*) FROM emptied) AS leases,
       (SELECT array_agg(DISTINCT held.action) FROM held) AS actions
