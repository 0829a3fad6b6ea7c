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
-- Of a span where only some have tries left, the others stay, each alone. SKIP LOCKED passes over leases that are being extended and tasks that are being returned; the
-- lease then stays for the next time.
WITH expired AS MATERIALIZED (
    SELECT leases.*, leases.ctid AS tid
    FROM stint.leases
    WHERE leases.deadline <= statement_timestamp()
    ORDER BY leases.deadline
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT leased.lo, expired.actor
    FROM expired
    CROSS JOIN LATERAL generate_subscripts(expired.spans, 1) AS span (n)
    CROSS JOIN LATERAL (
        SELECT leased.lo
        FROM stint.leased
        WHERE leased.lo BETWEEN expired.spans[span.n][1] AND expired.spans[span.n][2]
          AND leased.claim = expired.claim
          AND leased.part = expired.part
          AND (SELECT true
               FROM stint.tasks
               WHERE tasks.key BETWEEN leased.lo AND leased.hi
                 AND (tasks.max_tries = 0 OR leased.tries < tasks.max_tries)
               LIMIT 1)
        FOR UPDATE SKIP LOCKED
    ) AS leased
), gone AS (
    DELETE FROM stint.leased
    USING (
        SELECT held.actor, leased.tid
        FROM held
        CROSS JOIN LATERAL (
            SELECT leased.ctid AS tid FROM stint.leased WHERE leased.lo = held.lo OFFSET 0
        ) AS leased
    ) AS span
    WHERE leased.ctid = span.tid
    RETURNING leased.*, span.actor
), task AS MATERIALIZED (
    SELECT gone.*, task.key, task.action, task.priority, task.deadline,
           task.max_tries = 0 OR gone.tries < task.max_tries AS again
    FROM gone
    CROSS JOIN LATERAL (
        SELECT tasks.key, tasks.action, tasks.priority, tasks.deadline, tasks.max_tries
        FROM stint.tasks
        WHERE tasks.key BETWEEN gone.lo AND gone.hi
        OFFSET 0
    ) AS task
), stuck AS (
    INSERT INTO stint.leased (lo, hi, claim, tries, part, completed, aborted)
    SELECT task.key, task.key, task.claim, task.tries, task.part, task.completed, task.aborted
    FROM task
    WHERE NOT task.again
), again AS (
    INSERT INTO stint.ready
        (position, lo, hi, claim, tries, completed, aborted, late, action, priority, deadline,
         actor, status)
    SELECT 0, task.key, task.key, task.claim, task.tries, task.completed, task.aborted, true,
           task.action, task.priority, task.deadline, task.actor, task.status
    FROM task
    WHERE task.again
), taken AS MATERIALIZED (
    SELECT task.claim, task.part, count(DISTINCT task.lo) AS rows, bool_and(task.again) AS whole
    FROM task
    GROUP BY task.claim, task.part
), emptied AS (
    DELETE FROM stint.leases
    USING expired
    WHERE leases.ctid = expired.tid
      AND coalesce((SELECT taken.whole
                    FROM taken
                    WHERE taken.claim = expired.claim AND taken.part = expired.part), true)
      AND coalesce((SELECT taken.rows
                    FROM taken
                    WHERE taken.claim = expired.claim AND taken.part = expired.part), 0) = (
          SELECT count(*)
          FROM generate_subscripts(expired.spans, 1) AS span (n)
          JOIN stint.leased
            ON leased.lo BETWEEN expired.spans[span.n][1] AND expired.spans[span.n][2]
          WHERE leased.claim = expired.claim AND leased.part = expired.part
      )
    RETURNING leases.claim
)
SELECT (SELECT count(*) FROM emptied) AS leases,
       (SELECT array_agg(DISTINCT task.action) FROM task WHERE task.again) AS actions
