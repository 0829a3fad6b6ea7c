-- name: copy_tasks
--
-- Copies the tasks that a verb may reach from those with the IDs $1 into the tables that
-- copy_tables has made, all as of one moment: this is one statement, and it locks nothing. Bodies,
-- status texts and headers are left out, and results, unless a condition asks for one.
--
--   $1 ids   text[]
--   $2 verb  integer: 0 changes the tasks alone, 1 aborts them, 2 deletes them, 3 retries them
--
-- It may copy more than the verb looks at, and never less. A span is copied whole.
WITH RECURSIVE named AS MATERIALIZED (
    SELECT task.key
    FROM unnest($1::text[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT tasks.key FROM stint.tasks WHERE tasks.id = wanted.id OFFSET 0
    ) AS task
), reached (key, falls) AS (
    -- falls says that the verb may go on to what is behind the task. What is finished brings
    -- nothing down any more; a retry opens what it has brought down.
    SELECT named.key,
           $2::integer = 3 OR $2::integer > 0 AND (
               SELECT span.hi >= named.key
               FROM (
                   -- include span_of_key: table=finished; key=named.key; columns=finished.hi
               ) AS span
           ) IS NOT true
    FROM named
    UNION
    SELECT edge.run,
           ((SELECT true FROM stint.blocked WHERE blocked.key = edge.run)
            OR $2::integer = 3 AND (
                -- What a predecessor aborts, or what is skipped, is alone in its span.
                SELECT finished.cause IN (3 /* a predecessor */, 8 /* skipped */)
                FROM stint.finished
                WHERE finished.lo = edge.run
            )) IS true
           AND ($2::integer > 1 OR edge.accepts IS NOT NULL OR (
               SELECT tasks.on_abort = 0 OR tasks.action = 'stint.Spontaneous'
               FROM stint.tasks
               WHERE tasks.key = edge.run
           ))
    FROM reached
    CROSS JOIN LATERAL (
        SELECT edges.run, edges.accepts FROM stint.edges WHERE edges.after = reached.key OFFSET 0
    ) AS edge
    WHERE reached.falls
), fast AS MATERIALIZED (
    SELECT DISTINCT reached.key
    FROM reached
    CROSS JOIN LATERAL (
        SELECT fail_fast.key FROM stint.fail_fast WHERE fail_fast.key = reached.key OFFSET 0
    ) AS fail_fast
    WHERE $2::integer = 1
), above (key, ended) AS (
    -- What a task waits for that has what only it needs aborted with it, as in needed_tasks.
    SELECT fast.key, false FROM fast
    UNION
    SELECT edge.after, (
               SELECT span.hi >= edge.after AND span.cause IN (0 /* completed */, 8 /* skipped */)
               FROM (
                   -- include span_of_key: table=finished; key=edge.after;
                   --   columns=finished.hi, finished.cause
               ) AS span
           ) IS true
    FROM above
    CROSS JOIN LATERAL (
        SELECT edges.after FROM stint.edges WHERE edges.run = above.key OFFSET 0
    ) AS edge
    WHERE NOT above.ended
), edge AS MATERIALIZED (
    SELECT edge.*
    FROM (
        SELECT reached.key FROM reached WHERE reached.falls
        UNION
        SELECT above.key FROM above
    ) AS ahead
    CROSS JOIN LATERAL (
        SELECT edges.* FROM stint.edges WHERE edges.after = ahead.key OFFSET 0
    ) AS edge
    UNION
    SELECT edge.*
    FROM (
        -- A task that is opened must know of all that it waits for.
        SELECT DISTINCT reached.key FROM reached WHERE $2::integer = 3 AND reached.falls
    ) AS behind
    CROSS JOIN LATERAL (
        -- include span_of_key: table=finished; key=behind.key; columns=finished.hi
    ) AS span
    CROSS JOIN LATERAL (
        SELECT edges.* FROM stint.edges WHERE edges.run = behind.key OFFSET 0
    ) AS edge
    WHERE span.hi >= behind.key
    UNION
    SELECT edge.*
    FROM (
        -- What becomes of a task whose last predecessor is deleted depends on how the others ended.
        SELECT DISTINCT reached.key FROM reached WHERE $2::integer = 2
    ) AS left_over
    CROSS JOIN LATERAL (
        SELECT edges.* FROM stint.edges WHERE edges.run = left_over.key OFFSET 0
    ) AS edge
), near AS MATERIALIZED (
    SELECT task.*
    FROM (
        SELECT reached.key FROM reached
        UNION
        SELECT edge.after FROM edge
        UNION
        SELECT edge.run FROM edge
    ) AS one
    CROSS JOIN LATERAL (
        SELECT tasks.key, tasks.inserted_at, tasks.deadline, tasks.max_tries, tasks.priority,
               tasks.on_abort, tasks.post_result, tasks.id, tasks.action, tasks.limit_key
        FROM stint.tasks
        WHERE tasks.key = one.key
        OFFSET 0
    ) AS task
), queued AS MATERIALIZED (
    SELECT DISTINCT span.*
    FROM near
    CROSS JOIN LATERAL (
        SELECT ready.position, ready.lo, ready.hi, ready.claim, ready.deadline, ready.tries,
               ready.completed, ready.aborted, ready.priority, ready.late, ready.action,
               ready.actor, ready.limit_key
        FROM stint.ready
        WHERE ready.lo BETWEEN near.key >> 10 << 10 AND near.key
        ORDER BY ready.lo DESC
        LIMIT 1
    ) AS span
    WHERE span.hi >= near.key
), owned AS MATERIALIZED (
    SELECT DISTINCT span.*
    FROM near
    CROSS JOIN LATERAL (
        SELECT leased.lo, leased.hi, leased.claim, leased.tries, leased.part, leased.completed,
               leased.aborted
        FROM stint.leased
        WHERE leased.lo BETWEEN near.key >> 10 << 10 AND near.key
        ORDER BY leased.lo DESC
        LIMIT 1
    ) AS span
    WHERE span.hi >= near.key
), ended AS MATERIALIZED (
    SELECT near.key AS task, span.*
    FROM near
    LEFT JOIN LATERAL (
        SELECT finished.lo, finished.hi, finished.finished_at, finished.claim, finished.tries,
               finished.cause, finished.actor
        FROM stint.finished
        WHERE finished.lo BETWEEN near.key >> 10 << 10 AND near.key
        ORDER BY finished.lo DESC
        LIMIT 1
    ) AS span ON span.hi >= near.key
), tasks AS (
    INSERT INTO pg_temp.tasks (key, inserted_at, deadline, max_tries, priority, on_abort,
                               post_result, id, action, limit_key)
    SELECT near.* FROM near
), edges AS (
    INSERT INTO pg_temp.edges (after, run, accepts, results)
    SELECT edge.after, edge.run, edge.accepts, edge.results FROM edge
), ready AS (
    INSERT INTO pg_temp.ready (position, lo, hi, claim, deadline, tries, completed, aborted,
                               priority, late, action, actor, limit_key)
    SELECT queued.* FROM queued
), scheduled AS (
    INSERT INTO pg_temp.scheduled (key, not_before, claim, tries, completed, aborted)
    SELECT later.*
    FROM near
    CROSS JOIN LATERAL (
        SELECT scheduled.key, scheduled.not_before, scheduled.claim, scheduled.tries,
               scheduled.completed, scheduled.aborted
        FROM stint.scheduled
        WHERE scheduled.key = near.key
        OFFSET 0
    ) AS later
), leased AS (
    INSERT INTO pg_temp.leased (lo, hi, claim, tries, part, completed, aborted)
    SELECT owned.* FROM owned
), leases AS (
    INSERT INTO pg_temp.leases (claim, part, actor)
    SELECT lease.*
    FROM (SELECT DISTINCT owned.claim, owned.part FROM owned) AS owned
    CROSS JOIN LATERAL (
        SELECT leases.claim, leases.part, leases.actor
        FROM stint.leases
        WHERE leases.claim = owned.claim AND leases.part = owned.part
        OFFSET 0
    ) AS lease
), blocked AS (
    INSERT INTO pg_temp.blocked (key, not_before, claim, missing, completed, aborted, tries)
    SELECT waiting.*
    FROM near
    CROSS JOIN LATERAL (
        SELECT blocked.key, blocked.not_before, blocked.claim, blocked.missing, blocked.completed,
               blocked.aborted, blocked.tries
        FROM stint.blocked
        WHERE blocked.key = near.key
        OFFSET 0
    ) AS waiting
), finished AS (
    INSERT INTO pg_temp.finished (lo, hi, finished_at, claim, tries, cause, actor, result)
    SELECT span.*,
           -- A row that stands for several tasks has no result.
           CASE WHEN span.lo = span.hi AND EXISTS (
                    SELECT FROM stint.edges WHERE edges.after = span.lo AND edges.results <> '{}'
                )
                THEN (SELECT finished.result FROM stint.finished WHERE finished.lo = span.lo)
           END
    FROM (
        SELECT DISTINCT ended.lo, ended.hi, ended.finished_at, ended.claim, ended.tries,
               ended.cause, ended.actor
        FROM ended
        WHERE ended.lo IS NOT NULL
    ) AS span
), joined AS (
    INSERT INTO pg_temp.joined (key, completed, aborted)
    SELECT stands_for.*
    FROM near
    CROSS JOIN LATERAL (
        SELECT joined.key, joined.completed, joined.aborted
        FROM stint.joined
        WHERE joined.key = near.key
        OFFSET 0
    ) AS stands_for
), fail_fast AS (
    INSERT INTO pg_temp.fail_fast (key)
    SELECT fast.key FROM fast
), dependency_lock AS (
    INSERT INTO pg_temp.dependency_lock VALUES (true)
)
INSERT INTO pg_temp.seen (key, state, finished_at)
SELECT ended.task,
       coalesce(10 + ended.cause,
                (SELECT 0 /* blocked */ FROM stint.blocked WHERE blocked.key = ended.task),
                2 /* neither */),
       ended.finished_at
FROM ended
