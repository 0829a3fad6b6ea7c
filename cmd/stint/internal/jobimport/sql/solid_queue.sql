-- name: take_solid_queue
--
-- Takes jobs of Solid Queue that are ready, scheduled or blocked out of its tables: what they wait
-- in goes with them, by its foreign keys. The parameters and the columns are those of take_jobs.
-- Jobs of paused queues stay. Its times are in UTC, without a zone; the lower priority comes first.
WITH ready AS MATERIALIZED (
    -- include solid_queue_waiting: table=solid_queue_ready_executions
), scheduled AS MATERIALIZED (
    -- include solid_queue_waiting: table=solid_queue_scheduled_executions
), blocked AS MATERIALIZED (
    -- include solid_queue_waiting: table=solid_queue_blocked_executions
), picked AS (
    SELECT waiting.id, waiting.bytes
    FROM (
        SELECT * FROM ready UNION ALL SELECT * FROM scheduled UNION ALL SELECT * FROM blocked
    ) AS waiting
    ORDER BY waiting.id
    LIMIT $2::integer
), summed AS (
    SELECT picked.id, sum(picked.bytes) OVER (ORDER BY picked.id) - picked.bytes AS before
    FROM picked
)
DELETE FROM source.solid_queue_jobs AS job
USING summed
WHERE job.id = summed.id AND summed.before < $4::bigint
RETURNING job.id::text AS name, job.class_name::text AS kind, job.queue_name::text AS queue,
          convert_to(job.arguments, 'UTF8') AS body,
          greatest(-32768, least(32767, -job.priority)) AS priority,
          CASE WHEN job.scheduled_at > statement_timestamp() AT TIME ZONE 'UTC'
               THEN job.scheduled_at AT TIME ZONE 'UTC'
          END AS not_before,
          0 AS tries_left, coalesce(job.concurrency_key, '') AS key

-- name: left_solid_queue
--
-- Counts the jobs of Solid Queue that are not over.
--
--   $1 kinds   text[], NULL: of all
--   $2 queues  text[], NULL: of all
SELECT CASE WHEN failed.job_id IS NOT NULL THEN 'failed'
            WHEN claimed.job_id IS NOT NULL THEN 'running'
            WHEN pauses.queue_name IS NOT NULL THEN 'in the paused queue ' || pauses.queue_name
            ELSE 'new'
       END AS state, count(*) AS jobs
FROM source.solid_queue_jobs AS job
LEFT JOIN source.solid_queue_failed_executions AS failed ON failed.job_id = job.id
LEFT JOIN source.solid_queue_claimed_executions AS claimed ON claimed.job_id = job.id
LEFT JOIN source.solid_queue_pauses AS pauses ON pauses.queue_name = job.queue_name
WHERE job.finished_at IS NULL
  AND ($1::text[] IS NULL OR job.class_name = ANY ($1::text[]))
  AND ($2::text[] IS NULL OR job.queue_name = ANY ($2::text[]))
GROUP BY 1
ORDER BY 1
