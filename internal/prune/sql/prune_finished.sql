-- name: prune_finished
--
-- Deletes finished tasks that are past their retention (R18), with their definitions and edges. It
-- spares those whose result somebody may still ask for. It looks at the next spans of a walk
-- through the completed or the aborted tasks, and at the spans of the tasks $7.
--
--   $1 aborted          boolean: walk through the aborted tasks, not through the completed ones;
--                       null: through neither
--   $2 from_at          timestamptz
--   $3 from_lo          bigint: the walk goes on behind the span with this time and lo
--   $4 age              interval: the walk ends with the tasks that are as old as this
--   $5 spans            integer: how many spans the walk looks at, at most
--   $6 tasks            integer: how many tasks these hold, about
--   $7 keys             bigint[]: tasks to look at besides; they are finished, or were
--   $8 completed_age    interval, null: keep for ever
--   $9 aborted_age      interval, null: keep for ever
--   $10 post_result_age interval: the least age for a task that somebody may wait for
--
-- Returns how many spans the walk looked at, finished_at and lo of the last of them, how many tasks
-- are gone, for how long those of the walk that are gone were past $4 at least, the tasks that may
-- be free by now: a task that waited for them is gone, or has completed and stays; and when the
-- youngest of those that are gone ended.
--
-- Each span is looked up by its index: LATERAL with OFFSET 0, LIMIT 1 and scalar subqueries are
-- fences against joins, which the planner would make of whole tables.
WITH walked AS MATERIALIZED (
    -- A walk goes along finished_completed or finished_aborted, and never looks twice at a span
    -- that it spared. Such a span comes again, in $7, when the tasks that might have asked for it
    -- were looked at. The operator between rows is named in full: otherwise, where somebody has
    -- made one of that name, the statement could not be prepared.
    SELECT counted.*
    FROM (
        SELECT next.*,
               sum((next.hi - next.lo + 1)::integer) OVER (ORDER BY next.finished_at, next.lo)
                   - (next.hi - next.lo + 1) AS before
        FROM (
            (SELECT finished.lo, finished.hi, finished.finished_at, finished.cause
             FROM stint.finished
             WHERE NOT $1::boolean AND finished.cause = 0 /* completed */
               AND (finished.finished_at, finished.lo) OPERATOR(pg_catalog.>)
                   ($2::timestamptz, $3::bigint)
               AND finished.finished_at <= statement_timestamp() - $4::interval
             ORDER BY finished.finished_at, finished.lo
             LIMIT $5::integer)
            UNION ALL
            (SELECT finished.lo, finished.hi, finished.finished_at, finished.cause
             FROM stint.finished
             WHERE $1::boolean AND finished.cause <> 0 /* completed */
               AND (finished.finished_at, finished.lo) OPERATOR(pg_catalog.>)
                   ($2::timestamptz, $3::bigint)
               AND finished.finished_at <= statement_timestamp() - $4::interval
             ORDER BY finished.finished_at, finished.lo
             LIMIT $5::integer)
        ) AS next
    ) AS counted
    WHERE counted.before < $6::integer
), named AS MATERIALIZED (
    SELECT DISTINCT span.lo, span.hi, span.finished_at, span.cause
    FROM unnest($7::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        -- include span_of_key: table=finished; key=named.key;
        --   columns=finished.lo, finished.hi, finished.finished_at, finished.cause
    ) AS span
    WHERE span.hi >= named.key
), judged AS MATERIALIZED (
    -- free says that the span may go. Tasks in one span end alike, and a task that posts its result
    -- is alone, so the definition of the first one tells of all.
    SELECT looked.lo, looked.hi, looked.cause, looked.overdue,
           looked.finished_at <= statement_timestamp()
               - CASE looked.cause WHEN 0 /* completed */ THEN $8::interval ELSE $9::interval END
           -- Somebody may wait for a task that posts its result, and for a replaced one, whose
           -- definition is gone.
           AND CASE WHEN looked.finished_at > statement_timestamp() - $10::interval
                    THEN looked.cause <> 5 /* replaced */ AND NOT (
                        SELECT tasks.post_result FROM stint.tasks WHERE tasks.key = looked.lo)
                    ELSE true
               END
           -- Nobody may ask for the result any more: the dependents have completed. Spontaneous
           -- dependents, which pass the question on, must have been pruned themselves, and so must
           -- aborted ones, which may be retried.
           AND (
               SELECT true
               FROM stint.edges
               WHERE edges.after BETWEEN looked.lo AND looked.hi
                 AND CASE (SELECT tasks.action FROM stint.tasks WHERE tasks.key = edges.run)
                     WHEN 'stint.Spontaneous' THEN true
                     ELSE (
                         SELECT ended.hi >= edges.run AND ended.cause = 0 /* completed */
                         FROM stint.finished AS ended
                         WHERE ended.lo BETWEEN edges.run >> 10 << 10 AND edges.run
                         ORDER BY ended.lo DESC
                         LIMIT 1
                     ) IS NOT true
                 END
               LIMIT 1
           ) IS NULL
           -- An aborted task stays until lately_failed has aborted what only it needs.
           AND (looked.cause IN (0 /* completed */, 8 /* skipped */)
                OR (SELECT true
                    FROM stint.fail_fast
                    WHERE fail_fast.key BETWEEN looked.lo AND looked.hi
                      AND fail_fast.settled_at IS DISTINCT FROM looked.finished_at
                    LIMIT 1) IS NULL) AS free
    FROM (
        SELECT walked.lo, walked.hi, walked.finished_at, walked.cause,
               statement_timestamp() - $4::interval - walked.finished_at AS overdue
        FROM walked
        UNION ALL
        SELECT named.lo, named.hi, named.finished_at, named.cause, NULL
        FROM named
    ) AS looked
), linked AS MATERIALIZED (
    -- Spares the scans for edges, onward and back, where there are none about.
    SELECT EXISTS (
               SELECT FROM stint.edges WHERE edges.after BETWEEN range.least AND range.most
           ) AS onward,
           EXISTS (
               SELECT FROM stint.edges WHERE edges.run BETWEEN range.least AND range.most
           ) AS back
    FROM (SELECT min(judged.lo) AS least, max(judged.hi) AS most FROM judged) AS range
), held AS MATERIALIZED (
    -- Passes over spans that others hold at this moment. The next walk from the beginning finds
    -- them.
    SELECT judged.lo, judged.hi, judged.overdue
    FROM judged
    CROSS JOIN LATERAL (
        SELECT finished.lo
        FROM stint.finished
        WHERE finished.lo = judged.lo AND finished.hi = judged.hi
        FOR UPDATE SKIP LOCKED
    ) AS finished
    WHERE judged.free
), busy AS MATERIALIZED (
    -- So it does where somebody holds a definition, who judges a condition of a new task or deletes
    -- the task: to wait for them would hold up the other spans, or deadlock. Only a definition that
    -- was locked before has an xmax, so there is nothing to lock in most cases.
    SELECT marked.lo
    FROM (
        SELECT held.lo, task.key
        FROM held
        CROSS JOIN LATERAL (
            SELECT tasks.key
            FROM stint.tasks
            WHERE tasks.key BETWEEN held.lo AND held.hi
              AND tasks.xmax <> '0'
            OFFSET 0
        ) AS task
    ) AS marked
    LEFT JOIN LATERAL (
        SELECT tasks.key FROM stint.tasks WHERE tasks.key = marked.key FOR UPDATE SKIP LOCKED
    ) AS taken ON true
    WHERE taken.key IS NULL
), locked AS MATERIALIZED (
    SELECT held.lo, held.hi, held.overdue
    FROM held
    WHERE held.lo <> ALL (ARRAY(SELECT busy.lo FROM busy))
), spared AS (
    -- The predecessors of completed tasks of the walk that stay: these tasks ask for no results any
    -- more, so their predecessors may be free. Spontaneous tasks pass the question on.
    SELECT edge.after
    FROM judged
    CROSS JOIN LATERAL (
        SELECT edges.after
        FROM stint.edges
        WHERE edges.run BETWEEN judged.lo AND judged.hi
        OFFSET 0
    ) AS edge
    WHERE NOT judged.free AND judged.cause = 0 /* completed */ AND judged.overdue IS NOT NULL
      AND (SELECT linked.back FROM linked)
      AND (SELECT tasks.action FROM stint.tasks WHERE tasks.key = judged.lo)
          <> 'stint.Spontaneous'
), definition AS (
    DELETE FROM stint.tasks
    USING (
        SELECT task.tid
        FROM locked
        CROSS JOIN LATERAL (
            SELECT tasks.ctid AS tid
            FROM stint.tasks
            WHERE tasks.key BETWEEN locked.lo AND locked.hi
            OFFSET 0
        ) AS task
    ) AS pruned
    WHERE tasks.ctid = pruned.tid
), decided AS (
    -- The dependents have completed, or are gone. One that the first of several has started knows
    -- then, if it is opened again, that this was met (take_signals); and keeps the edges of all.
    UPDATE stint.edges
    SET accepts = edges.accepts | 7, results = '{}'
    FROM (
        SELECT edge.tid
        FROM locked
        CROSS JOIN LATERAL (
            SELECT edges.ctid AS tid, edges.run, edges.accepts, edges.results
            FROM stint.edges
            WHERE edges.after BETWEEN locked.lo AND locked.hi AND edges.accepts & 8 <> 0
              AND (SELECT linked.onward FROM linked)
            OFFSET 0
        ) AS edge
        CROSS JOIN LATERAL (
            SELECT finished.cause, coalesce(finished.result, '') AS result
            FROM stint.finished
            WHERE finished.lo = locked.lo
            OFFSET 0
        ) AS ended
        WHERE
            -- include condition_met: edge=edge; cause=ended.cause; result=ended.result
          AND NOT EXISTS (
              SELECT FROM locked AS pruned WHERE edge.run BETWEEN pruned.lo AND pruned.hi
          )
    ) AS met
    WHERE edges.ctid = met.tid
), untied AS (
    -- An edge goes with either of its tasks, so two statements that prune at once come upon the
    -- same edges. Both delete them in one order, lest they deadlock.
    DELETE FROM stint.edges
    USING (
        SELECT edge.tid, bool_or(edge.incoming) AS incoming
        FROM locked
        CROSS JOIN LATERAL (
            (SELECT edges.ctid AS tid, edges.after, edges.run, false AS incoming
             FROM stint.edges
             WHERE edges.after BETWEEN locked.lo AND locked.hi
               AND coalesce(edges.accepts & 8, 0) = 0
               AND (SELECT linked.onward FROM linked)
             OFFSET 0)
            UNION ALL
            (SELECT edges.ctid, edges.after, edges.run, true
             FROM stint.edges
             WHERE edges.run BETWEEN locked.lo AND locked.hi AND edges.accepts IS NULL
               AND (SELECT linked.back FROM linked)
             OFFSET 0)
        ) AS edge
        GROUP BY edge.after, edge.run, edge.tid
        ORDER BY edge.after, edge.run
    ) AS pruned
    WHERE edges.ctid = pruned.tid
    RETURNING edges.after, pruned.incoming
), unasked AS (
    -- An edge with a condition moves when its origin goes (decided, erase_tasks). One that another
    -- session moves meanwhile is still found by its dependent, and no longer by its place.
    DELETE FROM stint.edges
    WHERE edges.run = ANY (ARRAY(
        SELECT edge.run
        FROM locked
        CROSS JOIN LATERAL (
            SELECT edges.run
            FROM stint.edges
            WHERE edges.run BETWEEN locked.lo AND locked.hi AND edges.accepts IS NOT NULL
              AND (SELECT linked.back FROM linked)
            OFFSET 0
        ) AS edge
    ))
    RETURNING edges.after
), joined AS (
    DELETE FROM stint.joined
    WHERE joined.key = ANY (ARRAY(SELECT locked.lo FROM locked WHERE locked.lo = locked.hi))
), gone AS (
    DELETE FROM stint.finished
    WHERE finished.lo = ANY (ARRAY(SELECT locked.lo FROM locked))
    RETURNING finished.lo, finished.hi, finished.finished_at
)
SELECT (SELECT count(*) FROM walked) AS walked, last.finished_at, last.lo,
       (SELECT coalesce(sum(gone.hi - gone.lo + 1), 0)::bigint FROM gone) AS pruned,
       (SELECT min(locked.overdue) FROM locked) AS overdue,
       ARRAY(
           SELECT untied.after FROM untied WHERE untied.incoming
           UNION
           SELECT unasked.after FROM unasked
           UNION
           SELECT spared.after FROM spared
           ORDER BY after
       ) AS waited_for,
       (SELECT max(gone.finished_at) FROM gone) AS pruned_to
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
    SELECT walked.finished_at, walked.lo
    FROM walked
    ORDER BY walked.finished_at DESC, walked.lo DESC
    LIMIT 1
) AS last ON true
