-- name: next_due
--
-- How long it is until the next scheduled task is due or the next lease expires; null if there is
-- neither. What is due already was seen to by the statements before this one, as far as it could be.
SELECT least(
           (SELECT scheduled.not_before
            FROM stint.scheduled
            WHERE scheduled.not_before > statement_timestamp()
            ORDER BY scheduled.not_before
            LIMIT 1),
           (SELECT leases.deadline
            FROM stint.leases
            WHERE leases.deadline > statement_timestamp() AND leases.deadline < 'infinity'
            ORDER BY leases.deadline
            LIMIT 1)
       ) - statement_timestamp() AS pause
