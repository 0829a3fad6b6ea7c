-- part: left_jobs
--
-- Counts the jobs of another queue that are not over, by {state}. Its {table} has rows called job.
--
--   $1 kinds   text[], NULL: of all
--   $2 queues  text[], NULL: of all
SELECT {state} AS state, count(*) AS jobs
FROM source.{table} AS job
WHERE {unfinished}
  AND ($1::text[] IS NULL OR {kind} = ANY ($1::text[]))
  AND ($2::text[] IS NULL OR {queue} = ANY ($2::text[]))
GROUP BY 1
ORDER BY 1
