-- name: return_tasks
--
-- Settles owned tasks. Element i of each array belongs to return i; the caller sorts them by key.
-- Returns the places of those that were settled: the ones whose key, ID and claim belong together
-- and whose row of leased this statement was the one to delete; with each, whether it has finished
-- and posts its result, and the action if it is pending again.
--
--   $1 keys           bigint[]
--   $2 claims         bigint[]
--   $3 ids            text[]
--   $4 outcomes       smallint[]: 0 completed, 1 aborted, 2 pending, 3 pending with the try refunded
--   $5 statuses       text[]
--   $6 results        bytea[]
--   $7 retry_after    interval[], null elements: at once
--   $8 keep_completed boolean
--   $9 keep_aborted   boolean
--   $10 drop_leases   boolean
--   $11 batch         bigint
--   $12 round         integer
--
-- The row of leased is the one thing that all ways of ending a performance delete, so two of them
-- cannot both win: the second waits for the first and then finds nothing. Rows are deleted in the
-- order of the input, by key, so that overlapping batches do not deadlock. One that has a new
-- version since the statement began is passed over, and the caller looks again: xmin tells, which
-- PostgreSQL compares anew behind a wait; the place it does not, in all versions.
--
-- LATERAL with OFFSET 0 is a fence: each row is looked up by its index, one by one. Joined freely,
-- a planner that believes a table to hold one row walks all of its index instead. Tasks are found
-- by key, in the order in which they lie in the table, and not by ID, in none.
--
-- The signals to dependents, counted up for each, go into round $12 of settling. linked spares the
-- look for each task's edges where there are none about. A task with dependents is kept in any
-- case: they may ask for its result (R18). An edge that is not visible yet is not missed, since
-- whoever adds it gives the row of leased a new version: this statement then passes the task over.
--
-- A finished task costs one append to finished, its definition is left alone; not kept, it costs
-- the deletion of the definition. A lease that ends whole goes with it. Inside the caller's
-- transaction it is left to the maintainer ($10), since a heartbeat must not wait for the caller.
WITH returned AS MATERIALIZED (
    SELECT *
    FROM unnest(
        $1::bigint[], $2::bigint[], $3::text[], $4::smallint[],
        $5::text[], $6::bytea[], $7::interval[]
    ) WITH ORDINALITY
        AS returned (key, claim, id, outcome, status, result, retry_after, place)
), linked AS MATERIALIZED (
    SELECT true AS found
    FROM stint.edges
    WHERE edges.after BETWEEN (SELECT min(returned.key) FROM returned)
                          AND (SELECT max(returned.key) FROM returned)
    LIMIT 1
), held AS (
    SELECT returned.*, leased.tid, leased.version, leased.part, leased.tries,
           leased.completed, leased.aborted, leased.said, lease.actor,
           CASE WHEN (SELECT linked.found FROM linked) THEN
               (SELECT true FROM stint.edges WHERE edges.after = returned.key LIMIT 1)
           END AS signals,
           task.action, task.priority, task.deadline, task.post_result,
           CASE
               WHEN returned.outcome < 2 THEN returned.outcome
               WHEN returned.outcome = 2 AND task.max_tries > 0
                    AND leased.tries >= task.max_tries THEN 2
           END AS cause
    FROM returned
    CROSS JOIN LATERAL (
        SELECT leased.ctid AS tid, leased.xmin AS version, leased.part, leased.tries,
               leased.completed, leased.aborted, leased.status AS said
        FROM stint.leased
        WHERE leased.key = returned.key AND leased.claim = returned.claim
        OFFSET 0
    ) AS leased
    CROSS JOIN LATERAL (
        SELECT tasks.id, tasks.action, tasks.priority, tasks.deadline, tasks.post_result,
               tasks.max_tries
        FROM stint.tasks
        WHERE tasks.key = returned.key
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (
        SELECT leases.actor
        FROM stint.leases
        WHERE leases.claim = returned.claim AND leases.part = leased.part
        OFFSET 0
    ) AS lease
    WHERE task.id = returned.id
), ended AS (
    DELETE FROM stint.leased
    USING held
    WHERE leased.ctid = held.tid AND leased.xmin = held.version
    RETURNING held.*, held.post_result OR held.signals IS NOT NULL
        OR CASE held.cause WHEN 0 THEN $8::boolean ELSE $9::boolean END AS kept
), kept AS (
    INSERT INTO stint.finished (key, claim, tries, cause, actor, status, result)
    SELECT ended.key, ended.claim, ended.tries, ended.cause, ended.actor,
           ended.status, ended.result
    FROM ended
    WHERE ended.cause IS NOT NULL AND ended.kept
), dropped AS (
    DELETE FROM stint.tasks
    WHERE tasks.key = ANY (ARRAY(
        SELECT ended.key FROM ended WHERE ended.cause IS NOT NULL AND NOT ended.kept
    ))
), untied AS (
    DELETE FROM stint.edges
    WHERE edges.run = ANY (ARRAY(
        SELECT ended.key
        FROM ended
        WHERE ended.cause IS NOT NULL AND NOT ended.kept AND ended.completed IS NOT NULL
    ))
), signalled AS (
    INSERT INTO stint.settling (batch, round, key, signals, completed, aborted, spoiled)
    SELECT $11::bigint, $12::integer, edge.run, count(*),
           count(*) FILTER (WHERE ended.cause = 0), count(*) FILTER (WHERE ended.cause > 0),
           bool_or(ended.cause > 0)
    FROM ended
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = ended.key OFFSET 0
    ) AS edge
    WHERE ended.cause IS NOT NULL AND ended.signals IS NOT NULL
    GROUP BY edge.run
), again AS (
    INSERT INTO stint.ready (lo, hi, claim, tries, completed, aborted, action, priority, deadline,
                             status)
    SELECT ended.key, ended.key, ended.claim, ended.tries - (ended.outcome = 3)::integer,
           ended.completed, ended.aborted, ended.action, ended.priority, ended.deadline,
           CASE ended.outcome WHEN 3 THEN coalesce(ended.status, ended.said) ELSE ended.status END
    FROM ended
    WHERE ended.cause IS NULL AND ended.retry_after IS NULL
), later AS (
    INSERT INTO stint.scheduled (key, not_before, claim, tries, completed, aborted, status)
    SELECT ended.key, statement_timestamp() + ended.retry_after, ended.claim,
           ended.tries - (ended.outcome = 3)::integer, ended.completed, ended.aborted,
           CASE ended.outcome WHEN 3 THEN coalesce(ended.status, ended.said) ELSE ended.status END
    FROM ended
    WHERE ended.cause IS NULL AND ended.retry_after IS NOT NULL
), emptied AS (
    DELETE FROM stint.leases
    USING (
        SELECT lease.tid
        FROM (
            SELECT ended.claim, ended.part, count(*) AS size
            FROM ended
            WHERE $10::boolean
            GROUP BY ended.claim, ended.part
        ) AS part
        CROSS JOIN LATERAL (
            SELECT leases.ctid AS tid
            FROM stint.leases
            WHERE leases.claim = part.claim AND leases.part = part.part
              AND leases.size = part.size
            OFFSET 0
        ) AS lease
    ) AS whole
    WHERE leases.ctid = whole.tid
)
SELECT ended.place, ended.cause IS NOT NULL AND ended.post_result AS posted,
       CASE WHEN ended.cause IS NULL THEN ended.action END AS again
FROM ended
