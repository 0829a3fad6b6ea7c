-- name: take_river
--
-- Takes jobs of River that wait. Running jobs are left to River's workers, and pending ones, which
-- wait for others, to River. Jobs of paused queues are not to begin. The default of River, 1, is
-- the priority of a task.
-- include take_jobs: table=river_job; after=$3::text::bigint; args=args; body=job.args::text;
-- waits=job.state::text IN ('available', 'retryable', 'scheduled');
-- unpaused=job.queue NOT IN (SELECT name FROM source.river_queue WHERE paused_at IS NOT NULL);
-- kind=job.kind; queue=job.queue; priority=1 - job.priority; start=job.scheduled_at;
-- tries=greatest(1, job.max_attempts - job.attempt); key=''

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
