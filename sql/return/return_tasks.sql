-- name: return_tasks
-- variants: return_final, return_large
--
-- Settles owned tasks, a span of them at a time. Element i of each array belongs to span i, whose
-- tasks are returned alike; the caller sorts the spans. Returns what was settled: the rows of
-- leased that lie in a span, have its claim, and were this statement's to delete. With each come
-- the place of its span, whether it has finished, and the action if it is pending again.
--
--   $1 lo             bigint[]
--   $2 hi             bigint[]: as lo, if there is a status, a result or another try
--   $3 claims         bigint[]
--   $4 outcomes       smallint[]: 0 completed, 1 aborted, 2 pending, 3 pending, the try refunded
--   $5 posts          boolean[]: post their results
--   $6 statuses       text[]
--   $7 results        bytea[]
--   $8 drop_leases    boolean
--   $9 retry_after    interval[], null elements: at once
--   $10 keep_completed boolean
--   $11 keep_aborted  boolean
--   $12 batch         bigint
--   $13 round         integer
--
-- return_final is for tasks that end, are kept and have no dependents, as far as the caller knows.
-- It has no parameters behind $8, and passes over a task that has dependents after all.
--
-- return_large is for results of kilobytes: one that goes through the parts of the statement is
-- written into three temporary files on its way. It has them in $16, one behind the other, takes
-- each out where it is inserted, and has no $7. There
--
--   $14 begins        integer[]
--   $15 sizes         integer[], null elements: no result
--   $16 results       bytea
--
-- LATERAL with OFFSET 0 is a fence: each row is looked up by its index, one by one. Joined freely,
-- a planner that believes a table to hold one row walks all of its index instead.
WITH returned AS MATERIALIZED (
    SELECT *
    FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::boolean[],
        $6::text[], $7::bytea[]
-- unless return_final
        , $9::interval[]
-- end
        -- in return_large: , $14::integer[], $15::integer[]
    ) WITH ORDINALITY
-- unless return_final, return_large
        AS returned (lo, hi, claim, outcome, posts, status, result, retry_after, place)
