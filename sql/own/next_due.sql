-- name: next_due
--
-- Returns what a caller that got no task with one of the actions can wait for: whether some are
-- ready all the same, since others were just taking them (contended), whether something that can be
-- made ready is due (overdue), and how long it is until the next scheduled task is due or the next
-- lease expires (pause), null if there is neither. Returns no row if something was fetched under
-- the claim after all.
--
-- A task may be scheduled for the year 9999, as the name of a shard is: nobody is told to wait for
-- more than 100 years, which the caller can still count in nanoseconds.
--
--   $1 actions    text[]
--   $2 claim      bigint
--   $3 from_rank  bigint[]
--   $4 to_rank    bigint[]: where in the queue of each action to look, as in own_tasks
--   $5 due        boolean: whether to look for what is due, too
--   $6 whole      boolean: also for what was due more than 5 s ago. That walks the dead entries of
--                 all leases that have ended, as long as some transaction is older than them
SELECT (SELECT true
        FROM unnest($1::text[], $3::bigint[], $4::bigint[]) AS queue (action, from_rank, to_rank)
        CROSS JOIN LATERAL (
            SELECT ready.lo
            FROM stint.ready
            WHERE ready.action = queue.action
              AND ready.rank BETWEEN queue.from_rank AND queue.to_rank
              AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
            ORDER BY ready.action, ready.rank, ready.hi
            LIMIT 1
        ) AS span
        LIMIT 1) IS NOT NULL AS contended,
       coalesce((SELECT true
                 FROM stint.scheduled
                 WHERE $5::boolean AND scheduled.not_before <= statement_timestamp()
                   AND scheduled.not_before > CASE
                       WHEN $6::boolean THEN '-infinity'
                       ELSE statement_timestamp() - interval '5 s'
                   END
                 LIMIT 1),
                (SELECT true
                 FROM stint.leases
                 WHERE $5::boolean AND leases.deadline <= statement_timestamp()
                   AND leases.deadline > CASE
                       WHEN $6::boolean THEN '-infinity'
                       ELSE statement_timestamp() - interval '5 s'
                   END
                 LIMIT 1),
                false) AS overdue,
       least(
           (SELECT least(scheduled.not_before, statement_timestamp() + interval '36600 days')
            FROM stint.scheduled
            WHERE $5::boolean AND scheduled.not_before > statement_timestamp()
            ORDER BY scheduled.not_before
            LIMIT 1),
           (SELECT leases.deadline
            FROM stint.leases
            WHERE $5::boolean
              AND leases.deadline > statement_timestamp() AND leases.deadline < 'infinity'
            ORDER BY leases.deadline
            LIMIT 1)
       ) - statement_timestamp() AS pause
WHERE (SELECT leases.claim FROM stint.leases WHERE leases.claim = $2::bigint LIMIT 1) IS NULL
