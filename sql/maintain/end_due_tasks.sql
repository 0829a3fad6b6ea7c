-- name: end_due_tasks
--
-- Takes those of the tasks with the keys $3 that end by themselves out of their states, and puts
-- them into round $2 of settling: tasks whose deadline has passed (R6), spontaneous tasks whose
-- time has come, and owned tasks whose lease has expired on their last try, or that owners have
-- lost $4 times in a row by now (R13).
--
--   $1 batch  bigint
--   $2 round  integer
--   $3 keys   bigint[], sorted; owned tasks must have been split off their spans
--   $4 losses  integer, 0: any number
--
-- SKIP LOCKED passes over tasks that somebody is busy with. They stay for the next time.
WITH dependent AS MATERIALIZED (
    -- Settling will lock the dependents, so they are locked here, ahead of the tasks. A dependent
    -- that is blocked and could not be locked is busy.
    SELECT named.key AS after, waiting.key IS NOT NULL AND locked.key IS NULL AS busy
    FROM unnest($3::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = named.key OFFSET 0
    ) AS edge
    LEFT JOIN LATERAL (
        SELECT blocked.key FROM stint.blocked WHERE blocked.key = edge.run FOR UPDATE SKIP LOCKED
    ) AS locked ON true
    LEFT JOIN LATERAL (
        SELECT blocked.key FROM stint.blocked WHERE blocked.key = edge.run OFFSET 0
    ) AS waiting ON true
), held AS MATERIALIZED (
    -- A task with a dependent that somebody is busy with stays for the next time, too.
    SELECT DISTINCT dependent.after AS key FROM dependent WHERE dependent.busy
), named AS MATERIALIZED (
    SELECT named.key, task.deadline, task.max_tries, task.action,
           coalesce(task.deadline <= statement_timestamp(), false) AS overdue
    FROM unnest($3::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT tasks.deadline, tasks.max_tries, tasks.action
        FROM stint.tasks
        WHERE tasks.key = named.key
        OFFSET 0
    ) AS task
    WHERE named.key <> ALL (ARRAY(SELECT held.key FROM held))
), queued AS MATERIALIZED (
    SELECT named.key, ready.tries, ready.status
    FROM named
    CROSS JOIN LATERAL (
        SELECT ready.tries, ready.status
        FROM stint.ready
        WHERE ready.lo = named.key
        FOR UPDATE SKIP LOCKED
    ) AS ready
    WHERE named.overdue
), later AS MATERIALIZED (
    -- A scheduled task ends if it is overdue, or if it is spontaneous and its time has come.
    SELECT named.key, scheduled.tries, scheduled.completed, scheduled.aborted, scheduled.status,
           named.overdue
    FROM named
    CROSS JOIN LATERAL (
        SELECT scheduled.*
        FROM stint.scheduled
        WHERE scheduled.key = named.key
          AND (named.overdue
               OR scheduled.not_before <= statement_timestamp()
                  AND named.action = 'stint.Spontaneous')
        FOR UPDATE SKIP LOCKED
    ) AS scheduled
), owned AS MATERIALIZED (
    -- An owned task ends if it is overdue, or if its lease has expired on its last try, or as
    -- often in a row as is allowed.
    SELECT named.key, named.max_tries, leased.claim, leased.tries, leased.status, named.overdue,
           lease.actor, leased.lost
    FROM named
    CROSS JOIN LATERAL (
        SELECT leased.*, lost.found AS lost
        FROM stint.leased
        CROSS JOIN LATERAL (
            SELECT (
                -- include lost_again: leased=leased; losses=$4
            ) IS NOT NULL AS found
        ) AS lost
        WHERE leased.lo = named.key AND leased.hi = named.key
          AND (named.overdue OR named.max_tries > 0 AND leased.tries >= named.max_tries
               OR lost.found)
        FOR UPDATE OF leased SKIP LOCKED
    ) AS leased
    CROSS JOIN LATERAL (
        SELECT leases.actor
        FROM stint.leases
        WHERE leases.claim = leased.claim AND leases.part = leased.part
          AND (named.overdue OR leases.deadline <= statement_timestamp())
        FOR UPDATE SKIP LOCKED
    ) AS lease
), waiting AS MATERIALIZED (
    -- One with a new version since the snapshot may have another definition (Debounce), with
    -- another deadline. It stays for the next time.
    SELECT named.key, locked.tries, locked.status
    FROM named
    CROSS JOIN LATERAL (
        SELECT blocked.xmin AS version FROM stint.blocked WHERE blocked.key = named.key OFFSET 0
    ) AS seen
    CROSS JOIN LATERAL (
        SELECT blocked.tries, blocked.status, blocked.xmin AS version
        FROM stint.blocked
        WHERE blocked.key = named.key
        FOR UPDATE SKIP LOCKED
    ) AS locked
    WHERE named.overdue AND locked.version = seen.version
), unqueued AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT queued.key FROM queued))
), unscheduled AS (
    DELETE FROM stint.scheduled
    WHERE scheduled.key = ANY (ARRAY(SELECT later.key FROM later))
), disowned AS (
    DELETE FROM stint.leased
    WHERE leased.lo = ANY (ARRAY(SELECT owned.key FROM owned))
), unblocked AS (
    DELETE FROM stint.blocked
    WHERE blocked.key = ANY (ARRAY(SELECT waiting.key FROM waiting))
), counted AS (
    -- list_problems and count_lost find the tasks by this.
    UPDATE stint.losses
    SET ended_at = statement_timestamp(), tries = losses.tries + 1, losses = losses.losses + 1
    WHERE losses.key = ANY (ARRAY(
        SELECT owned.key FROM owned WHERE owned.lost AND NOT owned.overdue
    ))
)
INSERT INTO stint.settling
    (batch, round, key, cause, claim, tries, completed, aborted, actor, status)
