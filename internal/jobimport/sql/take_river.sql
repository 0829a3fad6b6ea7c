-- name: take_river
--
-- Takes jobs of River out of its table, those that wait. Running jobs are left to River's workers,
-- and pending ones, which wait for others, to River. What a worker of River locks at this moment is
-- left out as well, and none gets what this transaction has locked.
--
--   $1 kinds  text[], NULL: of all
--   $2 most   integer: how many jobs
--   $3 after  text: only those behind the one with this name; 0: all
--   $4 bytes  bigint: so much of their arguments, as they are stored, and one job
--
-- The columns are those that all statements of this package return: tries_left is 0 where nothing
-- limits them, and the higher priority comes first. The default of River, 1, is that of a task.
WITH picked AS MATERIALIZED (
    SELECT river_job.id, pg_column_size(river_job.args) AS bytes
    FROM source.river_job
    WHERE river_job.id > $3::text::bigint
      AND river_job.state::text IN ('available', 'retryable', 'scheduled')
      AND ($1::text[] IS NULL OR river_job.kind = ANY ($1::text[]))
    ORDER BY river_job.id
    LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
), taken AS (
    SELECT summed.*
    FROM (
        SELECT picked.*, sum(picked.bytes) OVER (ORDER BY picked.id) - picked.bytes AS before
        FROM picked
    ) AS summed
    WHERE summed.before < $4::bigint
)
DELETE FROM source.river_job
USING taken
WHERE river_job.id = taken.id
RETURNING river_job.id::text AS name, river_job.kind,
          convert_to(river_job.args::text, 'UTF8') AS body,
          1 - river_job.priority AS priority,
          CASE WHEN river_job.scheduled_at > statement_timestamp() THEN river_job.scheduled_at END
              AS not_before,
          greatest(1, river_job.max_attempts - river_job.attempt) AS tries_left,
          '' AS key
