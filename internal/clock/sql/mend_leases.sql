-- name: mend_leases
--
-- Makes up to $1 leases that began in the future begin now, and end as much earlier. Returns how
-- many, and by how much the clock was ahead.
--
--   $1 rows  integer
WITH ahead AS MATERIALIZED (
    SELECT leases.ctid AS tid, leases.owned_at
    FROM stint.leases
    WHERE leases.deadline > statement_timestamp() + interval '1 s'
      AND leases.owned_at > statement_timestamp() + interval '1 s'
    LIMIT $1::integer
    FOR NO KEY UPDATE SKIP LOCKED
), mended AS (
    UPDATE stint.leases
    SET deadline = leases.deadline - (ahead.owned_at - statement_timestamp()),
        owned_at = statement_timestamp()
    FROM ahead
    WHERE leases.ctid = ahead.tid
)
SELECT count(*) AS rows, max(ahead.owned_at) - statement_timestamp() AS ahead
FROM ahead
