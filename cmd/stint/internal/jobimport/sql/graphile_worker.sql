-- name: take_graphile_worker
--
-- Takes jobs of Graphile Worker out of its table. The arguments and the columns are those of
-- take_jobs. Jobs that are locked, which are in progress, stay, and those that have failed for
-- good. The jobs of a queue, of which Graphile Worker performs one at a time, get its name as their
-- key; while one is in progress, the others of its queue stay. Its lower priority comes first.
WITH picked AS MATERIALIZED (
    SELECT jobs.id, kinds.identifier AS kind, queues.queue_name,
           pg_column_size(jobs.payload) AS bytes
    FROM source._private_jobs AS jobs
    JOIN source._private_tasks AS kinds ON kinds.id = jobs.task_id
    LEFT JOIN source._private_job_queues AS queues ON queues.id = jobs.job_queue_id
    WHERE jobs.id > $3::text::bigint
      AND jobs.locked_at IS NULL AND jobs.attempts < jobs.max_attempts
      AND queues.locked_at IS NULL
      AND ($1::text[] IS NULL OR kinds.identifier = ANY ($1::text[]))
      AND jobs.id::text <> ALL ($5::text[])
      AND ($6::text[] IS NULL OR queues.queue_name = ANY ($6::text[]))
    ORDER BY jobs.id
    LIMIT $2::integer
    FOR UPDATE OF jobs SKIP LOCKED
), stored AS (
    SELECT picked.*, sum(picked.bytes) OVER (ORDER BY picked.id) - picked.bytes AS before
    FROM picked
), summed AS (
    SELECT read.*, sum(read.length) OVER (ORDER BY read.id) - read.length AS before
    FROM (
        SELECT stored.id, stored.kind, stored.queue_name,
               octet_length(jobs.payload::text) AS length
        FROM stored
        JOIN source._private_jobs AS jobs ON jobs.id = stored.id
        WHERE stored.before < $4::bigint
    ) AS read
)
DELETE FROM source._private_jobs AS jobs
USING summed
WHERE jobs.id = summed.id AND summed.before < $4::bigint
RETURNING jobs.id::text AS name, summed.kind, '' AS queue,
          convert_to(jobs.payload::text, 'UTF8') AS body,
          least(32767, -jobs.priority::integer) AS priority,
          CASE WHEN jobs.run_at > statement_timestamp() THEN jobs.run_at END AS not_before,
          jobs.max_attempts - jobs.attempts AS tries_left,
          coalesce(summed.queue_name, '') AS key

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
