-- name: mend_finished
--
-- Makes up to $1 rows of tasks that ended in the future end now, so that they are pruned at their
-- age, and do not hide what fails now from those who look at the latest ends. Returns how many, and
-- by how much the clock was ahead. Now is when the row is made: see list_ends.
--
--   $1 rows  integer
WITH ahead AS MATERIALIZED (
    SELECT span.lo, span.finished_at
    FROM (
        SELECT finished.lo, finished.finished_at
        FROM stint.finished
        WHERE finished.finished_at > statement_timestamp() + interval '1 s' AND finished.cause = 0
        LIMIT $1::integer
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS span
    UNION ALL
    SELECT span.lo, span.finished_at
    FROM (
        SELECT finished.lo, finished.finished_at
        FROM stint.finished
        WHERE finished.finished_at > statement_timestamp() + interval '1 s' AND finished.cause <> 0
        LIMIT $1::integer
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS span
), mended AS (
    UPDATE stint.finished
    SET finished_at = clock_timestamp()
    WHERE finished.lo = ANY (ARRAY(SELECT ahead.lo FROM ahead))
), lost AS (
    UPDATE stint.losses
    SET ended_at = clock_timestamp()
    WHERE losses.key = ANY (ARRAY(SELECT ahead.lo FROM ahead)) AND losses.ended_at IS NOT NULL
)
SELECT count(*) AS rows, max(ahead.finished_at) - statement_timestamp() AS ahead
FROM ahead
