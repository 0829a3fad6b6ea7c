-- name: settle_tasks
--
-- Draws the consequences of the end of tasks for others (R12, R14). It ends the tasks that batch $1
-- has in round $2 of settling, and hands the signals that are there, and those of the tasks that
-- end, to the dependents. It goes on in the same way with the dependents that end in their turn:
-- spontaneous tasks, tasks whose predecessor was aborted, tasks whose conditions cannot be met any
-- more (R23), and tasks that a deletion leaves with nothing to wait for. The other dependents
-- become ready or scheduled when nothing is missing, or the first of several has ended as it must.
--
--   $1 batch    bigint
--   $2 round    integer
--   $3 counted  smallint: count the tasks that end here for that cause; NULL: count none
--
-- It runs behind the statement that ended the first tasks, in the same round trip. lock_dependents
-- goes ahead, so that this statement sees edges and counts as of after the locks: whoever counts
-- last knows that it does, and an edge that was added meanwhile is not missed.
--
-- A row that lock_dependents did not foresee is locked here. Its values may be newer than the
-- snapshot. If it has a new version (moved), the task may have edges, or a definition, that the
-- snapshot does not hold: if it ends, or waits for nothing more, it goes into settling for the next
-- round. settling_rounds fails a transaction that would need another.
--
-- The causes are those of finished: 0 completed, 3 a predecessor was aborted, 5 replaced, 8
-- skipped; and 7 deleted. Replaced tasks and deleted ones leave no signal, but nobody may wait for
-- them either; a task of which all predecessors were deleted is deleted too (R5, R17). It is if no
-- edge leads into it but those from tasks that are deleted here (orphans): edges from tasks that
-- have ended stay as long as the dependent has not, also if these have left the store since. The
-- gate of an insert over several shards does not count: nobody has asked to wait for it.
--
-- verdict is that of settling. In the walk, 8 says that the task has ended ahead of some of its
-- signals: those that come later find that it is over.
--
-- Returns what others may wait for: the actions of tasks that now need nothing but an owner or
-- their time; the keys of tasks that ended here and post their results (as may those that have left
-- their definitions already); and how many ended for the cause $3.
WITH RECURSIVE due AS (
    DELETE FROM stint.settling
    WHERE settling.batch = $1::bigint AND settling.round = $2::integer
    RETURNING settling.*
), doomed (key) AS (
    -- The tasks that aborts bring down, whatever else they wait for. One that is not blocked has
    -- gone down before, and with it what is behind it: the walk must not go through that again.
    SELECT due.key
    FROM due
    WHERE due.spoiled
      AND (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = due.key) = 0
    UNION
    SELECT edge.run
    FROM due
    CROSS JOIN LATERAL (
        -- An edge that accepts an abort (2), or is one of several (8), brings nothing down.
        SELECT edges.run
        FROM stint.edges
        WHERE edges.after = due.key AND coalesce(edges.accepts & 10, 0) = 0
        OFFSET 0
    ) AS edge
    WHERE due.cause NOT IN (0 /* completed */, 5 /* replaced */, 7 /* deleted */, 8 /* skipped */)
      AND (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
    UNION
    SELECT edge.run
    FROM doomed
    CROSS JOIN LATERAL (
        SELECT edges.run
        FROM stint.edges
        WHERE edges.after = doomed.key AND coalesce(edges.accepts & 10, 0) = 0
          AND (SELECT true FROM stint.blocked WHERE blocked.key = doomed.key)
        OFFSET 0
    ) AS edge
    WHERE (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
), fallen AS MATERIALIZED (
    -- The rows of the doomed tasks, locked in the order of their keys; unmoved says that they are
    -- those of the snapshot.
    SELECT doomed.key, blocked.tries, blocked.status, blocked.version = seen.version AS unmoved
    FROM (SELECT doomed.key FROM doomed ORDER BY doomed.key) AS doomed
    CROSS JOIN LATERAL (
        SELECT blocked.xmin AS version FROM stint.blocked WHERE blocked.key = doomed.key OFFSET 0
    ) AS seen
    CROSS JOIN LATERAL (
        SELECT blocked.*, blocked.xmin AS version
        FROM stint.blocked
        WHERE blocked.key = doomed.key
        FOR UPDATE
    ) AS blocked
), ending (key, otherwise) AS (
    -- The tasks that may end here, and more; otherwise says that they may do so otherwise than by
    -- being completed. This, and threatened, is read only if a task is to be skipped that still
    -- waits for others.
    SELECT due.key, due.spoiled IS true OR coalesce(due.verdict, 0) <> 0
    FROM due
    WHERE due.cause IS NULL
    UNION
    SELECT edge.run, due.cause <> 0 /* completed */ OR edge.accepts IS NOT NULL
    FROM due
    CROSS JOIN LATERAL (
        SELECT edges.run, edges.accepts FROM stint.edges WHERE edges.after = due.key OFFSET 0
    ) AS edge
    WHERE due.cause IS NOT NULL
    UNION
    SELECT edge.run, ending.otherwise OR edge.accepts IS NOT NULL
    FROM ending
    CROSS JOIN LATERAL (
        SELECT edges.run, edges.accepts
        FROM stint.edges
        WHERE edges.after = ending.key
          AND (SELECT true FROM stint.blocked WHERE blocked.key = ending.key)
          AND (ending.otherwise
               OR (SELECT tasks.action
                   FROM stint.tasks
                   WHERE tasks.key = ending.key) = 'stint.Spontaneous')
        OFFSET 0
    ) AS edge
), threatened (key) AS (
    -- The tasks that an abort brings down if none of several has ended as a task wants it, which
    -- shows only in a later round.
    SELECT edge.run
    FROM ending
    CROSS JOIN LATERAL (
        SELECT edges.run
        FROM stint.edges
        WHERE edges.after = ending.key AND coalesce(edges.accepts & 10, 0) = 0
          AND (SELECT several.accepts & 8
               FROM stint.edges AS several
               WHERE several.run = ending.key
               LIMIT 1) <> 0
          AND (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = ending.key) = 0
          AND (SELECT true FROM stint.blocked WHERE blocked.key = ending.key)
        OFFSET 0
    ) AS edge
    WHERE ending.otherwise
      AND (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
    UNION
    SELECT edge.run
    FROM threatened
    CROSS JOIN LATERAL (
        SELECT edges.run
        FROM stint.edges
        WHERE edges.after = threatened.key AND coalesce(edges.accepts & 10, 0) = 0
          AND (SELECT true FROM stint.blocked WHERE blocked.key = threatened.key)
        OFFSET 0
    ) AS edge
    WHERE (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
), walk (key, cause, claim, tries, actor, status, missing, had_completed, had_aborted, not_before,
         signals, completed, aborted, orphans, moved, verdict, age, kept) AS (
    -- The others end level by level: a row is a task that ends (cause), or one that waits, with the
    -- signals that it has got. It is kept for the next levels, in which it may get the last one,
    -- but for eight of them at most, since each costs another scan of all that is kept. A task that
    -- gets its last signal later goes into settling, too, so a round comes at least eight levels
    -- far.
    SELECT due.key, due.cause, due.claim, due.tries, due.actor, due.status, 0, 0, 0,
           NULL::timestamptz, coalesce(due.signals, 0), coalesce(due.completed, 0),
           coalesce(due.aborted, 0), 0, false, coalesce(due.verdict, 0::smallint), 8,
           due.cause IS NULL
    FROM due
    WHERE due.cause IS NOT NULL OR due.spoiled IS NOT true
       OR (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = due.key) <> 0
    UNION ALL
    SELECT fallen.key, 3::smallint /* a predecessor */, NULL, fallen.tries, NULL, fallen.status,
           0, 0, 0, NULL, 0, 0, 0, 0, false, 0::smallint, 0, false
    FROM fallen
    WHERE fallen.unmoved
    UNION ALL
    SELECT step.key, step.cause, CASE WHEN step.cause IS NULL THEN step.claim END, step.tries, NULL,
           step.status, step.missing, step.had_completed, step.had_aborted, step.not_before,
           step.signals, step.completed, step.aborted, step.orphans, step.moved,
           step.verdict | CASE WHEN step.cause IS NOT NULL AND step.verdict & 3 <> 0
                                    AND step.missing > step.signals THEN 8
                               ELSE 0
                          END::smallint,
           step.age,
           step.cause IS NULL
               AND (step.age > 0 OR step.verdict & 8 <> 0 AND step.missing > step.signals)
               AND bool_or(step.cause IS NOT NULL) OVER ()
    FROM (
        SELECT arrived.*, judged.cause, seen.moved, blocked.claim, blocked.tries, blocked.status,
               blocked.missing, blocked.completed AS had_completed,
               blocked.aborted AS had_aborted, blocked.not_before
        FROM (
            SELECT arrival.key, max(arrival.age) AS age, sum(arrival.signals)::integer AS signals,
                   least(sum(arrival.completed), 2147483647)::integer AS completed,
                   least(sum(arrival.aborted), 2147483647)::integer AS aborted,
                   sum(arrival.orphans)::integer AS orphans, bit_or(arrival.verdict) AS verdict
            FROM (
                SELECT arrival.*
                FROM walk
                CROSS JOIN LATERAL (
                    SELECT walk.key, walk.signals, walk.completed, walk.aborted, walk.orphans,
                           walk.verdict, walk.age - 1
                    WHERE walk.kept OR walk.verdict & 8 <> 0 AND walk.cause IS NOT NULL
                    UNION ALL
                    SELECT edges.run, 1,
                           CASE WHEN walk.cause = 0 /* completed */
                                THEN least(walk.had_completed::bigint + walk.completed, 2147483647)
                                ELSE 0 END::integer,
                           CASE WHEN walk.cause = 0 /* completed */
                                     AND edges.accepts & 8 <> 0 AND NOT
                                     -- include condition_met: edge=edges; cause=walk.cause;
                                     --   result=''
                                THEN 0 -- not met: only tasks that were aborted themselves count
                                WHEN walk.cause = 0 /* completed */
                                THEN least(walk.had_aborted::bigint + walk.aborted, 2147483647)
                                WHEN walk.cause IN (5 /* replaced */, 7 /* deleted */,
                                                    8 /* skipped */) THEN 0
                                ELSE 1 END::integer,
                           (walk.cause = 7 /* deleted */ AND edges.accepts IS NULL)::integer,
                           -- What completes here has an empty result.
                           CASE
                               WHEN edges.accepts IS NULL
                               THEN (walk.cause = 8 /* skipped */ AND (
                                         SELECT tasks.on_abort
                                         FROM stint.tasks
                                         WHERE tasks.key = edges.run
                                     ) = 0)::integer
                               ELSE
                                   -- include verdict_of_condition: edge=edges; cause=walk.cause;
                                   --   result=''
                           END::smallint, 8
                    FROM stint.edges
                    WHERE edges.after = walk.key AND walk.cause IS NOT NULL
                      AND (walk.cause IN (0 /* completed */, 5 /* replaced */, 7 /* deleted */,
                                          8 /* skipped */)
                           OR edges.accepts & 10 <> 0
                           OR (SELECT tasks.on_abort
                               FROM stint.tasks
                               WHERE tasks.key = edges.run) <> 0)
                ) AS arrival (key, signals, completed, aborted, orphans, verdict, age)
            ) AS arrival
            GROUP BY arrival.key
            ORDER BY arrival.key
        ) AS arrived
        CROSS JOIN LATERAL (
            SELECT blocked.*, blocked.xmin AS version
            FROM stint.blocked
            WHERE blocked.key = arrived.key
            FOR UPDATE
        ) AS blocked
        CROSS JOIN LATERAL (
            SELECT blocked.version IS DISTINCT FROM (
                SELECT blocked.xmin FROM stint.blocked WHERE blocked.key = arrived.key
            ) AS moved
            OFFSET 0
        ) AS seen
        CROSS JOIN LATERAL (
            -- A task that an abort brings down is not skipped, and neither is one that it may bring
            -- down in the next round. One of which all have ended otherwise than they must, some by
            -- an abort, falls in the next round.
            SELECT CASE
                       WHEN arrived.verdict & 8 <> 0
                            OR blocked.missing <> arrived.signals AND arrived.verdict & 3 = 0
                            OR arrived.verdict & 1 = 0
                               AND (arrived.verdict & 2 <> 0
                                    OR arrived.verdict = 0 AND arrived.orphans = 0)
                               AND (
                                   (SELECT tasks.action
                                    FROM stint.tasks
                                    WHERE tasks.key = arrived.key) <> 'stint.Spontaneous'
                                   OR blocked.not_before > statement_timestamp()
                               )
                            OR seen.moved THEN NULL
                       WHEN arrived.verdict & 1 <> 0
                       THEN CASE WHEN arrived.key IN (SELECT fallen.key FROM fallen) THEN NULL
                                 WHEN blocked.missing > arrived.signals
                                      AND arrived.key IN (SELECT threatened.key FROM threatened)
                                 THEN NULL
                                 ELSE 8::smallint /* skipped */
                            END
                       WHEN arrived.verdict & 2 <> 0 THEN 0::smallint /* completed */
                       WHEN arrived.verdict & 4 <> 0
                       THEN CASE WHEN blocked.aborted + arrived.aborted = 0
                                      OR (SELECT tasks.on_abort
                                          FROM stint.tasks
                                          WHERE tasks.key = arrived.key) <> 0
                                 THEN 8::smallint /* skipped */
                            END
                       WHEN (arrived.orphans > 0 OR arrived.verdict & 16 <> 0) AND (
                           SELECT count(*)
                           FROM (
                               SELECT
                               FROM stint.edges
                               WHERE edges.run = arrived.key
                                 AND starts_with((SELECT tasks.id FROM stint.tasks
                                                  WHERE tasks.key = edges.after), 'stint.gate/')
                                     IS NOT true
                               LIMIT arrived.orphans + 1
                           ) AS edge
                       ) <= arrived.orphans THEN 7::smallint /* deleted */
                       WHEN (SELECT tasks.action
                             FROM stint.tasks
                             WHERE tasks.key = arrived.key) = 'stint.Spontaneous'
                            AND blocked.not_before > statement_timestamp() IS NOT true
                       THEN 0::smallint /* completed */
                   END AS cause
            OFFSET 0
        ) AS judged
    ) AS step
), ended AS MATERIALIZED (
    SELECT walk.* FROM walk WHERE walk.cause IS NOT NULL
), recorded AS (
    INSERT INTO stint.finished (lo, hi, claim, tries, cause, actor, status)
    SELECT ended.key, ended.key, ended.claim, ended.tries, ended.cause, ended.actor, ended.status
    FROM ended
    WHERE ended.cause <> 7 /* deleted */
), joined AS (
    -- A spontaneous task stands for those it waited for: completed, it passes their numbers on,
    -- which layers of joins may drive up to the largest integer, but not beyond.
    INSERT INTO stint.joined (key, completed, aborted)
    SELECT ended.key, least(ended.had_completed::bigint + ended.completed, 2147483647),
           least(ended.had_aborted::bigint + ended.aborted, 2147483647)
    FROM ended
    WHERE ended.cause = 0 /* completed */
), definition AS (
    DELETE FROM stint.tasks
    WHERE tasks.key = ANY (ARRAY(SELECT ended.key FROM ended WHERE ended.cause = 7 /* deleted */))
    RETURNING tasks.key, tasks.deadline
), limited AS (
    -- include drop_deadlines
), counted AS MATERIALIZED (
    -- The tasks that have got signals and did not end in the walk, with all their signals together.
    SELECT target.key, max(target.claim) AS claim, max(target.tries) AS tries,
           max(target.status) AS status, max(target.not_before) AS not_before,
           CASE WHEN bit_or(target.verdict) & 2 = 0
                THEN max(target.missing) - sum(target.signals)
                ELSE 0
           END AS missing,
           least(max(target.had_completed) + sum(target.completed), 2147483647) AS completed,
           least(max(target.had_aborted) + sum(target.aborted), 2147483647) AS aborted,
           sum(target.signals) AS signals, sum(target.completed) AS told_completed,
           sum(target.aborted) AS told_aborted, sum(target.orphans) AS orphans,
           bool_or(target.moved) AS moved, bit_or(target.verdict) AS verdict,
           bool_or(target.falls) IS true AS doomed
    FROM (
        SELECT walk.key, walk.claim, walk.tries, walk.status, walk.not_before, walk.missing,
               walk.had_completed, walk.had_aborted, walk.signals, walk.completed, walk.aborted,
               walk.orphans, walk.moved, walk.verdict, NULL::boolean AS falls
        FROM walk
        WHERE walk.cause IS NULL AND NOT walk.kept
        UNION ALL
        SELECT fallen.key, NULL, fallen.tries, fallen.status, NULL, 0, 0, 0, 0, 0, 0, 0, false, 0,
               NOT fallen.unmoved
        FROM fallen
    ) AS target
    GROUP BY target.key
    HAVING bool_and(target.falls) IS NOT false AND bit_or(target.verdict) & 8 = 0
    ORDER BY target.key
), judged AS MATERIALIZED (
    -- The next round decides (later) whether all predecessors of a task were deleted, since it sees
    -- the edges as they are by now, and whether a task is skipped, or an abort brings it down. It
    -- also sees the definition of a task that somebody has changed.
    SELECT counted.*, task.action, task.priority, task.deadline, timing.early,
           CASE WHEN counted.doomed THEN 3 /* a predecessor */
                WHEN next.decides OR counted.missing <> 0 THEN NULL
                WHEN counted.verdict & 6 = 4
                THEN CASE WHEN counted.aborted > 0 AND task.on_abort = 0
                          THEN 3 /* a predecessor */
                          ELSE 8 /* skipped */
                     END
                WHEN task.action = 'stint.Spontaneous' AND NOT timing.early THEN 0 /* completed */
           END AS cause, next.decides AS later
    FROM counted
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.priority, tasks.deadline, tasks.on_abort
        FROM stint.tasks
        WHERE tasks.key = counted.key
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (
        SELECT coalesce(counted.not_before > statement_timestamp(), false)
    ) AS timing (early)
    CROSS JOIN LATERAL (
        SELECT NOT counted.doomed
               AND CASE
                       WHEN counted.verdict & 1 <> 0 OR counted.moved AND counted.missing = 0
                       THEN true
                       WHEN counted.orphans = 0 OR counted.missing <> 0
                            OR counted.verdict & 22 <> 0 THEN false
                       ELSE (
                           SELECT count(*)
                           FROM (
                               SELECT
                               FROM stint.edges
                               WHERE edges.run = counted.key
                                 AND starts_with((SELECT tasks.id FROM stint.tasks
                                                  WHERE tasks.key = edges.after), 'stint.gate/')
                                     IS NOT true
                               LIMIT counted.orphans + 1
                           ) AS edge
                       ) <= counted.orphans
                   END
        OFFSET 0
    ) AS next (decides)
), outgoing AS (
    -- A task that goes on without one that was replaced keeps the edge, as from one that has ended.
    -- One with a condition stays in any case: it is not met, also if its task is opened again.
    DELETE FROM stint.edges
    USING (
        SELECT edge.tid
        FROM ended
        CROSS JOIN LATERAL (
            SELECT edges.ctid AS tid, edges.run
            FROM stint.edges
            WHERE edges.after = ended.key AND edges.accepts IS NULL
            OFFSET 0
        ) AS edge
        WHERE ended.cause IN (5 /* replaced */, 7 /* deleted */)
          AND (ended.cause = 7 /* deleted */ OR edge.run NOT IN (
              SELECT judged.key FROM judged WHERE judged.cause IS NULL
          ))
    ) AS outgoing
    WHERE edges.ctid = outgoing.tid
), incoming AS (
    DELETE FROM stint.edges
    WHERE edges.run = ANY (ARRAY(
        SELECT ended.key FROM ended WHERE ended.cause IN (5 /* replaced */, 7 /* deleted */)
    ))
), waiting AS (
    -- ON CONFLICT updates a row that is newer than the snapshot, where an UPDATE would look for it
    -- in the snapshot.
    INSERT INTO stint.blocked (key, missing, completed, aborted)
    SELECT judged.key, judged.missing, judged.completed, judged.aborted
    FROM judged
    WHERE judged.missing <> 0 AND judged.cause IS NULL AND NOT judged.later
    ON CONFLICT (key) DO UPDATE
    SET missing = excluded.missing, completed = excluded.completed, aborted = excluded.aborted
), unblocked AS (
    DELETE FROM stint.blocked
    WHERE blocked.key = ANY (ARRAY(
        SELECT judged.key
        FROM judged
        WHERE judged.missing = 0 AND NOT judged.later OR judged.cause IS NOT NULL
        UNION ALL
        SELECT ended.key
        FROM ended
    ))
), queued AS (
    -- Tasks that are alike and have consecutive keys become spans, of 64 at most so that several
    -- owners find some.
    INSERT INTO stint.ready (lo, hi, claim, tries, completed, aborted, action, priority,
                             deadline, status, ready_at)
    SELECT min(alike.key), max(alike.key), alike.claim, alike.tries, alike.completed,
           alike.aborted, alike.action, alike.priority, alike.deadline, alike.status,
           statement_timestamp()
    FROM (
        SELECT judged.*,
               CASE WHEN judged.tries > 0 OR judged.claim IS NOT NULL
                         OR judged.deadline IS NOT NULL
                    THEN judged.key
                    ELSE judged.key - row_number() OVER (
                        PARTITION BY judged.key >> 6, judged.action, judged.priority,
                                     judged.completed, judged.aborted,
                                     judged.tries > 0 OR judged.claim IS NOT NULL
                                         OR judged.deadline IS NOT NULL
                        ORDER BY judged.key)
               END AS island
        FROM judged
        WHERE judged.missing = 0 AND judged.cause IS NULL AND NOT judged.early
          AND NOT judged.later
    ) AS alike
    GROUP BY alike.key >> 6, alike.island, alike.claim, alike.tries, alike.completed,
             alike.aborted, alike.action, alike.priority, alike.deadline, alike.status
    ORDER BY min(alike.key)
), later AS (
    INSERT INTO stint.scheduled (key, not_before, claim, tries, completed, aborted, status)
    SELECT judged.key, judged.not_before, judged.claim, judged.tries, judged.completed,
           judged.aborted, judged.status
    FROM judged
    WHERE judged.missing = 0 AND judged.cause IS NULL AND judged.early AND NOT judged.later
), onward AS (
    -- Tasks that end only in the next round, and those of which that one decides.
    INSERT INTO stint.settling (batch, round, key, cause, tries, completed, aborted, status,
                                signals, verdict)
    SELECT $1::bigint, $2::integer - 1, judged.key, judged.cause,
           CASE WHEN NOT judged.later THEN judged.tries END,
           CASE WHEN judged.later THEN judged.told_completed ELSE judged.completed END,
           CASE WHEN judged.later THEN judged.told_aborted ELSE judged.aborted END,
           CASE WHEN NOT judged.later THEN judged.status END,
           CASE WHEN judged.later THEN judged.signals END,
           CASE WHEN judged.later
                THEN judged.verdict | CASE WHEN judged.orphans > 0 THEN 16 ELSE 0 END
           END
    FROM judged
    WHERE judged.cause IS NOT NULL OR judged.later
)
SELECT DISTINCT judged.action AS ready, NULL::bigint AS finished, NULL::bigint AS count
FROM judged
WHERE judged.missing = 0 AND judged.cause IS NULL AND NOT judged.later
UNION ALL
SELECT NULL, ended.key, NULL
FROM ended
WHERE (SELECT tasks.post_result FROM stint.tasks WHERE tasks.key = ended.key) IS NOT false
UNION ALL
SELECT NULL, NULL, counted.count
FROM (SELECT count(*) FROM ended WHERE ended.cause = $3::smallint) AS counted
WHERE $3::smallint IS NOT NULL
