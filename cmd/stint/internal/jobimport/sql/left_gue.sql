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
