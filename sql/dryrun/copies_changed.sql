-- name: copies_changed
--
-- Returns what a verb has made of the tasks that copy_tasks has copied: how many of those that
-- waited for others may begin now, at once or at their time; how many were skipped, those included
-- that a retry has opened; how many were aborted; and how many that were opened will be at once,
-- since their deadline has passed. fast says that some have what only they need aborted with them.
--
-- It goes along what there is now, and looks for a task by its key only where it must: on its way
-- to one it passes all rows of others that are gone.
WITH ended AS MATERIALIZED (
    SELECT finished.cause
    FROM stint.finished
    CROSS JOIN LATERAL (
        SELECT seen.finished_at
        FROM pg_temp.seen
        WHERE seen.key BETWEEN finished.lo AND finished.hi
        OFFSET 0
    ) AS before
    WHERE finished.finished_at IS DISTINCT FROM before.finished_at
), begun AS MATERIALIZED (
    SELECT
    FROM pg_temp.seen
    WHERE CASE -- in this order
              WHEN seen.state > 0 /* not blocked */ THEN false
              WHEN (SELECT true FROM stint.blocked WHERE blocked.key = seen.key) THEN false
              WHEN (SELECT true FROM stint.scheduled WHERE scheduled.key = seen.key) THEN true
              ELSE (SELECT span.hi >= seen.key
                    FROM (
                        -- include span_of_key: table=ready; key=seen.key; columns=ready.hi
                    ) AS span)
          END
), expired AS MATERIALIZED (
    SELECT
    FROM pg_temp.seen
    WHERE CASE -- in this order
              WHEN seen.state < 10 /* unfinished */ THEN false
              WHEN (SELECT tasks.deadline
                    FROM stint.tasks
                    WHERE tasks.key = seen.key) <= statement_timestamp()
              THEN (SELECT span.hi >= seen.key
                    FROM (
                        -- include span_of_key: table=finished; key=seen.key; columns=finished.hi
                    ) AS span) IS NOT true
          END
)
SELECT (SELECT count(*) FROM begun) AS started,
       (SELECT count(*) FROM ended WHERE ended.cause = 8 /* skipped */) AS skipped,
       (SELECT count(*)
        FROM ended
        WHERE ended.cause NOT IN (0 /* completed */, 8 /* skipped */)) AS aborted,
       (SELECT count(*) FROM expired) AS expired,
       EXISTS (SELECT FROM stint.fail_fast) AS fast
