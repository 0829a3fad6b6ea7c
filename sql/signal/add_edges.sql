-- name: add_edges
--
-- Adds edges into tasks that are in the store and pending, and makes these tasks wait. An edge that
-- exists already changes nothing.
--
--   $1 after    bigint[]: the tasks to wait for
--   $2 run      bigint[]: the tasks that wait. lock_states has locked them, and split_ready has cut
--               them out of their spans
--   $3 accepts  smallint[]: the conditions of the edges; null: all are ordinary
--   $4 results  text[]: each an array of bytea, or null
WITH edge AS (
    INSERT INTO stint.edges (after, run, accepts, results)
    SELECT edge.after, edge.run, edge.accepts, edge.results::bytea[]
    FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::text[])
        AS edge (after, run, accepts, results)
    ON CONFLICT DO NOTHING
    RETURNING edges.run
), counted AS MATERIALIZED (
    -- How many more signals each task waits for.
    SELECT edge.run AS key, count(*) AS missing
    FROM edge
    GROUP BY edge.run
), pending AS MATERIALIZED (
    -- A task that was ready or scheduled so far takes its claim, its tries and its status text
    -- along. A task that is blocked already has neither row.
    SELECT counted.key, counted.missing, later.not_before,
           coalesce(queued.claim, later.claim) AS claim,
           coalesce(queued.completed, later.completed, 0) AS completed,
           coalesce(queued.aborted, later.aborted, 0) AS aborted,
           coalesce(queued.tries, later.tries, 0) AS tries,
           coalesce(queued.status, later.status) AS status
    FROM counted
    LEFT JOIN LATERAL (
        SELECT ready.* FROM stint.ready WHERE ready.lo = counted.key OFFSET 0
    ) AS queued ON true
    LEFT JOIN LATERAL (
        SELECT scheduled.* FROM stint.scheduled WHERE scheduled.key = counted.key OFFSET 0
    ) AS later ON true
), unqueued AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT counted.key FROM counted)) AND ready.hi = ready.lo
), unscheduled AS (
    DELETE FROM stint.scheduled
    WHERE scheduled.key = ANY (ARRAY(SELECT counted.key FROM counted))
)
INSERT INTO stint.blocked (key, not_before, claim, missing, completed, aborted, tries, status)
SELECT pending.key, pending.not_before, pending.claim, pending.missing, pending.completed,
       pending.aborted, pending.tries, pending.status
FROM pending
-- A task that is blocked already keeps its row, and waits for more signals.
ON CONFLICT (key) DO UPDATE SET missing = blocked.missing + excluded.missing
