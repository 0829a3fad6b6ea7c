-- name: take_gue
--
-- Takes jobs of gue out of its table. The arguments and the columns are those of take_jobs. A
-- worker of gue keeps the row of a job locked while it performs it, so those are left out.
--
-- gue itself limits no tries, and pauses no queues. Its lower priority comes first.
WITH picked AS MATERIALIZED (
    SELECT gue_jobs.job_id, octet_length(gue_jobs.args) AS bytes
    FROM source.gue_jobs
    WHERE gue_jobs.job_id > $3::text
      AND ($1::text[] IS NULL OR gue_jobs.job_type = ANY ($1::text[]))
      AND gue_jobs.job_id <> ALL ($5::text[])
      AND ($6::text[] IS NULL OR gue_jobs.queue = ANY ($6::text[]))
    ORDER BY gue_jobs.job_id
    LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
), taken AS (
    SELECT summed.*
    FROM (
        SELECT picked.*, sum(picked.bytes) OVER (ORDER BY picked.job_id) - picked.bytes AS before
        FROM picked
    ) AS summed
    WHERE summed.before < $4::bigint
)
DELETE FROM source.gue_jobs
USING taken
WHERE gue_jobs.job_id = taken.job_id
RETURNING gue_jobs.job_id AS name, gue_jobs.job_type AS kind, gue_jobs.queue,
          gue_jobs.args AS body,
          least(32767, -gue_jobs.priority::integer) AS priority,
          CASE WHEN gue_jobs.run_at > statement_timestamp() THEN gue_jobs.run_at END AS not_before,
          0 AS tries_left, '' AS key

-- name: left_gue
--
-- Counts the jobs of gue: those that are left are in progress, cannot become tasks, or were
-- inserted since.
--
--   $1 kinds   text[], NULL: of all
--   $2 queues  text[], NULL: of all
SELECT 'running or new' AS state, count(*) AS jobs
FROM source.gue_jobs
WHERE ($1::text[] IS NULL OR gue_jobs.job_type = ANY ($1::text[]))
  AND ($2::text[] IS NULL OR gue_jobs.queue = ANY ($2::text[]))
HAVING count(*) > 0
