-- name: left_gue
--
-- Counts the jobs of gue: those that are left are in progress, or were inserted since.
--
--   $1 kinds  text[], NULL: of all
SELECT 'running or new' AS state, count(*) AS jobs
FROM source.gue_jobs
WHERE $1::text[] IS NULL OR gue_jobs.job_type = ANY ($1::text[])
HAVING count(*) > 0
