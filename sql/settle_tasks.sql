-- name: settle_tasks
--
-- What the end of tasks means for others (R12, R14), one step of it: ends the tasks that batch $1
-- has in round $2 of settling, and hands the signals that are there, and those of the tasks that
-- end, to the dependents. Of these, some become ready or scheduled; what ends in its turn,
-- spontaneous tasks and those whose predecessor was aborted, goes into settling for the next round.
--
--   $1 batch  bigint
--   $2 round  integer
--
-- It runs behind the statement that ended the first tasks, as often as it takes, in one round trip.
-- Each time lock_dependents goes ahead, so that this statement sees edges and counts as of after
-- the locks: whoever counts last knows that it does, and an edge that was added meanwhile is not
-- missed. A row that lock_dependents did not foresee is locked here. Its values may be newer than
-- the snapshot; ON CONFLICT updates it, where an UPDATE would look for it in the snapshot.
-- settling_rounds fails a transaction that would need another run.
--
-- A spontaneous task stands for those it waited for: completed, it passes their numbers on, which
-- layers of joins may drive up to the largest integer, but not beyond. Replaced tasks (5) and
-- deleted ones (7) leave no signal, but nobody may wait for them either; what has nothing left to
-- wait for because of a deletion is deleted too (R5, R17).
--
-- Returns what others may wait for: the actions of tasks that now need nothing but an owner or their
-- time, and the keys of tasks that ended here and post their results (as may those that have left
-- their definitions already).
--
-- Ready tasks that are alike and have consecutive keys become spans, of 64 at most so that several
-- owners find some.
WITH RECURSIVE due AS (
    DELETE FROM stint.settling
    WHERE settling.batch = $1::bigint AND settling.round = $2::integer
    RETURNING settling.*
), recorded AS (
    INSERT INTO stint.finished (lo, hi, claim, tries, cause, actor, status)
    SELECT due.key, due.key, due.claim, due.tries, due.cause, due.actor, due.status
    FROM due
    WHERE due.cause < 7
), joined AS (
    INSERT INTO stint.joined (key, completed, aborted)
    SELECT due.key, coalesce(due.completed, 0), coalesce(due.aborted, 0)
    FROM due
    WHERE due.cause = 0
), definition AS (
    DELETE FROM stint.tasks
    WHERE tasks.key = ANY (ARRAY(SELECT due.key FROM due WHERE due.cause = 7))
    RETURNING tasks.key, tasks.deadline
), limited AS (
    DELETE FROM stint.deadlines
    USING (
        SELECT deadline.tid
        FROM definition
        CROSS JOIN LATERAL (
            SELECT deadlines.ctid AS tid
            FROM stint.deadlines
            WHERE deadlines.deadline = definition.deadline AND deadlines.key = definition.key
            OFFSET 0
        ) AS deadline
    ) AS limits
    WHERE deadlines.ctid = limits.tid
), outgoing AS (
    DELETE FROM stint.edges
    WHERE edges.after = ANY (ARRAY(SELECT due.key FROM due WHERE due.cause IN (5, 7)))
), incoming AS (
    DELETE FROM stint.edges
    WHERE edges.run = ANY (ARRAY(SELECT due.key FROM due WHERE due.cause IN (5, 7)))
), sent AS MATERIALIZED (
    SELECT arrival.key, sum(arrival.signals) AS signals, sum(arrival.completed) AS completed,
           sum(arrival.aborted) AS aborted, bool_or(arrival.spoiled) AS spoiled,
           bool_or(arrival.orphaned) AS orphaned
    FROM (
        SELECT due.key, due.signals, due.completed, due.aborted, due.spoiled, false AS orphaned
        FROM due
        WHERE due.cause IS NULL
        UNION ALL
        SELECT edge.run, 1,
               CASE WHEN due.cause = 0 THEN coalesce(due.completed, 0) ELSE 0 END,
               CASE WHEN due.cause = 0 THEN coalesce(due.aborted, 0)
                    WHEN due.cause IN (5, 7) THEN 0 ELSE 1 END,
               due.cause NOT IN (0, 5, 7),
               due.cause = 7
        FROM due
        CROSS JOIN LATERAL (
            SELECT edges.run FROM stint.edges WHERE edges.after = due.key OFFSET 0
        ) AS edge
        WHERE due.cause IS NOT NULL
    ) AS arrival
    GROUP BY arrival.key
), doomed (key) AS (
    SELECT sent.key
    FROM sent
    WHERE sent.spoiled
      AND (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = sent.key) = 0
    UNION
    SELECT edge.run
    FROM doomed
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = doomed.key OFFSET 0
    ) AS edge
    WHERE (SELECT tasks.on_abort FROM stint.tasks WHERE tasks.key = edge.run) = 0
), target AS MATERIALIZED (
    SELECT target.key, sum(target.signals) AS signals, sum(target.completed) AS completed,
           sum(target.aborted) AS aborted, bool_or(target.orphaned) AS orphaned,
           bool_or(target.doomed) AS doomed
    FROM (
        SELECT sent.key, sent.signals, sent.completed, sent.aborted, sent.orphaned,
               false AS doomed
        FROM sent
        UNION ALL
        SELECT doomed.key, 0, 0, 0, false, true
        FROM doomed
    ) AS target
    GROUP BY target.key
    ORDER BY target.key
), locked AS MATERIALIZED (
    SELECT blocked.key, blocked.not_before, blocked.claim, blocked.tries, blocked.status,
           blocked.missing - target.signals AS missing,
           least(blocked.completed + target.completed, 2147483647) AS completed,
           least(blocked.aborted + target.aborted, 2147483647) AS aborted,
           target.orphaned, target.doomed
    FROM target
    CROSS JOIN LATERAL (
        SELECT blocked.* FROM stint.blocked WHERE blocked.key = target.key FOR UPDATE
    ) AS blocked
), judged AS MATERIALIZED (
    SELECT locked.*, task.action, task.priority, task.deadline, timing.early,
           CASE WHEN locked.doomed THEN 3
                WHEN locked.orphaned AND locked.missing = 0 THEN 7
                WHEN task.action = 'stint.Spontaneous' AND locked.missing = 0
                     AND NOT timing.early THEN 0
           END AS cause
    FROM locked
    CROSS JOIN LATERAL (
        SELECT tasks.action, tasks.priority, tasks.deadline
        FROM stint.tasks
        WHERE tasks.key = locked.key
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL (
        SELECT coalesce(locked.not_before > statement_timestamp(), false)
    ) AS timing (early)
), waiting AS (
    INSERT INTO stint.blocked (key, missing, completed, aborted)
    SELECT judged.key, judged.missing, judged.completed, judged.aborted
    FROM judged
    WHERE judged.missing <> 0 AND judged.cause IS NULL
    ON CONFLICT (key) DO UPDATE
    SET missing = excluded.missing, completed = excluded.completed, aborted = excluded.aborted
), unblocked AS (
    DELETE FROM stint.blocked
    WHERE blocked.key = ANY (ARRAY(
        SELECT judged.key
        FROM judged
        WHERE judged.missing = 0 OR judged.cause IS NOT NULL
    ))
), queued AS (
    INSERT INTO stint.ready (lo, hi, claim, tries, completed, aborted, action, priority,
                             deadline, status)
    SELECT min(alike.key), max(alike.key), alike.claim, alike.tries, alike.completed,
           alike.aborted, alike.action, alike.priority, alike.deadline, alike.status
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
    ) AS alike
    GROUP BY alike.key >> 6, alike.island, alike.claim, alike.tries, alike.completed,
             alike.aborted, alike.action, alike.priority, alike.deadline, alike.status
    ORDER BY min(alike.key)
), later AS (
    INSERT INTO stint.scheduled (key, not_before, claim, tries, completed, aborted, status)
    SELECT judged.key, judged.not_before, judged.claim, judged.tries, judged.completed,
           judged.aborted, judged.status
    FROM judged
    WHERE judged.missing = 0 AND judged.cause IS NULL AND judged.early
), onward AS (
    INSERT INTO stint.settling (batch, round, key, cause, tries, completed, aborted, status)
    SELECT $1::bigint, $2::integer - 1, judged.key, judged.cause, judged.tries, judged.completed,
           judged.aborted, judged.status
    FROM judged
    WHERE judged.cause IS NOT NULL
)
SELECT DISTINCT judged.action AS ready, NULL::bigint AS finished
FROM judged
WHERE judged.missing = 0 AND judged.cause IS NULL
UNION ALL
SELECT NULL, due.key
FROM due
WHERE due.cause IS NOT NULL
  AND (SELECT tasks.post_result FROM stint.tasks WHERE tasks.key = due.key) IS NOT false
