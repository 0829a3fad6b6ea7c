-- part: take_jobs
--
-- Takes the jobs of another queue out of its {table}, whose rows are called job: those that
-- {waits} is true of, behind the {after} that a page ended with; a worker that performs one has
-- locked its row, or changed it so that {waits} is false. What is locked at this moment is left
-- out, and no worker gets what this transaction has locked. The command import says the words.
--
--   $1 kinds   text[], NULL: of all
--   $2 most    integer: how many jobs
--   $3 after   text: only those behind the one with this name; 0: all
--   $4 bytes   bigint: so much of their arguments, and one job
--   $5 but     text[]: the names of jobs that stay
--   $6 queues  text[], NULL: of those that {unpaused} is true of
--
-- A queue may use an ID twice, such as in two partitions, so a row is known by its place, too.
-- {body} is text. {tries} is 0 where nothing limits them, and the higher {priority} comes first.
WITH picked AS MATERIALIZED (
    SELECT job.id, job.tableoid AS part, job.ctid AS place,
           coalesce(pg_column_size(job.{args}), 0) AS bytes
    FROM source.{table} AS job
    WHERE job.id > {after}
      AND {waits}
      AND ($1::text[] IS NULL OR {kind} = ANY ($1::text[]))
      AND job.id::text <> ALL ($5::text[])
      AND CASE WHEN $6::text[] IS NULL THEN {unpaused} ELSE {queue} = ANY ($6::text[]) END
    ORDER BY job.id
    LIMIT $2::integer
    FOR UPDATE OF job SKIP LOCKED
), stored AS ( -- as they are stored, which may be compressed: so few rows are read in full
    SELECT picked.id, picked.part, picked.place,
           sum(picked.bytes) OVER (ORDER BY picked.id) - picked.bytes AS before
    FROM picked
), summed AS ( -- as they are sent
    SELECT read.id, read.part, read.place,
           sum(read.bytes) OVER (ORDER BY read.id) - read.bytes AS before
    FROM (
        SELECT job.id, stored.part, stored.place, coalesce(octet_length({body}), 0) AS bytes
        FROM stored
        JOIN source.{table} AS job
          ON job.id = stored.id AND job.tableoid = stored.part AND job.ctid = stored.place
        WHERE stored.before < $4::bigint
    ) AS read
)
DELETE FROM source.{table} AS job
USING summed
WHERE job.id = summed.id AND job.tableoid = summed.part AND job.ctid = summed.place
  AND summed.before < $4::bigint
RETURNING job.id::text AS name, {kind} AS kind, {queue} AS queue,
          convert_to({body}, 'UTF8') AS body,
          {priority} AS priority,
          CASE WHEN {start} > statement_timestamp() THEN {start} END AS not_before,
          {tries} AS tries_left, {key} AS key