-- end
        -- in return_final: AS returned (lo, hi, claim, outcome, posts, status, result, place)
        -- in return_large: AS returned (lo, hi, claim, outcome, posts, status, result, retry_after,
        -- in return_large:              begins, size, place)
), linked AS MATERIALIZED (
    -- Spares the scans for edges where there are none about.
    SELECT true AS found
    FROM stint.edges
    WHERE edges.after BETWEEN (SELECT min(returned.lo) FROM returned)
                          AND (SELECT max(returned.hi) FROM returned)
    LIMIT 1
), held AS (
    -- A task with dependents is kept in any case: they may ask for its result (R18). An edge that
    -- is not visible yet is not missed, since whoever adds it gives the row of leased a new
    -- version, which the next step passes over.
    SELECT leased.*, lease.actor, lease.owned_at, returned.place, returned.outcome, returned.posts,
           returned.status, returned.result,
           -- in return_large: returned.begins, returned.size,
-- unless return_final
           returned.retry_after, task.action, task.priority, task.deadline,
           CASE
               WHEN returned.outcome < 2 THEN returned.outcome
               WHEN returned.outcome = 2 AND task.max_tries > 0
                    AND leased.tries >= task.max_tries THEN 2 /* tries */
           END AS cause,
-- end
           -- in return_final: returned.outcome AS cause, NULL AS action, true AS kept,
           CASE WHEN (SELECT linked.found FROM linked) THEN
               (SELECT true
                FROM stint.edges
                WHERE edges.after BETWEEN leased.lo AND leased.hi
                LIMIT 1)
           END AS signals
    FROM returned
    CROSS JOIN LATERAL (
        SELECT leased.ctid AS tid, leased.xmin AS version, leased.lo, leased.hi, leased.claim,
               leased.part, leased.tries, leased.completed, leased.aborted, leased.status AS said,
               leased.ready_at
        FROM stint.leased
        WHERE leased.lo BETWEEN returned.lo AND returned.hi AND leased.hi <= returned.hi
          AND leased.claim = returned.claim
        OFFSET 0
    ) AS leased
    CROSS JOIN LATERAL (
        SELECT leases.actor, leases.owned_at
        FROM stint.leases
        WHERE leases.claim = leased.claim AND leases.part = leased.part
        OFFSET 0
    ) AS lease
-- unless return_final
    LEFT JOIN LATERAL (
        SELECT tasks.action, tasks.priority, tasks.deadline, tasks.max_tries
        FROM stint.tasks
        WHERE tasks.key = leased.lo AND returned.outcome >= 2
        OFFSET 0
    ) AS task ON true
-- end
), ended AS (
    -- The row of leased is the one thing that all ways of ending a performance delete, so two of
    -- them cannot both win: the second waits for the first and then finds nothing. Rows are deleted
    -- in the order of the input, by key, so that overlapping batches do not deadlock. One that has
    -- a new version since the statement began is passed over, and the caller looks again.
    -- PostgreSQL compares xmin again after it has waited for a lock. Not all versions compare ctid
    -- again; in those that do, such as 15.18, no test can tell that xmin is looked at as well. A
    -- row that holds others, too, must have been split before; it is passed over as well.
    DELETE FROM stint.leased
    USING held
    WHERE leased.ctid = held.tid AND leased.xmin = held.version
    -- in return_final:   AND held.signals IS NULL
    RETURNING held.*
-- unless return_final
        , held.posts OR held.signals IS NOT NULL
              OR CASE held.cause WHEN 0 /* completed */ THEN $10::boolean ELSE $11::boolean END
              AS kept
-- end
), kept AS (
    -- Tasks that end alike cost one row, however many.
    INSERT INTO stint.finished (lo, hi, claim, tries, cause, actor, owned_at, ready_at, status,
                                result)
    SELECT ended.lo, ended.hi, ended.claim, ended.tries, ended.cause, ended.actor,
           ended.owned_at, ended.ready_at, ended.status,
-- unless return_large
           ended.result
-- end
           -- in return_large: substring($16::bytea, ended.begins, ended.size)
    FROM ended
    WHERE ended.cause IS NOT NULL AND ended.kept
-- unless return_final
), dropped AS (
    -- Definitions of tasks that are not kept go; those of the others are left alone.
    DELETE FROM stint.tasks
    USING (
        SELECT task.tid
        FROM ended
        CROSS JOIN LATERAL (
            SELECT tasks.ctid AS tid
            FROM stint.tasks
            WHERE tasks.key BETWEEN ended.lo AND ended.hi
            OFFSET 0
        ) AS task
        WHERE ended.cause IS NOT NULL AND NOT ended.kept
    ) AS definition
    WHERE tasks.ctid = definition.tid
), untied AS (
    -- So do the edges into tasks that are not kept. One that erase_tasks of another session moves
    -- meanwhile is still found by its dependent, and no longer by its place.
    DELETE FROM stint.edges
    WHERE edges.run = ANY (ARRAY(
        SELECT edge.run
        FROM ended
        CROSS JOIN LATERAL (
            SELECT edges.run
            FROM stint.edges
            WHERE edges.run BETWEEN ended.lo AND ended.hi
            OFFSET 0
        ) AS edge
        WHERE ended.cause IS NOT NULL AND NOT ended.kept AND ended.completed IS NOT NULL
    ))
), signalled AS (
    -- The signals to dependents, counted up for each, go into round $13 of settling, with what
    -- they say about conditions.
    INSERT INTO stint.settling (batch, round, key, signals, completed, aborted, spoiled, verdict)
    SELECT $12::bigint, $13::integer, edge.run, count(*),
           count(*) FILTER (WHERE ended.cause = 0 /* completed */),
           count(*) FILTER (WHERE ended.cause > 0),
           bool_or(ended.cause > 0 AND coalesce(edge.accepts & 10, 0) = 0),
           bit_or(CASE WHEN edge.accepts IS NOT NULL THEN
-- end
-- unless return_final, return_large
               -- include verdict_of_condition: edge=edge; cause=ended.cause;
               --   result=coalesce(ended.result, '')
-- end
       -- in return_large: -- include verdict_of_condition: edge=edge; cause=ended.cause;
       -- in return_large: --   result=coalesce(substring($16::bytea, ended.begins, ended.size), '')
-- unless return_final
           END)
    FROM ended
    CROSS JOIN LATERAL (
        SELECT edges.run, edges.accepts, edges.results
        FROM stint.edges
        WHERE edges.after BETWEEN ended.lo AND ended.hi
        OFFSET 0
    ) AS edge
    WHERE ended.cause IS NOT NULL AND ended.signals IS NOT NULL
    GROUP BY edge.run
), again AS (
    -- For another try at once, the try refunded with outcome 3.
    INSERT INTO stint.ready (lo, hi, claim, tries, completed, aborted, action, priority, deadline,
                             ready_at, status)
    SELECT ended.lo, ended.hi, ended.claim, ended.tries - (ended.outcome = 3)::integer,
           ended.completed, ended.aborted, ended.action, ended.priority, ended.deadline,
           statement_timestamp(),
           CASE ended.outcome WHEN 3 THEN coalesce(ended.status, ended.said) ELSE ended.status END
    FROM ended
    WHERE ended.cause IS NULL AND ended.retry_after IS NULL
), later AS (
    -- For another try later.
    INSERT INTO stint.scheduled (key, not_before, claim, tries, completed, aborted, status)
    SELECT ended.lo, statement_timestamp() + ended.retry_after, ended.claim,
           ended.tries - (ended.outcome = 3)::integer, ended.completed, ended.aborted,
           CASE ended.outcome WHEN 3 THEN coalesce(ended.status, ended.said) ELSE ended.status END
    FROM ended
    WHERE ended.cause IS NULL AND ended.retry_after IS NOT NULL
-- end
), emptied AS (
    -- A lease that ends whole goes with its tasks. In the caller's transaction it is left to the
    -- maintainer ($8), since a heartbeat must not wait for the caller.
    DELETE FROM stint.leases
    USING (
        SELECT lease.tid
        FROM (
            SELECT ended.claim, ended.part, sum(ended.hi - ended.lo + 1) AS size
            FROM ended
            WHERE $8::boolean
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
SELECT ended.place, ended.lo, ended.hi, ended.cause IS NOT NULL AS finished,
       CASE WHEN ended.cause IS NULL THEN ended.action END AS again
FROM ended
