-- name: left_river
--
-- Counts the jobs of River that are not over, by state.
--
--   $1 kinds  text[], NULL: of all
SELECT river_job.state::text AS state, count(*) AS jobs
FROM source.river_job
WHERE river_job.finalized_at IS NULL
  AND ($1::text[] IS NULL OR river_job.kind = ANY ($1::text[]))
GROUP BY river_job.state::text
ORDER BY river_job.state::text COLLATE "C"
