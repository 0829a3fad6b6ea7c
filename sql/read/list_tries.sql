-- name: list_tries
--
-- Returns the tries of a task that have ended, in the order of their ends: number, outcome, actor,
-- when the task was owned, when the try ended, status and log; or one row of nulls if there are
-- none. It returns nothing if there is no such task.
--
--   $1 id  text
WITH task AS MATERIALIZED (
    SELECT tasks.key FROM stint.tasks WHERE tasks.id = $1::text
), final AS MATERIALIZED (
    -- The try that ended the task, if an owner had it at that moment. A task that ended because a
    -- try expired has the complement of its claim, in which the bit that all claims have is 0.
    SELECT span.tries, span.actor, span.owned_at, span.finished_at, span.status,
           CASE WHEN span.claim & 32768 = 0 THEN ~span.claim ELSE span.claim END AS claim,
           CASE span.cause
               WHEN 2 /* tries */ THEN CASE WHEN span.claim & 32768 = 0 THEN 4 ELSE 2 END
               WHEN 9 /* lost */ THEN CASE WHEN span.claim & 32768 = 0 THEN 4 ELSE 2 END
               WHEN 4 /* cancelled */ THEN 5
               ELSE span.cause
           END::smallint AS outcome
    FROM task
    CROSS JOIN LATERAL (
        -- include span_of_key: table=finished; key=task.key; columns=finished.*
    ) AS span
    WHERE span.hi >= task.key AND span.actor IS NOT NULL
), kept AS MATERIALIZED (
    SELECT tries.claim, tries.tries, tries.outcome, tries.actor, tries.owned_at, tries.ended_at,
           tries.status, tries.log
    FROM task
    CROSS JOIN LATERAL (
        SELECT tries.* FROM stint.tries WHERE tries.key = task.key OFFSET 0
    ) AS tries
)
SELECT ended.tries, ended.outcome, ended.actor, ended.owned_at, ended.ended_at, ended.status,
       ended.log
FROM task
LEFT JOIN (
    SELECT coalesce(final.tries, kept.tries) AS tries,
           coalesce(final.outcome, kept.outcome) AS outcome,
           coalesce(final.actor, kept.actor) AS actor,
           coalesce(kept.owned_at, final.owned_at) AS owned_at,
           coalesce(final.finished_at, kept.ended_at) AS ended_at,
           CASE WHEN final.tries IS NULL THEN kept.status ELSE final.status END AS status,
           kept.log
    FROM kept
    FULL JOIN final ON final.claim = kept.claim
) AS ended ON true
ORDER BY ended.ended_at, ended.tries
