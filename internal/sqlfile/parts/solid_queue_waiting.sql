-- part: solid_queue_waiting
--
-- Locks jobs of Solid Queue that wait in {table}: a worker, or what makes jobs ready, locks such a
-- row, and deletes it. The parameters are those of take_jobs.
SELECT job.id, coalesce(octet_length(job.arguments), 0) AS bytes
FROM source.{table} AS waiting
JOIN source.solid_queue_jobs AS job ON job.id = waiting.job_id
WHERE waiting.job_id > $3::text::bigint
  AND ($1::text[] IS NULL OR job.class_name = ANY ($1::text[]))
  AND job.id::text <> ALL ($5::text[])
  AND CASE WHEN $6::text[] IS NULL
           THEN job.queue_name NOT IN (SELECT queue_name FROM source.solid_queue_pauses)
           ELSE job.queue_name = ANY ($6::text[])
      END
ORDER BY waiting.job_id
LIMIT $2::integer
FOR UPDATE OF waiting SKIP LOCKED