SELECT $1::bigint, $2::integer, ended.*
FROM (
    SELECT queued.key, 6 /* expired */, NULL::bigint, queued.tries, NULL::integer,
           NULL::integer, NULL::text, queued.status
    FROM queued
    UNION ALL
    SELECT later.key, CASE WHEN later.overdue THEN 6 /* expired */ ELSE 0 /* completed */ END,
           NULL, later.tries, later.completed, later.aborted, NULL, later.status
    FROM later
    UNION ALL
    -- A task that ends because a try has expired keeps the complement of its claim, which is no
    -- claim: it counts as not returned until its owner says why it failed (note_late). Until then
    -- the status says what that of reclaim_leases does.
    SELECT owned.key,
           CASE WHEN owned.overdue THEN 6 /* expired */
                WHEN owned.lost THEN 9 /* lost */
                ELSE 2 /* tries */
           END,
           CASE WHEN owned.overdue THEN NULL ELSE ~owned.claim END, owned.tries, NULL, NULL,
           owned.actor,
           CASE
               WHEN owned.overdue THEN owned.status
               ELSE concat_ws(E'\n',
                   'lease expired on try ' || owned.tries
                       || coalesce(' of ' || nullif(owned.max_tries, 0), '')
                       || coalesce(', ' || nullif(expired.times, 1) || ' times by now', ''),
                   'its owner ' || owned.actor || ' did not extend it',
                   CASE WHEN expired.times = 1 THEN left(owned.status, 10000) END)
           END
    FROM owned
    CROSS JOIN LATERAL (
        SELECT CASE
                   WHEN owned.status LIKE 'lease expired on try %' THEN 1 + coalesce(
                       regexp_substr(owned.status, '^.*, ([0-9]{1,6}) times by now', 1, 1, 'n', 1)
                           ::integer, 1)
                   ELSE 1
               END
    ) AS expired (times)
    UNION ALL
    SELECT waiting.key, 6 /* expired */, NULL, waiting.tries, NULL, NULL, NULL, waiting.status
    FROM waiting
) AS ended
