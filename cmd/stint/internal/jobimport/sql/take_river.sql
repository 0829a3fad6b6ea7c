-- name: take_river
--
-- Takes jobs of River out of its table, those that wait. Running jobs are left to River's workers,
-- and pending ones, which wait for others, to River. What a worker of River locks at this moment is
-- left out as well, and none gets what this transaction has locked.
--
--   $1 kinds   text[], NULL: of all
--   $2 most    integer: how many jobs
--   $3 after   text: only those behind the one with this name; 0: all
--   $4 bytes   bigint: so much of their arguments, and one job
--   $5 but     text[]: the names of jobs that stay
--   $6 queues  text[], NULL: of all but those that are paused, whose jobs are not to begin
--
-- The columns are those that all statements of this package return: tries_left is 0 where nothing
-- limits them, and the higher priority comes first. The default of River, 1, is that of a task.
WITH picked AS MATERIALIZED (
    SELECT river_job.id, pg_column_size(river_job.args) AS bytes
    FROM source.river_job
    WHERE river_job.id > $3::text::bigint
      AND river_job.state::text IN ('available', 'retryable', 'scheduled')
      AND ($1::text[] IS NULL OR river_job.kind = ANY ($1::text[]))
      AND river_job.id::text <> ALL ($5::text[])
      AND CASE WHEN $6::text[] IS NULL
               THEN NOT EXISTS (SELECT FROM source.river_queue
                                WHERE river_queue.name = river_job.queue
                                  AND river_queue.paused_at IS NOT NULL)
               ELSE river_job.queue = ANY ($6::text[])
          END
    ORDER BY river_job.id
    LIMIT $2::integer
    FOR UPDATE OF river_job SKIP LOCKED
), stored AS ( -- as they are stored, which may be compressed: so few rows are read in full
    SELECT picked.id, sum(picked.bytes) OVER (ORDER BY picked.id) - picked.bytes AS before
    FROM picked
), summed AS ( -- as they are sent
    SELECT read.id, sum(read.bytes) OVER (ORDER BY read.id) - read.bytes AS before
    FROM (
        SELECT river_job.id, octet_length(river_job.args::text) AS bytes
        FROM stored
        JOIN source.river_job ON river_job.id = stored.id
        WHERE stored.before < $4::bigint
    ) AS read
)
DELETE FROM source.river_job
USING summed
WHERE river_job.id = summed.id AND summed.before < $4::bigint
RETURNING river_job.id::text AS name, river_job.kind, river_job.queue,
          convert_to(river_job.args::text, 'UTF8') AS body,
          1 - river_job.priority AS priority,
          CASE WHEN river_job.scheduled_at > statement_timestamp() THEN river_job.scheduled_at END
              AS not_before,
          greatest(1, river_job.max_attempts - river_job.attempt) AS tries_left,
          '' AS key
