-- name: left_graphile_worker
--
-- Counts the jobs of Graphile Worker, by what they are.
--
--   $1 kinds   text[], NULL: of all
--   $2 queues  text[], NULL: of all
SELECT CASE WHEN jobs.attempts >= jobs.max_attempts AND jobs.locked_at IS NULL THEN 'failed'
            WHEN jobs.locked_at IS NOT NULL THEN 'running'
            WHEN queues.locked_at IS NOT NULL THEN 'behind a running one'
            ELSE 'new'
       END AS state, count(*) AS jobs
FROM source._private_jobs AS jobs
JOIN source._private_tasks AS kinds ON kinds.id = jobs.task_id
LEFT JOIN source._private_job_queues AS queues ON queues.id = jobs.job_queue_id
WHERE ($1::text[] IS NULL OR kinds.identifier = ANY ($1::text[]))
  AND ($2::text[] IS NULL OR queues.queue_name = ANY ($2::text[]))
GROUP BY 1
ORDER BY 1
