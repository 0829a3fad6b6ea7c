-- name: change_tasks
--
-- Changes tasks that wait. Returns the key and the state of each, numbered as in task_states; tasks
-- that have started, or whose lease has expired, are only reported. A further row for each task
-- that was changed has no state, and the action, unless the task is blocked. A key that is not in
-- the answer has moved on since the statement began, or shares a span that somebody was carving.
--
--   $1 keys        bigint[], sorted; split_changing has split those off their spans that it makes
--                  different
--   $2 moves       boolean: change when they start
--   $3 not_before  timestamptz: then
--   $4 delay       interval, or so long after this call; both null, or past: at once
--   $5 priority    smallint, null: as it is
--   $6 rekeys      boolean: change their limit keys
--   $7 limit_key   text, null: none
--   $8 max_tries   integer, 0: as it is; -1: no limit
--
-- Waits for whoever holds a task at this moment. Rows are locked table by table, in the order of
-- withdraw_tasks, and by key in each table.
WITH start AS MATERIALIZED (
    -- No row: at once.
    SELECT later.not_before
    FROM (
        VALUES (coalesce($3::timestamptz, statement_timestamp() + $4::interval))
    ) AS later (not_before)
    WHERE later.not_before > statement_timestamp()
), held AS MATERIALIZED (
    SELECT ready.* FROM (
        -- One that was parked goes back to where it was in the queue. The next fetch sorts it in
        -- anew: it may have another key, or another priority among those of its key.
        SELECT 2 /* ready */ AS state, ready.lo AS key, ready.tries,
               NULL::timestamptz AS not_before, ready.position & 9223372036854775807 AS position,
               ready.claim, ready.completed, ready.aborted, ready.status, ready.ready_at
        FROM stint.ready
        WHERE ready.lo = ANY ($1::bigint[]) AND ready.hi = ready.lo AND NOT ready.late
        ORDER BY ready.lo
        FOR UPDATE
    ) AS ready
    UNION ALL
    SELECT scheduled.* FROM (
        SELECT 1 /* scheduled */, scheduled.key, scheduled.tries, scheduled.not_before,
               NULL::bigint, scheduled.claim, scheduled.completed, scheduled.aborted,
               scheduled.status, statement_timestamp()
        FROM stint.scheduled
        WHERE scheduled.key = ANY ($1::bigint[])
        ORDER BY scheduled.key
        FOR UPDATE
    ) AS scheduled
    UNION ALL
    SELECT blocked.* FROM (
        SELECT 0 /* blocked */, blocked.key, blocked.tries, blocked.not_before, NULL::bigint,
               NULL::bigint, NULL::integer, NULL::integer, NULL, NULL::timestamptz
        FROM stint.blocked
        WHERE blocked.key = ANY ($1::bigint[])
        ORDER BY blocked.key
        FOR UPDATE
    ) AS blocked
), wanted AS MATERIALIZED (
    -- The definitions are locked, too: somebody may have changed that of a blocked task, or
    -- replaced it (Debounce), since the snapshot. One that was replaced is not in the answer, and
    -- is looked at again.
    SELECT held.*, task.action, task.deadline, task.was_priority, task.was_key, task.was_tries,
           coalesce($5::smallint, task.was_priority) AS priority,
           CASE WHEN $6::boolean THEN $7::text COLLATE "C" ELSE task.was_key END AS limit_key,
           -- A task has one more try than it has had, at least.
           CASE
               WHEN $8::integer = 0 OR task.action = 'stint.Spontaneous' THEN -1 /* as it is */
               WHEN $8::integer < 0 THEN 0 /* no limit */
               ELSE greatest($8::integer, held.tries + 1)
           END AS max_tries,
           -- A spontaneous task is never ready: it ends when its time has come.
           CASE
               WHEN NOT $2::boolean THEN held.not_before
               WHEN task.action = 'stint.Spontaneous' AND held.state = 1 /* scheduled */
               THEN coalesce((SELECT start.not_before FROM start),
                             least(held.not_before, statement_timestamp()))
               ELSE (SELECT start.not_before FROM start)
           END AS starts
    FROM held
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.deadline, tasks.priority AS was_priority,
               tasks.limit_key AS was_key, tasks.max_tries AS was_tries
        FROM stint.tasks
        WHERE tasks.key = held.key
        FOR UPDATE
    ) AS task
), defined AS (
    -- By key, not by place: the row may have a version that is younger than the snapshot.
    UPDATE stint.tasks
    SET priority = coalesce($5::smallint, tasks.priority),
        limit_key = CASE WHEN $6::boolean THEN $7::text ELSE tasks.limit_key END,
        max_tries = coalesce(nullif(
            (ARRAY(SELECT wanted.max_tries FROM wanted ORDER BY wanted.key))[
                width_bucket(tasks.key, ARRAY(SELECT wanted.key FROM wanted ORDER BY wanted.key))
            ], -1), tasks.max_tries)
    WHERE tasks.key = ANY (ARRAY(SELECT wanted.key FROM wanted ORDER BY wanted.key))
      AND (tasks.priority <> $5::smallint
           OR $6::boolean AND tasks.limit_key IS DISTINCT FROM $7::text COLLATE "C"
           OR tasks.max_tries <> nullif(
                  (ARRAY(SELECT wanted.max_tries FROM wanted ORDER BY wanted.key))[
                      width_bucket(tasks.key,
                                   ARRAY(SELECT wanted.key FROM wanted ORDER BY wanted.key))
                  ], -1))
    RETURNING tasks.key
), changed AS MATERIALIZED (
    SELECT wanted.*
    FROM wanted
    WHERE wanted.priority <> wanted.was_priority
       OR wanted.limit_key IS DISTINCT FROM wanted.was_key
       OR wanted.max_tries NOT IN (-1, wanted.was_tries)
       OR wanted.starts IS DISTINCT FROM wanted.not_before
), postponed AS (
    -- One of which only the definition changes gets a new version, too: settle_tasks looks for it.
    UPDATE stint.blocked
    SET not_before = CASE WHEN $2::boolean
                          THEN (SELECT start.not_before FROM start)
                          ELSE blocked.not_before
                     END
    WHERE blocked.key = ANY (ARRAY(
        SELECT changed.key FROM changed WHERE changed.state = 0 /* blocked */ ORDER BY changed.key
    ))
    RETURNING blocked.key
), moved AS MATERIALIZED (
    -- A ready or scheduled task gets a new row in any case. A fetch that has begun before may
    -- find an old row with new values, but never the old definition with a new row.
    SELECT changed.* FROM changed WHERE changed.state <> 0 /* blocked */
), unqueued AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(
        SELECT moved.key FROM moved WHERE moved.state = 2 /* ready */ ORDER BY moved.key
    ))
    RETURNING ready.lo
), unscheduled AS (
    DELETE FROM stint.scheduled
    WHERE scheduled.key = ANY (ARRAY(
        SELECT moved.key FROM moved WHERE moved.state = 1 /* scheduled */ ORDER BY moved.key
    ))
    RETURNING scheduled.key
), placed AS MATERIALIZED (
    -- The counts have the old rows go first: the new ones have the same keys.
    SELECT moved.*
    FROM moved
    WHERE (SELECT count(*) FROM unqueued) + (SELECT count(*) FROM unscheduled) > 0
), queued AS (
    -- Tasks that are alike and have consecutive keys become spans, as in settle_tasks. One that was
    -- ready keeps its position, and with it its age.
    INSERT INTO stint.ready
        (position, lo, hi, claim, tries, completed, aborted, action, priority, deadline, status,
         ready_at, limit_key)
    SELECT coalesce(alike.position, nextval('stint.positions')), min(alike.key), max(alike.key),
           alike.claim, alike.tries, alike.completed, alike.aborted, alike.action, alike.priority,
           alike.deadline, alike.status, alike.ready_at, alike.limit_key
    FROM (
        SELECT placed.*,
               CASE WHEN placed.tries > 0 OR placed.claim IS NOT NULL
                         OR placed.deadline IS NOT NULL
                    THEN placed.key
                    ELSE placed.key - row_number() OVER (
                        PARTITION BY placed.key >> 6, placed.action, placed.priority,
                                     placed.limit_key, placed.completed, placed.aborted,
                                     placed.position, placed.not_before, placed.ready_at,
                                     placed.tries > 0 OR placed.claim IS NOT NULL
                                         OR placed.deadline IS NOT NULL
                        ORDER BY placed.key)
               END AS island
        FROM placed
        WHERE placed.starts IS NULL
    ) AS alike
    GROUP BY alike.key >> 6, alike.island, alike.claim, alike.tries, alike.completed,
             alike.aborted, alike.action, alike.priority, alike.deadline, alike.status,
             alike.limit_key, alike.position, alike.not_before, alike.ready_at
    ORDER BY alike.not_before, min(alike.key)
), later AS (
    INSERT INTO stint.scheduled (key, not_before, claim, tries, completed, aborted, status)
    SELECT placed.key, placed.starts, placed.claim, placed.tries, placed.completed,
           placed.aborted, placed.status
    FROM placed
    WHERE placed.starts IS NOT NULL
)
SELECT wanted.key, wanted.state::smallint, NULL AS action FROM wanted
UNION ALL
-- Those that share a span are so already, or became ready behind split_changing.
SELECT named.key, 2 /* ready */, NULL
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    -- include span_of_key: table=ready; key=named.key; columns=ready.lo, ready.hi
) AS span
CROSS JOIN LATERAL (
    SELECT tasks.priority, tasks.limit_key, tasks.max_tries
    FROM stint.tasks
    WHERE tasks.key = named.key
    OFFSET 0
) AS task
WHERE span.lo < span.hi AND span.hi >= named.key
  AND NOT ($2::boolean AND (SELECT true FROM start) IS NOT NULL
           OR task.priority IS DISTINCT FROM coalesce($5::smallint, task.priority)
           OR $6::boolean AND task.limit_key IS DISTINCT FROM $7::text COLLATE "C"
           OR $8::integer <> 0 AND task.max_tries <> greatest($8::integer, 0))
UNION ALL
SELECT ready.lo, 3 /* in progress */, NULL
FROM stint.ready
WHERE ready.lo = ANY ($1::bigint[]) AND ready.hi = ready.lo AND ready.late
UNION ALL
SELECT named.key, 3 /* in progress */, NULL
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    -- include span_of_key: table=leased; key=named.key; columns=leased.hi
) AS span
WHERE span.hi >= named.key
UNION ALL
SELECT named.key, (10 + span.cause)::smallint, NULL
FROM unnest($1::bigint[]) AS named (key)
CROSS JOIN LATERAL (
    -- include span_of_key: table=finished; key=named.key; columns=finished.hi, finished.cause
) AS span
WHERE span.hi >= named.key
  -- One that was replaced has no definition: the caller looks again, at the one with its ID.
  AND (SELECT true FROM stint.tasks WHERE tasks.key = named.key)
UNION ALL
SELECT moved.key, NULL, moved.action FROM moved
UNION ALL
SELECT defined.key, NULL, NULL FROM defined
UNION ALL
SELECT postponed.key, NULL, NULL FROM postponed
