-- name: still_needed
--
-- Returns whether one of the tasks with the keys $1, which nobody else can change any more, is to
-- stay: the aborted task that only needed them has been opened again since, or is gone, or one of
-- them has a dependent that was not aborted and is not among them, or may be waited for.
--
--   $1 keys         bigint[]
--   $2 failed       bigint: the key of the aborted task
--   $3 finished_at  timestamptz: when that ended
SELECT EXISTS (
    SELECT
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT edges.run FROM stint.edges WHERE edges.after = named.key OFFSET 0
    ) AS edge
    WHERE edge.run <> ALL ($1::bigint[])
      AND (SELECT last.cause <> 0 AND last.hi >= edge.run
           FROM (
               -- include span_of_key: table=finished; key=edge.run;
               --   columns=finished.hi, finished.cause
           ) AS last) IS NOT true
) OR EXISTS (
    -- Debounce gives a task another definition under its key.
    SELECT FROM stint.tasks WHERE tasks.key = ANY ($1::bigint[]) AND tasks.post_result
) OR (
    SELECT last.cause <> 0 AND last.hi >= $2::bigint AND last.finished_at = $3::timestamptz
    FROM (
        -- include span_of_key: table=finished; key=$2::bigint;
        --   columns=finished.hi, finished.cause, finished.finished_at
    ) AS last
) IS NOT true AS needed
