-- name: withdraw_tasks
--
-- Takes unfinished tasks out of the states they are in. Returns key, state and tries of each, the
-- state numbered as in task_states, of a ready one its position in the queue, as if it were not
-- parked, of a scheduled one its time, and of an owned one its owner. Final tasks are only
-- reported, and so are owned ones unless $2 says otherwise. A key that is not in the answer has
-- moved on since the statement began, or shares a span that somebody was carving.
--
--   $1 keys   bigint[], sorted; ready and owned tasks must have been split off their spans
--   $2 owned  boolean: take the owned tasks, too
--   $3 alone  boolean: final tasks must have been split off, too, and are kept as they are
--
-- Waits for whoever holds a task at this moment. Rows are locked table by table, by key in each.
WITH RECURSIVE reached (key, falls) AS (
    -- The blocked tasks are locked together with those that an abort would bring down (falls) or
    -- signal, for the reason that lock_dependents gives. What is behind one that is neither named
    -- nor blocked has gone down with it before. The binary searches find those that are named: here
    -- and below, = ANY would go through all of them for each row.
    SELECT named.key, true FROM unnest($1::bigint[]) AS named (key)
    UNION
    SELECT edge.run,
           (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
    FROM reached
    CROSS JOIN LATERAL (
        SELECT edges.run
        FROM stint.edges
        WHERE edges.after = reached.key
          AND ($1::bigint[])[width_bucket(edges.run, $1::bigint[])] IS DISTINCT FROM edges.run
          AND (($1::bigint[])[width_bucket(reached.key, $1::bigint[])] = reached.key
               OR (SELECT true FROM stint.blocked WHERE blocked.key = reached.key))
        OFFSET 0
    ) AS edge
    WHERE reached.falls
), held AS MATERIALIZED (
    SELECT ready.* FROM (
        SELECT 2 /* ready */ AS state, ready.lo AS key, ready.tries,
               ready.position & 9223372036854775807 AS position, NULL::timestamptz AS not_before,
               NULL::text AS actor
        FROM stint.ready
        WHERE ready.lo = ANY ($1::bigint[]) AND ready.hi = ready.lo
        ORDER BY ready.lo
        FOR UPDATE
    ) AS ready
    UNION ALL
    SELECT scheduled.* FROM (
        SELECT 1 /* scheduled */, scheduled.key, scheduled.tries, NULL::bigint,
               scheduled.not_before, NULL
        FROM stint.scheduled
        WHERE scheduled.key = ANY ($1::bigint[])
        ORDER BY scheduled.key
        FOR UPDATE
    ) AS scheduled
    UNION ALL
    SELECT leased.* FROM (
        SELECT 3 /* in progress */, leased.lo, leased.tries, NULL::bigint, NULL::timestamptz,
               (SELECT leases.actor
                FROM stint.leases
                WHERE leases.claim = leased.claim AND leases.part = leased.part)
        FROM stint.leased
        WHERE leased.lo = ANY ($1::bigint[]) AND leased.hi = leased.lo
        ORDER BY leased.lo
        FOR UPDATE
    ) AS leased
    UNION ALL
    SELECT blocked.* FROM (
        SELECT 0 /* blocked */, blocked.key, blocked.tries, NULL::bigint, NULL::timestamptz, NULL
        FROM stint.blocked
        WHERE blocked.key = ANY (ARRAY(SELECT reached.key FROM reached))
        ORDER BY blocked.key
        OFFSET 0 -- a fence: all are locked, not only those that the condition below lets through
        FOR UPDATE
    ) AS blocked
    WHERE ($1::bigint[])[width_bucket(blocked.key, $1::bigint[])] = blocked.key
), unqueued AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT held.key FROM held WHERE held.state = 2 /* ready */))
), unscheduled AS (
    DELETE FROM stint.scheduled
    WHERE scheduled.key = ANY (ARRAY(
        SELECT held.key FROM held WHERE held.state = 1 /* scheduled */
    ))
), disowned AS (
    DELETE FROM stint.leased
    WHERE $2::boolean
      AND leased.lo = ANY (ARRAY(
          SELECT held.key FROM held WHERE held.state = 3 /* in progress */
      ))
), unblocked AS (
    DELETE FROM stint.blocked
    WHERE blocked.key = ANY (ARRAY(
        SELECT held.key FROM held WHERE held.state = 0 /* blocked */
    ))
)
SELECT held.key, held.state, held.tries, held.position, held.not_before, held.actor
FROM held
UNION ALL
SELECT named.key, 10 + span.cause, span.tries, NULL, NULL, NULL
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    -- include span_of_key: table=finished; key=named.key;
    --   columns=finished.hi, finished.tries, finished.cause
) AS span
WHERE NOT $3::boolean AND span.hi >= named.key
  -- One that was replaced has no definition: the caller looks again, at the one with its ID.
  AND (SELECT true FROM stint.tasks WHERE tasks.key = named.key)
UNION ALL
SELECT final.*
FROM (
    SELECT named.key, 10 + span.cause, span.tries, NULL::bigint, NULL::timestamptz, NULL
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        -- include span_of_key: table=finished; key=named.key;
        --   columns=finished.lo, finished.hi, finished.tries, finished.cause
    ) AS span
    CROSS JOIN LATERAL (
        -- Of two who delete a task at once, the second finds that it is gone.
        SELECT tasks.key FROM stint.tasks WHERE tasks.key = named.key FOR UPDATE
    ) AS definition
    WHERE $3::boolean AND span.hi >= named.key AND span.lo = span.hi
) AS final
