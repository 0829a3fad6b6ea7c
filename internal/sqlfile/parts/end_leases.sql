-- part: end_leases
--
-- Ends the leases of actor $2 of the session {session} of lost, but for those that somebody extends
-- or holds at this moment; leases of passed says how many these are.
held AS MATERIALIZED (
    SELECT lease.tid
    FROM lost
    CROSS JOIN LATERAL (
        SELECT leases.ctid AS tid
        FROM stint.leases
        WHERE leases.session = {session} AND leases.actor = $2::text
          AND leases.deadline + interval '0' > statement_timestamp() -- not along leases_order
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS lease
), expired AS (
    UPDATE stint.leases
    SET deadline = statement_timestamp()
    FROM held
    WHERE leases.ctid = held.tid -- a lease that was just extended has left it
    RETURNING leases.claim
), passed AS MATERIALIZED (
    SELECT (SELECT count(*)
            FROM lost
            CROSS JOIN LATERAL (
                SELECT leases.deadline
                FROM stint.leases
                WHERE leases.session = {session} AND leases.actor = $2::text
                OFFSET 0
            ) AS lease
            WHERE lease.deadline > statement_timestamp())
           - (SELECT count(*) FROM expired) AS leases
)
