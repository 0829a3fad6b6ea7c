-- name: left_river
--
-- Counts the jobs of River that are not over, by state.
--
--   $1 kinds   text[], NULL: of all
--   $2 queues  text[], NULL: of all
SELECT CASE WHEN queues.paused_at IS NOT NULL AND river_job.state::text <> 'running'
            THEN river_job.state::text || ' in the paused queue ' || river_job.queue
            ELSE river_job.state::text
       END AS state, count(*) AS jobs
FROM source.river_job
LEFT JOIN source.river_queue AS queues ON queues.name = river_job.queue
WHERE river_job.finalized_at IS NULL
  AND ($1::text[] IS NULL OR river_job.kind = ANY ($1::text[]))
  AND ($2::text[] IS NULL OR river_job.queue = ANY ($2::text[]))
GROUP BY 1
ORDER BY 1
