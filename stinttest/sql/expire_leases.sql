-- name: expire_leases
--
-- Lets the leases on the tasks with IDs $1 expire now. Returns the IDs of those that are in
-- progress.
--
--   $1 ids  text[]
--
-- A lease is that of all tasks fetched together, so these get a part of it with a deadline of
-- its own, as in extend_leases, and leave a row of leased each to themselves. The lease of the
-- others stays, if there are others; if not, its deadline passes with the part's, when it is
-- dropped.
WITH named AS MATERIALIZED (
    SELECT span.lo, tasks.key, tasks.id
    FROM stint.tasks
    CROSS JOIN LATERAL (
        SELECT leased.lo
        FROM stint.leased
        WHERE tasks.key BETWEEN leased.lo AND leased.hi
    ) AS span
    WHERE tasks.id = ANY ($1::text[])
), held AS MATERIALIZED (
    SELECT leased.lo
    FROM stint.leased
    WHERE leased.lo IN (SELECT named.lo FROM named)
    ORDER BY leased.lo
    FOR UPDATE
), gone AS (
    DELETE FROM stint.leased
    USING held
    WHERE leased.lo = held.lo
    RETURNING leased.*
), task AS MATERIALIZED (
    SELECT span.key, named.id, gone.claim, gone.tries, gone.part, gone.completed, gone.aborted,
           gone.progress, gone.status,
           (SELECT max(leases.part) FROM stint.leases WHERE leases.claim = gone.claim)
               + dense_rank() OVER (PARTITION BY gone.claim ORDER BY gone.part) AS new_part
    FROM gone
    CROSS JOIN LATERAL generate_series(gone.lo, gone.hi) AS span (key)
    LEFT JOIN named ON named.key = span.key
), put AS (
    INSERT INTO stint.leased (lo, hi, claim, tries, part, completed, aborted, progress, status)
    SELECT task.key, task.key, task.claim, task.tries,
           CASE WHEN task.id IS NULL THEN task.part ELSE task.new_part END,
           task.completed, task.aborted, task.progress, task.status
    FROM task
), part AS MATERIALIZED (
    SELECT task.claim, task.part, task.new_part, count(*) AS size,
           array_agg(ARRAY[task.key, task.key] ORDER BY task.key) AS spans
    FROM task
    WHERE task.id IS NOT NULL
    GROUP BY task.claim, task.part, task.new_part
), shrunk AS (
    UPDATE stint.leases
    SET size = leases.size - part.size,
        deadline = CASE WHEN leases.size = part.size THEN statement_timestamp()
                        ELSE leases.deadline
                   END
    FROM part
    WHERE leases.claim = part.claim AND leases.part = part.part
    RETURNING leases.claim, leases.actor, leases.session, part.new_part, part.size, part.spans
), split AS (
    INSERT INTO stint.leases (claim, part, actor, session, deadline, size, spans)
    SELECT shrunk.claim, shrunk.new_part, shrunk.actor, shrunk.session, statement_timestamp(),
           shrunk.size, shrunk.spans
    FROM shrunk
)
SELECT task.id FROM task WHERE task.id IS NOT NULL
